//! The program `thermae-gateway` with stores of keys, and without a fleet: what it makes of keys and of its
//! configuration. `cli/tests/fleet` has it in front of a real fleet.
//!
//! The test of a store that goes away needs a Postgres, which `cargo xtask test` starts and names in the environment.

mod away;
mod commands;
mod guesses;
mod page;
mod program;
#[path = "../../../../keys/tests/stores/proxy.rs"]
#[allow(dead_code, unreachable_pub, reason = "the suite of the stores uses more of it")]
mod proxy;
mod refusals;
