//! Runs that wait for a sandbox, and what a sandbox's process is told of one.

use std::collections::BTreeMap;
use std::time::Instant;

use serde::Serialize;

use crate::files;
use crate::frames::{Place, Run, Tool};
use crate::languages::Flavor;

/// How many sandboxes may die under a run before its code starts. Then the run ends.
pub(super) const MOST_LOST: u32 = 2;

/// A run that has no sandbox yet.
pub(super) struct Pending {
    pub(super) number: u32,
    pub(super) run: Run,
    /// Its input files.
    pub(super) files: files::Inputs,
    pub(super) flavor: Flavor,
    pub(super) arrived: Instant,
    /// Whether `dispatch` has tried before to start it, and could not.
    pub(super) waited: bool,
    /// How many sandboxes have died under it before its code started.
    pub(super) lost: u32,
}

impl Pending {
    /// Name of the session that it runs in; `None` for a fresh sandbox.
    pub(super) fn session(&self) -> Option<&str> {
        match &self.run.place {
            Place::Fresh => None,
            Place::Session { session, .. } => Some(session),
        }
    }

    /// The message that gives the program to a job's process. `linger` is as in [`RunMessage`].
    pub(super) fn message(&self, linger: bool) -> RunMessage<'_> {
        RunMessage {
            op: "run",
            code: &self.run.code,
            argv: &self.run.argv,
            env: &self.run.env,
            tools: &self.run.tools,
            session: self.session().is_some(),
            linger,
            follow: self.run.follow,
            soft_ms: None,
        }
    }
}

/// The message that gives a program to a job's process.
#[derive(Serialize)]
pub(super) struct RunMessage<'a> {
    pub(super) op: &'static str,
    pub(super) code: &'a str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub(super) argv: &'a [String],
    pub(super) env: &'a BTreeMap<String, String>,
    pub(super) tools: &'a [Tool],
    pub(super) session: bool,
    /// Whether the process waits to be killed when it is done, instead of exiting.
    pub(super) linger: bool,
    /// Whether it writes each line of output at once.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) follow: bool,
    pub(super) soft_ms: Option<u64>,
}
