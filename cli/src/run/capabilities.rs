//! The file of `--capabilities`: what the program can do with its tools.

use std::path::Path;

use thermae_schemas::Capabilities;

use crate::failure::Failure;

/// Reads a file of capabilities.
///
/// # Errors
/// The file can't be read, or is not a JSON array of capabilities.
pub(super) fn read(file: &Path) -> Result<Capabilities, Failure> {
    let text = super::job::text(file, "file of capabilities")?;
    Capabilities::from_json(&text).map_err(|error| {
        Failure::usage("bad_capability", format!("--capabilities {}: {error}", file.display())).help(
            "it is a JSON array: [{\"pattern\": \"transfer\", \"constraints\": [{\"path\": \"amount\", \"op\": \"<\", \
             \"value\": 1000}], \"max_calls\": 3}]",
        )
    })
}
