//! Honest code runs in a sandbox as it does outside: CPython's own tests, one module a job, beside the same module under the
//! plain interpreter.
//!
//! ```text
//!  cpython.toml ─▶ list ─▶ run ─┬─ inside:  a job of the embedded fleet ─┐
//!   (what, and why not)         └─ outside: the interpreter itself ──────┴─▶ compare ─▶ report
//! ```
//!
//! Both sides run `cases.py` over one module with the same environment, the same kind of working directory and the same
//! descriptors, as an ordinary user. What is compared is how each test case went: passed, failed or skipped. A difference is a
//! fault unless `cpython.toml` explains it by name.

#![forbid(unsafe_code)]

pub mod compare;
pub mod inside;
pub mod list;
pub mod outside;
pub mod report;
pub mod run;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What runs one module on either side.
pub const CASES: &str = include_str!("../cases.py");

/// How one test case went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// It passed, or failed as it was expected to.
    Passed,
    /// It failed or raised.
    Failed,
    /// It said that it can't be run here.
    Skipped,
}

impl std::fmt::Display for How {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        })
    }
}

/// What `cases.py` tells of a module.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// Version of the interpreter.
    #[serde(default)]
    pub python: String,
    /// How each case went.
    pub found: BTreeMap<String, How>,
    /// Why it failed or was skipped.
    #[serde(default)]
    pub why: BTreeMap<String, String>,
}

/// How a module's process ended, on one side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Side {
    /// What it told; nothing where it ended before it could.
    pub told: Option<Told>,
    /// How the process ended, where not with status 0.
    pub trouble: Option<String>,
    /// The end of what it wrote to standard error.
    pub stderr: String,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
}
