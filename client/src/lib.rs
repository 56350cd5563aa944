//! The orchestrator's side of the wire: submit jobs, follow their events, answer their tool calls, cancel them.
//!
//! Used by the command line, the load generator and every test; it talks to the bus alone and never to the registry. It
//! declares one queue, its own replies; everything else belongs to the fleet.
//!
//! ```text
//!  Client::submit ──▶ exchange submit (confirmed; sent again with a mark when the confirm was lost)
//!  replies queue ──▶ dispatch ─┬─ event      ─▶ the job's handle (bounded; the result always fits)
//!                              ├─ tool_call  ─▶ ToolHandler, each in a task ─▶ exchange calls
//!                              └─ unknown job ─▶ dropped (a repeated result, mostly)
//! ```
//!
//! A job's first result wins: later ones are the same, byte for byte, and are dropped.

#![forbid(unsafe_code)]

mod client;
mod dispatch;
mod error;
mod handle;
mod jobs;
mod options;
mod publish;
mod questions;
mod tools;
mod trace;

pub use client::Client;
pub use error::Error;
pub use handle::{Events, JobHandle};
pub use options::Options;
pub use tools::ToolHandler;
