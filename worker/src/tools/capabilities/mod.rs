//! Capabilities of jobs: which of the calls that a job's tools would take its code may make.
//!
//! The provider [`Capable`] stands between the gate and whoever answers. It decides each call by the job's own
//! [`Allowed`], and checks the results. A job without capabilities and without a token passes through.

mod allowed;
mod asked;
mod provider;

pub(crate) use allowed::Allowed;
pub(crate) use provider::Capable;
