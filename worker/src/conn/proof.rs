//! The runner's proof that its container is clean.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
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
    /// A session has the container, which goes with it.
    Moot,
}

/// Requests for proofs and their answers.
pub(super) struct Proof {
    asked: AtomicU32,
    given: watch::Sender<(u32, Verdict)>,
    moot: CancellationToken,
}

impl Default for Proof {
    fn default() -> Self {
        Self {
            asked: AtomicU32::new(0),
            given: watch::Sender::new((0, Verdict::Clean)),
            moot: CancellationToken::new(),
        }
    }
}

impl Proof {
    /// An answer to that request and all before it.
    pub(super) fn given(&self, number: u32, proof: frames::Proof) {
        let verdict = if proof.findings.is_empty() { Verdict::Clean } else { Verdict::Unclean(proof.findings) };
        self.given.send_replace((number, verdict));
    }
}

/// A proof that was asked for.
pub(crate) struct Proven {
    inner: Arc<Inner>,
    number: u32,
    given: watch::Receiver<(u32, Verdict)>,
}

impl Conn {
    /// Asks for a proof that nothing is left of the runs so far; it comes when no run goes on.
    pub(crate) fn verify(&self) -> Proven {
        let number = 1 + self.0.proof.asked.fetch_add(1, Ordering::Relaxed);
        let given = self.0.proof.given.subscribe();
        let _ = self.0.send(&Frame::raw(Kind::Verify, number, Vec::new()));
        Proven { inner: Arc::clone(&self.0), number, given }
    }

    /// Proofs that were asked for and are still to come.
    pub(crate) fn unproven(&self) -> u32 {
        self.0.proof.asked.load(Ordering::Relaxed).saturating_sub(self.0.proof.given.borrow().0)
    }

    /// A session has the container from now on: there will be no more proofs.
    pub(crate) fn no_more_proofs(&self) {
        self.0.proof.moot.cancel();
    }

    /// Whether the last proof found something.
    pub(crate) fn is_unclean(&self) -> bool {
        self.0.proof.given.borrow().1 != Verdict::Clean
    }
}

impl Proven {
    /// The verdict. `None` when the connection closed first, or when it did not come in time though no run was under way.
    pub(crate) async fn verdict(mut self, within: Duration) -> Option<Verdict> {
        loop {
            let given = self.given.wait_for(|(number, _)| *number >= self.number);
            tokio::select! {
                biased;
                given = given => return given.ok().map(|g| g.1.clone()),
                () = self.inner.proof.moot.cancelled() => return Some(Verdict::Moot),
                () = self.inner.closed.cancelled() => return None,
                () = tokio::time::sleep(within) => {}
            }
            if self.inner.runs().is_empty() {
                return None;
            }
        }
    }
}
