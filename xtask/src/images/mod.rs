//! Container images, made with no image registry.

/// The name of the Python sandbox image.
pub(crate) const PYTHON: &str = "thermae/python:dev";
