//! One contract, four implementations: RabbitMQ, Redis and their in-process twins.
//!
//! The suites in `bus/suite/` and `registry/suite/` are written against the traits and run on each implementation. What
//! only a real server can do (permissions, restarts, cut connections) is in `faults.rs` of each. These tests need
//! servers, which `cargo xtask test` starts and names in the environment. Without servers, they fail and say so.

#![allow(unreachable_pub, reason = "nothing outside a test program can use it")]

mod bus;
mod registry;
mod support;
