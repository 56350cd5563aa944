//! Occupants: what uses a sandbox.

use super::active::Active;
use super::baseline::{Baseline, Others};
use crate::files::Seen;
use crate::sandboxes::Sandbox;

/// What uses a sandbox: one fresh run, or a session and its runs.
#[derive(Default)]
pub(super) struct Occupant {
    /// Name of the session.
    pub(super) session: Option<String>,
    /// The run that goes on.
    pub(super) run: Option<Active>,
    /// Files in the sandbox that the worker knows already.
    pub(super) seen: Seen,
    /// CPU time of the sandbox's making and of the runs before the current one.
    pub(super) cpu_before: Baseline,
    /// Whether earlier runs have started processes.
    others: Others,
}

impl Occupant {
    /// Begins a run in that sandbox.
    pub(super) fn begin(&mut self, run: Active, sandbox: &Sandbox) -> &mut Active {
        let others = self.others.look(run.handed, sandbox.pid, sandbox.handles.as_ref());
        self.cpu_before = Baseline::now(sandbox.pid, sandbox.handles.as_ref(), others);
        self.run.insert(run)
    }
}
