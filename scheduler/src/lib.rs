//! The scheduler: takes jobs from the tenants' queues by weighted fair queueing, checks them, writes their records, and hands each
//! to a pool, or to the worker that holds its session, while there is credit. So order is decided late, the backlog waits in RabbitMQ
//! and not in memory, and a submit message is acknowledged only after its work message is confirmed.
//!
//! ```text
//!  Service ─▶ lead ─▶ reign ─┬─ intake ─┬─ submit queues ─▶ validate ─▶ dispatch ─▶ admit ─▶ exchange work
//!                            │          ├─ cancel     jobs that are not wanted any more
//!                            │          └─ query      questions about a tenant's own
//!                            ├─ resolve    copies of unknown fate
//!                            ├─ deadworkers  what dead workers left
//!                            └─ stranded   what was handed to pools that nobody serves any more
//! ```
//!
//! It knows no container and no code: a job is bytes, a pool, a tenant and perhaps a session. Several may run; one leads.

#![forbid(unsafe_code)]

mod admit;
mod age;
mod answer;
mod cancel;
mod config;
mod context;
mod deadworkers;
mod dispatch;
mod epochs;
mod error;
pub mod fair;
mod fleet;
mod head;
#[cfg(test)]
mod hostile;
mod intake;
mod journal;
mod known;
mod lane;
mod lead;
mod metrics;
mod options;
mod outage;
mod query;
mod reign;
mod resolve;
mod serve;
mod service;
mod session_workers;
mod stranded;
mod usage;
mod validate;
mod work;

pub use config::Config;
pub use error::Error;
pub use options::{Options, PoolOptions, TenantOptions};
pub use service::Service;
