//! The runner's proofs that its container is clean: requests for them, and their verdicts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thermae_runner::frames::{self, Frame, Kind};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Conn, Inner};

/// What the proofs of a container have shown so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing is left of any job.
    Clean,
    /// Something is left; the runner's findings.
    Unclean(Vec<String>),
    /// No proof will come, and no job: a session has the container, which is removed with the session, or the runner is
    /// gone.
    Moot,
}

/// Requests for proofs, and their answers.
pub(super) struct Proof {
    asked: Mutex<Asked>,
    given: watch::Sender<(u32, Verdict)>,
    moot: CancellationToken,
    /// Memory of the container when the runner last measured it, in bytes.
    pub(super) memory: AtomicU64,
}

/// The requests so far.
#[derive(Default)]
struct Asked {
    /// Number of the last request.
    last: u32,
    /// Whether a task awaits all answers, including those to later requests.
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

    /// Notes an answer to this request and to all earlier ones.
    pub(super) fn given(&self, number: u32, proof: frames::Proof) {
        self.memory.store(proof.memory_bytes, Ordering::Relaxed);
        let verdict = if proof.findings.is_empty() { Verdict::Clean } else { Verdict::Unclean(proof.findings) };
        self.given.send_modify(|given| {
            given.0 = number;
            // A finding stays, although a later look may come too late to see it.
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
    /// Number of proofs that were asked for before this one and have not come yet.
    pub(crate) behind: u32,
    /// Whether no other task awaits the answers. Then the holder of this must await them all ([`Proven::next`]).
    pub(crate) alone: bool,
    given: watch::Receiver<(u32, Verdict)>,
}

impl Conn {
    /// Asks for a proof that nothing is left of the runs so far. It comes when no run is under way.
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

    /// Gives the container to a session: no more proofs will come.
    pub(crate) fn no_more_proofs(&self) {
        self.0.proof.moot.cancel();
    }

    /// Memory that the container's permanent processes share with no process outside of it, in bytes, as the runner
    /// last reported it.
    pub(crate) fn memory(&self) -> u64 {
        self.0.proof.memory.load(Ordering::Relaxed)
    }

    /// Whether every proof that was asked for has come.
    pub(crate) fn is_proven(&self) -> bool {
        let asked = self.0.proof.asked().last;
        self.0.proof.given.borrow().0 >= asked
    }

    /// Whether a proof has found something.
    pub(crate) fn is_unclean(&self) -> bool {
        self.0.proof.given.borrow().1 != Verdict::Clean
    }
}

impl Proven {
    /// The latest request, if its answer has not come yet. An answer counts for all requests before it, and for none
    /// after it.
    pub(crate) fn next(self) -> Option<Self> {
        let mut asked = self.inner.proof.asked();
        let number = asked.last;
        asked.awaited = self.given.borrow().0 < number;
        let awaited = asked.awaited;
        drop(asked);
        awaited.then_some(Self { number, behind: 0, ..self })
    }

    /// Records that no verdict came. The container then counts as unclean.
    pub(crate) fn despair(&self) {
        let verdict = Verdict::Unclean(vec!["the runner gave no proof".into()]);
        self.inner.proof.given.send_modify(|given| given.1 = verdict);
    }

    /// The verdict. `None` if it did not come in time, although no run was under way.
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
        // The answer is there, but nobody has looked at it yet, when the next job ends.
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
