//! Jobs from the client to their end, on the in-process bus and registry, with a worker that runs no code.

mod answers;
mod bounds;
mod cancel;
mod credit;
mod ended;
mod fairness;
mod faulty;
mod faulty_bus;
mod fleet;
mod identity;
mod lanes;
mod lost;
mod panics;
mod paused;
mod raw;
mod requests;
mod restart;
mod rests;
mod runs;
mod sessions;
mod versions;
