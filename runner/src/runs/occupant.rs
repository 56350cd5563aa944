//! Occupants: what uses the sandboxes.

use std::collections::{BTreeMap, HashMap};

use super::active::Active;
use super::baseline::{Baseline, Others};
use super::memory::{Counted, MemoryWatch};
use crate::files::{Programs, Seen};
use crate::frames::End;
use crate::group::MemoryGroup;
use crate::sandboxes::Sandbox;

/// What uses the sandboxes. Runs and guests share it.
pub(crate) struct Occupants {
    /// By the sandboxes' numbers.
    pub(super) by_sandbox: BTreeMap<u32, Occupant>,
    /// Sandboxes of sessions, by the sessions' names.
    pub(super) sessions: HashMap<String, u32>,
    /// Counts the memory of the container, and so of all of them.
    pub(super) counted: Counted,
}

impl Occupants {
    pub(super) fn new(group: Option<MemoryGroup>) -> Self {
        Self { by_sandbox: BTreeMap::new(), sessions: HashMap::new(), counted: Counted::new(group) }
    }

    /// How what runs in a sandbox ends if the sandbox does.
    pub(super) fn ended(&self, sandbox: u32) -> End {
        let memory = self.by_sandbox.get(&sandbox).is_some_and(|occupant| occupant.out_of_memory);
        if memory { End::OutOfMemory } else { End::SessionEnded }
    }
}

/// What uses a sandbox: one fresh run, or a session and its runs.
#[derive(Default)]
pub(super) struct Occupant {
    /// Name of the session.
    pub(super) session: Option<String>,
    /// The run that goes on.
    pub(super) run: Option<Active>,
    /// Files in the sandbox that the worker knows already.
    pub(super) seen: Seen,
    /// The files of its programs.
    pub(super) programs: Programs,
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
        let others = self.others.look(run.handed, sandbox);
        self.cpu_before = Baseline::now(sandbox, None, others, beside);
        self.run.insert(run)
    }
}
