//! Tool calls: what the code may call, checked before anything leaves the machine, and the calls that wait for answers.

mod gate;
#[cfg(test)]
mod hostile;
mod outstanding;
mod params;
mod schema;

pub(crate) use gate::{Gate, Open, Refused};
pub(crate) use outstanding::{Outstanding, Unwanted};
pub(crate) use params::param_names;
