//! The options for answers to tool calls that runs have not read yet.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thermae_service::units::ByteSize;

/// How much a worker keeps of the answers to tool calls that runs have not read yet: because they are paused, have no
/// slot yet, or do something else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AnswerOptions {
    /// Memory for answers that one run has not read. Further answers are written to `dir` until the run reads them.
    pub run_memory: ByteSize,
    /// Memory for answers that all runs of one tenant have not read. Further ones are written to `dir`.
    pub tenant_memory: ByteSize,
    /// Memory for answers that have not been read, of all tenants together. Further ones are written to `dir`.
    pub memory: ByteSize,
    /// Largest total size of one tenant's answers in `dir`. A further answer is dropped, and its call raises
    /// `ToolError` (`tool_answer_limit`).
    pub tenant_disk: ByteSize,
    /// Largest total size of all answers in `dir`. A further answer is dropped, and its call raises `ToolError`
    /// (`tool_answer_limit`).
    pub disk: ByteSize,
    /// Directory for answers that do not fit into memory. They have no names there, so nobody else can open them, and
    /// none is left when the worker ends. Choose one on a disk.
    pub dir: PathBuf,
}

impl Default for AnswerOptions {
    fn default() -> Self {
        Self {
            run_memory: ByteSize::mib(32),
            tenant_memory: ByteSize::mib(64),
            memory: ByteSize::mib(128),
            tenant_disk: ByteSize::mib(1024),
            disk: ByteSize::mib(4096),
            dir: "/var/tmp".into(),
        }
    }
}
