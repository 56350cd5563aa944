//! What a client can learn of a run while it goes on: its state, its output so far, and the calls that wait.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use thermae_schemas::{Content, OutputPart, RunState};

use crate::pending::Pending;

/// Most bytes of one output stream in an answer.
const PART: usize = 1 << 20;

/// The course of one run.
#[derive(Debug, Default)]
pub(crate) struct Course {
    /// The calls that wait for their answers.
    pub pending: Pending,
    state: AtomicU8,
    printed: Mutex<Printed>,
}

/// What the code has printed.
#[derive(Debug, Default)]
pub(crate) struct Printed {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

const RUNNING: u8 = 0;
const WAITING: u8 = 1;
const PAUSED: u8 = 2;

impl Course {
    /// Notes that the run goes on, or goes on again.
    pub(crate) fn runs(&self) {
        self.state.store(RUNNING, Ordering::Release);
    }

    /// Notes that the run waits, and keeps its slot.
    pub(crate) fn waits(&self) {
        self.state.store(WAITING, Ordering::Release);
    }

    /// Notes that the run is paused.
    pub(crate) fn pauses(&self) {
        self.state.store(PAUSED, Ordering::Release);
    }

    /// Whether the run is paused.
    pub(crate) fn is_paused(&self) -> bool {
        self.state.load(Ordering::Acquire) == PAUSED
    }

    /// State of the run.
    pub(crate) fn state(&self) -> RunState {
        match self.state.load(Ordering::Acquire) {
            WAITING => RunState::Waiting,
            PAUSED => RunState::Paused,
            _ => RunState::Running,
        }
    }

    /// What the code has printed so far.
    pub(crate) fn printed(&self) -> MutexGuard<'_, Printed> {
        self.printed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Standard output and standard error after these many bytes.
    pub(crate) fn parts(&self, stdout_from: u64, stderr_from: u64) -> (OutputPart, OutputPart) {
        let printed = self.printed();
        (part(&printed.stdout, stdout_from), part(&printed.stderr, stderr_from))
    }
}

fn part(printed: &[u8], from: u64) -> OutputPart {
    let begin = usize::try_from(from).map_or(printed.len(), |from| from.min(printed.len()));
    let end = printed.len().min(begin + PART);
    let data = Content::from(printed[begin..end].to_vec());
    OutputPart { from: begin as u64, data, more: end < printed.len() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_comes_in_parts_from_where_the_client_asks() {
        let course = Course::default();
        course.printed().stdout = vec![b'x'; PART + 3];
        course.printed().stderr = b"error".to_vec();
        let (out, err) = course.parts(0, 2);
        assert_eq!((out.from, out.data.len(), out.more), (0, PART, true));
        assert_eq!((err.from, &**err.data, err.more), (2, &b"ror"[..], false));
        let (out, err) = course.parts(PART as u64, 99);
        assert_eq!((out.data.len(), out.more, err.from, err.data.len()), (3, false, 5, 0));
        assert_eq!(course.parts(u64::MAX, 0).0.from, PART as u64 + 3);
    }
}
