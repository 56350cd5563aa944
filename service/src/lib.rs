//! What every long-running process of the fleet has: configuration, logs, traces, a health and metrics endpoint, signals.
//!
//! The binaries of the scheduler, the worker and the command line are a few lines on top of this and of their own library.
//! Nothing here knows what a job is.

#![forbid(unsafe_code)]

pub mod config;
pub mod health;
#[cfg(test)]
mod hostile;
pub mod http;
pub mod secret;
pub mod signals;
pub mod supervise;
pub mod telemetry;
pub mod tls;
pub mod trace;
pub mod units;
