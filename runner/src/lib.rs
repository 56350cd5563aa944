//! The runner: the program inside a container that makes sandboxes, and the frames it speaks with its worker.

pub mod frames;
