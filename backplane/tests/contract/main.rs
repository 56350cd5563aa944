//! One contract, four implementations: the in-process twins, RabbitMQ and Redis.
//!
//! The suites in `bus/suite/` and `registry/suite.rs` are written against the traits and run on each implementation;
//! what only a real server can do (permissions, restarts, cut connections) is in `faults.rs` of each. The real halves need
//! servers, which `cargo xtask test` starts and names in the environment; without them they fail, and say so.

#![allow(unreachable_pub, reason = "nothing outside a test program can use it")]

mod bus;
mod registry;
mod support;
