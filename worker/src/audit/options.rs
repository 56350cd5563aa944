//! The options of the audit log.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thermae_service::units::ByteSize;

use super::redact::Redact;

/// The audit log: what code called which tool with which arguments, and what came of it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AuditOptions {
    /// File that gets a line of JSON for each tool call, before the call leaves the worker, and one for its end. If a
    /// line can't be written, the call is refused (`audit_failed`). Without this option, there is no audit log.
    pub file: Option<PathBuf>,
    /// Values of arguments that are left out, by their paths: `card/number` is the `number` of `card`, `*` stands for
    /// one key or index, and `**` for any number of them. Upper and lower case are the same. With this option, texts
    /// of refusals that may quote arguments are left out, too.
    pub redact: Vec<String>,
    /// Largest arguments that are written, in bytes. Larger ones are left out.
    pub argument_bytes: ByteSize,
    /// Whether the client of each run gets what is told of its calls as events `audit`, with the same values left out.
    /// Otherwise, only clients whose jobs ask for it (`stream`) do. The events do not depend on `audit.file`.
    pub events: bool,
    /// Whether a line must be on the disk before the call leaves. Otherwise, the last lines are lost if the machine
    /// fails.
    pub sync: bool,
}

/// Most bytes of arguments that a line can have.
const LARGEST: ByteSize = ByteSize(512 << 10);

impl AuditOptions {
    pub(crate) fn validate(&self) -> Result<(), (&'static str, String)> {
        if self.argument_bytes.0 > LARGEST.0 {
            return Err(("argument_bytes", format!("must be at most {LARGEST}")));
        }
        let redact = Redact::new(&self.redact, 0).map(drop);
        redact.map_err(|(pattern, why)| ("redact", format!("the pattern {pattern:?} {why}")))
    }
}

impl Default for AuditOptions {
    fn default() -> Self {
        Self { file: None, redact: Vec::new(), argument_bytes: ByteSize(16 << 10), events: false, sync: false }
    }
}
