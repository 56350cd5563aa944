//! Container images, made without an image registry.

pub(crate) mod engine;
pub(crate) mod profiles;
pub(crate) mod python;
pub(crate) mod rootfs;
pub(crate) mod standins;

use sha2::{Digest, Sha256};

/// Name of the Python sandbox image.
pub(crate) const PYTHON: &str = "thermae/python:dev";

/// A short name for exactly these inputs. What is made from them is cached under it.
pub(crate) fn fingerprint(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    hex::encode(&hash.finalize()[..6])
}
