//! The registry's contract.
