//! The gateway: HTTP in front of a fleet, for those who speak no AMQP. `docs/gateway.md` says how to use it, and
//! `schemas/openapi.json` lists all operations.
//!
//! ```text
//!  socket ─▶ server (connections, drain) ─▶ app (request id, limits, metrics) ─▶ routes ─▶ service ─▶ fleet
//!                                            │                                    │          │
//!                        identity: the caller, with a tenant and scopes           │          └─ runs: events, calls,
//!                        tenants: a service for each ─▶ fleets                    │                   outcome
//!                                            op: the table of all operations ◀────┘
//!                                             └─▶ openapi                       usage ◀──┘
//! ```
//!
//! An SDK's connection (`/v1/connect`) is a WebSocket that the bridge serves; `connect` sets its terms.
//!
//! [`service`](Gateway) functions do the work; routes only turn requests into their arguments, and their results into
//! answers. The runs that were submitted through a gateway are held by it: their latest events, the tool calls that
//! wait for an answer, and the outcome for a while.

#![deny(unsafe_code)]

mod app;
mod budget;
mod call;
mod check;
mod config;
mod connect;
mod fleets;
mod hold;
#[cfg(test)]
mod hostile;
mod identity;
mod memory;
mod metrics;
mod op;
pub mod openapi;
mod options;
mod problem;
mod range;
mod room;
mod routes;
mod server;
mod service;
mod sse;
mod tenants;
mod token;
mod usage;

pub use config::{Config, Own};
pub use fleets::{Fleets, Unopened};
pub use identity::{Caller, Denied, Identity};
pub use metrics::Metrics;
pub use options::Options;
pub use problem::{CODES, Code};
pub use server::{Error, Gateway, Parts};
pub use service::Tokens;
pub use token::Token;
