//! Tool calls: what a job's code may call, the path of each call, and who answers it.
//!
//! ```text
//! frame of the runner ─▶ Gate: bounds ─▶ call: read ─▶ Gate: check ─▶ Provider ─▶ frame to the runner
//!                                                                        └ Capable: the job's capabilities and token
//!                                                                          ├ Approvals: event `approval` ─▶ a yes
//!                                                                          └ Client: reply queue ─▶ queue `calls`
//! ```
//!
//! Each provider has a file or a folder of its own. The rest of the worker knows only the trait.

mod approval;
mod call;
mod capabilities;
mod client;
mod exact;
mod explain;
mod failure;
mod gate;
#[cfg(test)]
mod hostile;
mod in_flight;
mod kept;
mod parameters;
mod pattern;
mod provider;
mod schema;
mod token;

pub(crate) use approval::Approvals;
pub(crate) use call::{Patience, Unread, call, turn_away};
pub(crate) use capabilities::{Allowed, Capable};
pub(crate) use client::Client;
pub use gate::check_tools;
pub(crate) use gate::{Gate, Open};
pub(crate) use in_flight::InFlight;
pub(crate) use kept::{Keeper, Kept, Said};
pub(crate) use provider::{Answer, Call, Provider, Refused};
pub(crate) use token::Held;
