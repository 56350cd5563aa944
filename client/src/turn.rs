//! One client's turn to follow a job: from its submit, or from its take-over, until it ends or somebody else follows.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::{Duration, Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// A turn. Its clones are the same turn.
#[derive(Debug, Clone, Default)]
pub(crate) struct Turn(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    end: CancellationToken,
    answers: watch::Sender<Answers>,
}

/// What may be done with answers to the run's calls.
#[derive(Debug, Clone, Copy, Default)]
enum Answers {
    /// They may be sent.
    #[default]
    Sent,
    /// They are kept back until then. The worker says so again while it holds, so a worker that is dead, or an event
    /// that is lost, keeps them back no longer.
    KeptUntil(Instant),
    /// Nobody waits for them any more.
    Unwanted,
}

impl Turn {
    /// Whether both are the same turn.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Ends the turn before its job: the calls that are being answered are given up.
    pub(crate) fn end(&self) {
        self.0.end.cancel();
        self.over();
    }

    /// Ends with the turn, or by itself.
    pub(crate) fn part(&self) -> CancellationToken {
        self.0.end.child_token()
    }

    /// Has answers kept back for this time; if it is zero, they may be sent.
    pub(crate) fn hold(&self, time: Duration) {
        self.0.answers.send_if_modified(|answers| {
            let wanted = !matches!(answers, Answers::Unwanted);
            if wanted {
                *answers = if time.is_zero() { Answers::Sent } else { Answers::KeptUntil(Instant::now() + time) };
            }
            wanted
        });
    }

    /// The job has ended, or somebody else follows it: nobody waits for its answers any more.
    pub(crate) fn over(&self) {
        self.0.answers.send_replace(Answers::Unwanted);
    }

    /// Waits until an answer may be sent, at most for this time. Returns `false` if nobody waits for it any more.
    pub(crate) async fn may_answer(&self, at_most: Duration) -> bool {
        let (mut answers, latest) = (self.0.answers.subscribe(), Instant::now() + at_most);
        loop {
            let until = match *answers.borrow_and_update() {
                Answers::Sent => return true,
                Answers::KeptUntil(until) => until.min(latest),
                Answers::Unwanted => return false,
            };
            tokio::select! {
                _ = answers.changed() => {}
                () = sleep_until(until) => return true,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    const DAY: Duration = Duration::from_secs(86400);

    #[tokio::test]
    async fn answers_are_kept_back_until_the_worker_takes_more_or_is_silent() {
        let turn = Turn::default();
        assert!(turn.may_answer(DAY).await, "at first, nothing is kept back");
        turn.hold(DAY);
        let mut waiting = Box::pin(turn.may_answer(DAY));
        assert!(waiting.as_mut().now_or_never().is_none());
        turn.hold(Duration::ZERO);
        assert!(waiting.await);
        turn.hold(DAY);
        let (began, mut waiting) = (Instant::now(), Box::pin(turn.may_answer(DAY)));
        assert!(waiting.as_mut().now_or_never().is_none());
        let last = Duration::from_millis(30);
        turn.hold(last);
        assert!(waiting.await && began.elapsed() >= last, "a worker that is dead says nothing more");
    }

    #[tokio::test]
    async fn an_answer_is_not_kept_back_for_longer_than_its_call_bears() {
        let turn = Turn::default();
        turn.hold(DAY);
        assert!(turn.may_answer(Duration::from_millis(7)).await);
    }

    #[tokio::test]
    async fn the_end_lets_go_of_what_is_kept_back() {
        for end in [Turn::over, Turn::end] {
            let turn = Turn::default();
            turn.hold(DAY);
            let mut waiting = Box::pin(turn.may_answer(DAY));
            assert!(waiting.as_mut().now_or_never().is_none());
            end(&turn);
            assert!(!waiting.await);
            turn.hold(DAY);
            assert!(!turn.may_answer(DAY).await, "what the worker says then is late");
        }
    }
}
