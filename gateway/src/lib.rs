//! The gateway: HTTP in front of a fleet, for those who speak no AMQP. `docs/gateway.md` says how to use it, and
//! `schemas/openapi.json` lists all operations.
//!
//! ```text
//!  socket ─▶ server (connections, drain) ─▶ app (token, request id, limits, metrics) ─▶ routes ─▶ service ─▶ fleet
//!                                                                                        │          │
//!                                            op: the table of all operations ◀───────────┘          └─ runs: events,
//!                                             └─▶ openapi                                               calls, outcome
//! ```
//!
//! An SDK's connection (`/v1/connect`) is a WebSocket that the bridge serves; `connect` sets its terms.
//!
//! [`service`](Gateway) functions do the work; routes only turn requests into their arguments, and their results into
//! answers. The runs that were submitted through a gateway are held by it: their latest events, the tool calls that
//! wait for an answer, and the outcome for a while.

#![forbid(unsafe_code)]

mod app;
mod budget;
mod call;
mod connect;
#[cfg(test)]
mod hostile;
mod metrics;
mod op;
pub mod openapi;
mod options;
mod problem;
mod range;
mod routes;
mod server;
mod service;
mod sse;
mod token;

pub use metrics::Metrics;
pub use options::Options;
pub use problem::{CODES, Code};
pub use server::{Error, Gateway};
pub use token::Token;
