//! What the tests of several crates share: free addresses, hostile input, JSON in all its forms, the pages of the
//! documentation, a collector of traces, an S3 server, and the simplest end of a runner's socket.
//!
//! Only tests and measurements use this crate. What needs other dependencies is behind a feature named like its module.

#![forbid(unsafe_code)]

pub mod address;
#[cfg(feature = "bucket")]
pub mod bucket;
#[cfg(feature = "collector")]
pub mod collector;
pub mod hostile;
pub mod json;
pub mod page;
#[cfg(feature = "peer")]
pub mod peer;
