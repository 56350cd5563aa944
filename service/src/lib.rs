//! What every long-running process of the fleet needs: configuration, logs, traces, an HTTP endpoint for health and
//! metrics, and signal handling.
//!
//! The programs of the scheduler, the worker and the command line consist of this crate, their own library and a few
//! more lines. [`program`] is what the scheduler and the worker do in the same way. This crate doesn't know what a job
//! is.

#![forbid(unsafe_code)]

pub mod backoff;
pub mod config;
pub mod health;
#[cfg(test)]
mod hostile;
pub mod http;
pub mod program;
pub mod secret;
pub mod signals;
pub mod supervise;
pub mod telemetry;
pub mod tls;
pub mod trace;
pub mod units;
