//! The backplane: RabbitMQ and Redis behind two traits, [`bus::Bus`] and [`registry::Registry`], each with a twin that
//! lives in one process. One contract suite (`tests/contract`) runs against all four.
//!
//! Nothing above this room knows which twin it talks to; nothing in it knows what a job's code does.

#![forbid(unsafe_code)]

pub mod allowance;
pub mod bus;
pub mod record;
pub mod registry;
pub mod stored;

pub use bus::{declare_fleet, declare_worker, remember_worker};
