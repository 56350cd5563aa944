//! Checks that honest code runs in a sandbox as it does outside. Runs CPython's own tests, one module in each job, and
//! the same modules under the plain interpreter.
//!
//! ```text
//!  cpython.toml ─▶ list ─▶ run ─┬─ inside:  a job of the embedded fleet ─┐
//!   (what, and why not)         └─ outside: the interpreter itself ──────┴─▶ compare ─▶ report
//! ```
//!
//! Both sides run `cases.py` over one module, as an ordinary user, with the same environment, the same descriptors and
//! the same kind of working directory. Each test case is compared: passed, failed or skipped. A difference is an error
//! unless `cpython.toml` explains it by name.

#![forbid(unsafe_code)]

pub mod compare;
pub mod inside;
pub mod list;
pub mod outside;
pub mod report;
pub mod run;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The program that runs one module, on either side.
pub const CASES: &str = include_str!("../cases.py");

/// How one test case went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// It passed, or failed as expected.
    Passed,
    /// It failed, or raised an exception.
    Failed,
    /// It reported that it can't be run here.
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

/// The report of `cases.py` about one module.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// Version of the interpreter.
    #[serde(default)]
    pub python: String,
    /// How each case went, by name.
    pub found: BTreeMap<String, How>,
    /// Why a case failed or was skipped, by name.
    #[serde(default)]
    pub why: BTreeMap<String, String>,
}

/// One side's run of a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Side {
    /// The report; `None` if the process ended before it could write one.
    pub told: Option<Told>,
    /// How the process ended; `None` if it ended with status 0.
    pub trouble: Option<String>,
    /// The end of its standard error.
    pub stderr: String,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
}
