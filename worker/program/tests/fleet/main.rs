//! The worker in a fleet of one process: with the twins of the bus and the registry, a scheduler of a few lines, and
//! either the real runner behind the native backend or a scripted one.

#![allow(unreachable_pub, reason = "one test program, many files")]

mod answers;
mod approvals;
mod audits;
mod capabilities;
mod checkpoints;
mod fake;
mod faults;
mod files;
mod harness;
mod inputs;
mod jobs;
mod limits;
mod outages;
mod outcomes;
mod pauses;
mod proofs;
mod ready;
mod requests;
mod sessions;
mod taken;
mod tenants;
mod tokens;
mod tools;
mod traffic;
