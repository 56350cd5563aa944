//! The languages that programs are written in, each in a folder of its own.

pub(crate) mod python;
