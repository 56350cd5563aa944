//! Load generators for a fleet: closed-loop measurements for the bench, the floor below them, and open-loop scenarios
//! for capacity.
//!
//! Every answer is checked, and canaries between the timed jobs prove that each sandbox was fresh. A wrong answer is an
//! error of the run, never a slow sample.

pub mod baseline;
pub mod cases;
pub mod closed;
pub mod cpu;
pub mod first;
pub mod floor;
pub mod gateway;
pub mod hostile;
pub mod open;
pub mod phases;
mod process;
pub mod report;
pub mod rpc;
pub mod scenario;
pub mod sdk;
pub mod soak;
pub mod start;
pub mod target;
pub mod tenants;
pub mod turns;
