//! Tool calls: what the code may call, checked before anything leaves the machine, and the calls that wait for answers.

mod gate;
mod outstanding;
mod params;

pub(crate) use gate::{Gate, Refused};
pub(crate) use outstanding::Outstanding;
pub(crate) use params::param_names;
