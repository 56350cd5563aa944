//! The backplane: RabbitMQ and Redis behind two traits, [`bus::Bus`] and [`registry::Registry`]. Each trait also has a
//! twin, an implementation that lives in one process. One contract suite (`tests/contract`) runs against all four. The
//! registry in Redis is a crate of its own, `thermae-redis`, for programs that connect to servers.
//!
//! Code that uses this crate doesn't know whether it talks to a server or to a twin. This crate doesn't know what a
//! job's code does.

#![forbid(unsafe_code)]

pub mod allowance;
pub mod bus;
pub mod record;
pub mod registry;
pub mod stored;

pub use bus::{declare_fleet, declare_worker, remember_worker};
