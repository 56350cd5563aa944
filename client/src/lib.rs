//! The client's side of the protocol: submits jobs, follows their events, answers their tool calls and cancels them,
//! takes over runs of other clients, and sends requests to live sessions.
//!
//! The command line, the load generator and tests use this crate. It talks only to the bus, never to the registry. It
//! declares only its own reply queue; the fleet declares everything else.
//!
//! ```text
//!  Client::submit ──▶ exchange submit (confirmed; sent again with a mark if the confirm was lost)
//!  replies queue ──▶ dispatch ─┬─ event      ─▶ Follower; usually the job's handle (bounded; the result always fits)
//!                              ├─ tool_call  ─▶ Follower; usually a ToolHandler, each in a task ─▶ exchange calls
//!                              ├─ opened, output, credit, done ─▶ RequestHandle (bounded by the request's window)
//!                              └─ unknown job ─▶ dropped (usually a repeated result)
//!  Client::decide ──▶ exchange approvals (sent again until the worker answers)
//!  Client::attach ──▶ exchange submit (a question that takes the run over) ──▶ event `run`, then as after a submit
//!  Client::request ──▶ exchange submit; input, credit, signals, cancel ─▶ exchange calls
//! ```
//!
//! The first result of a job counts. Later ones are the same, byte for byte, and are dropped.

#![forbid(unsafe_code)]

mod client;
mod closure;
mod decisions;
mod dispatch;
mod error;
mod follow;
mod handle;
mod jobs;
mod options;
mod publish;
mod questions;
mod requests;
mod runs;
mod store;
mod tools;
mod trace;
mod turn;

pub use client::Client;
pub use closure::Tools;
pub use error::Error;
pub use follow::Follower;
pub use handle::{Events, JobHandle};
pub use options::Options;
pub use requests::RequestHandle;
pub use store::Store;
pub use tools::ToolHandler;
