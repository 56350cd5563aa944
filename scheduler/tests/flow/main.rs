//! The whole way of a job through the scheduler, on the in-process bus and registry, with a worker that runs no code.

mod answers;
mod cancel;
mod fairness;
mod fleet;
mod lost;
mod restart;
mod sessions;
