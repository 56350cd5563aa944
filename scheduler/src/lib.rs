//! The scheduler takes jobs from the tenants' queues by weighted fair queueing, checks them and writes their records.
//! It hands a job to its pool, or to the worker that holds its session, only while the pool has credit. So the order is
//! decided late, and the backlog waits in RabbitMQ and not in memory. A submit message is acknowledged only after the
//! work message is confirmed.
//!
//! ```text
//!  Service ─▶ lead ─▶ reign ─┬─ intake ─┬─ submit queues ─▶ validate ─▶ dispatch ─▶ admit ─▶ exchange work
//!                            │          ├─ cancel     jobs that their clients cancel
//!                            │          ├─ query      clients' questions about their tenant's sessions
//!                            │          └─ request    clients' requests to live sessions
//!                            ├─ resolve    copies of unknown fate
//!                            ├─ deadworkers  messages in the queues of dead workers
//!                            └─ stranded   jobs that were handed to pools without a worker
//! ```
//!
//! A job is opaque here: bytes, a pool, a tenant and perhaps a session. Several schedulers may run, and one of them
//! leads.

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
mod request;
mod resolve;
mod run;
mod serve;
mod service;
mod session_workers;
mod stranded;
mod usage;
mod validate;
mod work;

pub use config::{Config, Own};
pub use error::Error;
pub use options::{Options, PoolOptions, TenantOptions};
pub use service::Service;
