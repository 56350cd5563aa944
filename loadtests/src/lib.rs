//! Load on a fleet, and what it answers: closed-loop measurements for the benches and the floor under them, open-loop
//! scenarios for capacity.
//!
//! Every answer is checked, and canaries between the timed jobs prove that each sandbox was fresh; a wrong answer is an
//! error of the run and not a slow sample.

#![forbid(unsafe_code)]

pub mod baseline;
pub mod cases;
pub mod closed;
pub mod cpu;
pub mod first;
pub mod floor;
pub mod hostile;
pub mod open;
pub mod phases;
mod process;
pub mod report;
pub mod rpc;
pub mod scenario;
pub mod soak;
pub mod start;
pub mod target;
pub mod tenants;
