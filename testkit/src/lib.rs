//! What the tests of several crates share: hostile input, a collector of traces, and an S3 server.
//!
//! Only tests use this crate. The servers need large dependencies, so each is behind a feature named like its module.

#![forbid(unsafe_code)]

#[cfg(feature = "bucket")]
pub mod bucket;
#[cfg(feature = "collector")]
pub mod collector;
pub mod hostile;
