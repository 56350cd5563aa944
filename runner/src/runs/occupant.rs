//! Occupants: what uses a sandbox.

use super::active::Active;
use super::baseline::{Baseline, Others};
use super::memory::MemoryWatch;
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
    /// Watches the sandbox's memory while commands run there and no program does.
    pub(super) memory: Option<MemoryWatch>,
    /// Whether the runner killed the sandbox because memory ran out.
    pub(super) out_of_memory: bool,
}

impl Occupant {
    /// Begins a run in that sandbox.
    ///
    /// `beside` is as in [`Baseline::now`].
    pub(super) fn begin(&mut self, run: Active, sandbox: &Sandbox, beside: &[i32]) -> &mut Active {
        let others = self.others.look(run.handed, sandbox.pid, sandbox.handles.as_ref());
        self.cpu_before = Baseline::now(sandbox.pid, sandbox.handles.as_ref(), others, beside);
        self.run.insert(run)
    }
}
