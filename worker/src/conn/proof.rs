//! The runner's proof that its container is clean.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thermae_runner::frames::{self, Frame, Kind};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Conn, Inner};

/// What the last proof said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing is left of any job.
    Clean,
    /// Something is: what.
    Unclean(Vec<String>),
    /// There will be none, and no job either: a session has the container, which goes with it, or its runner is gone.
    Moot,
}

/// Requests for proofs and their answers.
pub(super) struct Proof {
    asked: Mutex<Asked>,
    given: watch::Sender<(u32, Verdict)>,
    moot: CancellationToken,
    /// What the container weighed at the last look, in bytes.
    pub(super) memory: AtomicU64,
}

/// What was asked for so far.
#[derive(Default)]
struct Asked {
    /// Number of the last request.
    last: u32,
    /// Whether somebody awaits all answers, also those to requests to come.
    awaited: bool,
}

impl Default for Proof {
    fn default() -> Self {
        Self {
            asked: Mutex::default(),
            given: watch::Sender::new((0, Verdict::Clean)),
            moot: CancellationToken::new(),
            memory: AtomicU64::new(0),
        }
    }
}

impl Proof {
    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An answer to that request and all before it.
    pub(super) fn given(&self, number: u32, proof: frames::Proof) {
        self.memory.store(proof.memory_bytes, Ordering::Relaxed);
        let verdict = if proof.findings.is_empty() { Verdict::Clean } else { Verdict::Unclean(proof.findings) };
        self.given.send_modify(|given| {
            given.0 = number;
            // What was found once stays found, though the next look may come too late to see it.
            if given.1 == Verdict::Clean {
                given.1 = verdict;
            }
        });
    }
}

/// A proof that was asked for.
pub(crate) struct Proven {
    inner: Arc<Inner>,
    number: u32,
    /// Proofs that were asked for before this one and are still to come.
    pub(crate) behind: u32,
    /// Whether nobody else awaits the answers; then whoever holds this must, to the last ([`Proven::next`]).
    pub(crate) alone: bool,
    given: watch::Receiver<(u32, Verdict)>,
}

impl Conn {
    /// Asks for a proof that nothing is left of the runs so far; it comes when no run goes on.
    pub(crate) fn verify(&self) -> Proven {
        let given = self.0.proof.given.subscribe();
        let mut asked = self.0.proof.asked();
        let behind = asked.last.saturating_sub(given.borrow().0);
        asked.last += 1;
        let (number, alone) = (asked.last, !std::mem::replace(&mut asked.awaited, true));
        let _ = self.0.send(&Frame::raw(Kind::Verify, number, Vec::new()));
        drop(asked);
        Proven { inner: Arc::clone(&self.0), number, behind, alone, given }
    }

    /// A session has the container from now on: there will be no more proofs.
    pub(crate) fn no_more_proofs(&self) {
        self.0.proof.moot.cancel();
    }

    /// Memory that the container's standing processes share with nobody outside, by its runner's last word.
    pub(crate) fn memory(&self) -> u64 {
        self.0.proof.memory.load(Ordering::Relaxed)
    }

    /// Whether every proof that was asked for has come.
    pub(crate) fn is_proven(&self) -> bool {
        let asked = self.0.proof.asked().last;
        self.0.proof.given.borrow().0 >= asked
    }

    /// Whether the last proof found something.
    pub(crate) fn is_unclean(&self) -> bool {
        self.0.proof.given.borrow().1 != Verdict::Clean
    }
}

impl Proven {
    /// What was asked for since, if it is still to come: an answer is one to all requests before it, and to none after it.
    pub(crate) fn next(self) -> Option<Self> {
        let mut asked = self.inner.proof.asked();
        let number = asked.last;
        asked.awaited = self.given.borrow().0 < number;
        let awaited = asked.awaited;
        drop(asked);
        awaited.then_some(Self { number, behind: 0, ..self })
    }

    /// A verdict that does not come is one, too: the container is not to be trusted.
    pub(crate) fn despair(&self) {
        let verdict = Verdict::Unclean(vec!["the runner gives no proof".into()]);
        self.inner.proof.given.send_modify(|given| given.1 = verdict);
    }

    /// The verdict. `None` when it did not come in time though no run was under way.
    pub(crate) async fn verdict(&mut self, within: Duration) -> Option<Verdict> {
        loop {
            let idle = self.inner.idle();
            let given = self.given.wait_for(|(number, _)| *number >= self.number);
            tokio::select! {
                biased;
                given = given => return given.ok().map(|g| g.1.clone()),
                () = self.inner.proof.moot.cancelled() => return Some(Verdict::Moot),
                () = self.inner.closed.cancelled() => return Some(Verdict::Moot),
                () = tokio::time::sleep(within) => {}
            }
            if idle.is_some() && idle == self.inner.idle() {
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clean() -> frames::Proof {
        frames::Proof::default()
    }

    fn conn(tasks: &tokio_util::task::TaskTracker) -> (Conn, tokio::net::UnixStream) {
        let (ours, runner) = tokio::net::UnixStream::pair().unwrap();
        let pings = super::super::Pings { every: Duration::from_secs(60), within: Duration::from_secs(60) };
        let setup = crate::backend::setup(&crate::options::PoolOptions::default(), "/usr/bin/python3".into());
        (Conn::start(ours, &setup, pings, tasks), runner)
    }

    #[tokio::test]
    async fn one_awaits_every_answer_and_only_one() {
        let tasks = tokio_util::task::TaskTracker::new();
        let (conn, _runner) = conn(&tasks);
        let mut first = conn.verify();
        assert!(first.alone);
        conn.0.proof.given(1, clean());
        // The answer is there, and not yet looked at, when the next job ends.
        let second = conn.verify();
        assert!(!second.alone && second.behind == 0);
        assert_eq!(first.verdict(Duration::from_secs(60)).await, Some(Verdict::Clean));
        let mut rest = first.next().expect("the second is still to come");
        conn.0.proof.given(2, clean());
        assert_eq!(rest.verdict(Duration::from_secs(60)).await, Some(Verdict::Clean));
        assert!(rest.next().is_none());
        assert!(conn.verify().alone);
    }

    #[tokio::test]
    async fn what_was_found_or_never_said_stays() {
        let tasks = tokio_util::task::TaskTracker::new();
        let (found, _runner) = conn(&tasks);
        found.verify();
        found.0.proof.given(1, frames::Proof { findings: vec!["a miner".into()], ..Default::default() });
        found.verify();
        found.0.proof.given(2, clean());
        assert!(found.is_unclean());
        let (mute, _runner) = conn(&tasks);
        let mut proven = mute.verify();
        assert_eq!(proven.verdict(Duration::from_millis(1)).await, None);
        proven.despair();
        assert!(mute.is_unclean());
    }
}
