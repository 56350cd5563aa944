//! The jobs that wait for one session, the number of its requests, and whether the session is idle.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thermae_backplane::bus::Delivery;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::work::Work;

pub(super) struct Waiting {
    pub(super) work: Work,
    pub(super) delivery: Delivery,
    pub(super) since: Instant,
}

impl Waiting {
    fn bytes(&self) -> u64 {
        self.delivery.message.body.len() as u64
    }
}

/// A job that the queue did not accept.
pub(super) struct Refused {
    pub(super) work: Work,
    pub(super) delivery: Delivery,
    pub(super) why: Why,
}

/// Why a job was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// The session has ended.
    Ended,
    /// The session makes room for another one, and takes no more requests.
    Evicted,
    /// The jobs that wait have too many bytes.
    Full,
}

/// The jobs that wait for one session.
pub(super) struct Queue {
    state: Mutex<State>,
    wake: Notify,
}

struct State {
    jobs: VecDeque<Waiting>,
    /// Bytes of the jobs that wait.
    bytes: u64,
    running: bool,
    /// Number of requests that are open.
    requests: usize,
    /// When the last job or request ended.
    idle_since: Instant,
    /// Whether the session makes room for another one. Jobs that come meanwhile wait until it has ended.
    evicted: bool,
    closed: bool,
}

/// What a session does next.
pub(super) enum Next {
    /// Run this job.
    Job(Box<Waiting>),
    /// End: the session was idle for too long.
    Expired,
    /// End: the session makes room for another one of its tenant.
    Evicted,
}

impl Queue {
    pub(super) fn new() -> Self {
        let state = State {
            jobs: VecDeque::new(),
            bytes: 0,
            running: false,
            requests: 0,
            idle_since: Instant::now(),
            evicted: false,
            closed: false,
        };
        Self { state: Mutex::new(state), wake: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a job at the end. Gives the job back if the session has ended, or if more than `most` bytes would wait. An
    /// idle session accepts any job.
    pub(super) fn push(&self, work: Work, delivery: Delivery, most: u64) -> Result<(), Box<Refused>> {
        let mut state = self.state();
        if state.closed {
            return Err(Box::new(Refused { work, delivery, why: Why::Ended }));
        }
        let bytes = delivery.message.body.len() as u64;
        if state.bytes + bytes > most && (state.running || !state.jobs.is_empty()) {
            return Err(Box::new(Refused { work, delivery, why: Why::Full }));
        }
        state.bytes += bytes;
        state.jobs.push_back(Waiting { work, delivery, since: Instant::now() });
        self.wake.notify_one();
        Ok(())
    }

    /// Waits for the next job, at most until the session was idle for this time. Cancel-safe.
    pub(super) async fn next(&self, idle: Duration) -> Next {
        loop {
            let until = {
                let mut state = self.state();
                if state.closed {
                    return Next::Expired;
                }
                if state.evicted {
                    return Next::Evicted;
                }
                if let Some(job) = state.jobs.pop_front() {
                    state.bytes -= job.bytes();
                    state.running = true;
                    return Next::Job(Box::new(job));
                }
                let until = state.idle_since + idle;
                let used = state.requests > 0;
                if !used && until <= Instant::now() {
                    state.closed = true;
                    return Next::Expired;
                }
                (!used).then_some(until)
            };
            tokio::select! {
                () = self.wake.notified() => {}
                () = tokio::time::sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => {}
            }
        }
    }

    /// Notes that the job that ran has ended, if it has not been noted yet.
    pub(super) fn ended(&self) {
        let mut state = self.state();
        if std::mem::take(&mut state.running) {
            state.idle_since = Instant::now();
        }
    }

    /// Counts a request, so that the session is not idle. `Err` if the session has ended, or if `most` are open
    /// already.
    pub(super) fn request_begins(&self, most: usize) -> Result<(), Why> {
        let mut state = self.state();
        if state.closed {
            return Err(Why::Ended);
        }
        if state.evicted {
            return Err(Why::Evicted);
        }
        if state.requests >= most {
            return Err(Why::Full);
        }
        state.requests += 1;
        Ok(())
    }

    /// Notes that a request has ended.
    pub(super) fn request_ended(&self) {
        let mut state = self.state();
        state.requests -= 1;
        state.idle_since = Instant::now();
        self.wake.notify_one();
    }

    /// Takes out the jobs that have waited for at least this time.
    pub(super) fn take_old(&self, age: Duration) -> Vec<Waiting> {
        let mut state = self.state();
        let old = state.jobs.iter().take_while(|j| j.since.elapsed() >= age).count();
        let old: Vec<_> = state.jobs.drain(..old).collect();
        state.bytes -= old.iter().map(Waiting::bytes).sum::<u64>();
        old
    }

    /// Closes the queue, and returns the jobs that wait.
    pub(super) fn close(&self) -> Vec<Waiting> {
        let mut state = self.state();
        state.closed = true;
        state.bytes = 0;
        state.jobs.drain(..).collect()
    }

    /// Has the session end to make room for another one, if it has been idle for `least`. Returns whether it does.
    pub(super) fn evict(&self, least: Duration) -> bool {
        let mut state = self.state();
        let may = state.unused_for(least);
        if may {
            state.evicted = true;
            self.wake.notify_one();
        }
        may
    }

    /// Whether the session makes room for another one.
    pub(super) fn is_evicted(&self) -> bool {
        self.state().evicted
    }

    /// Since when the session has been idle, if it may make room for another one: it has been idle for `least`.
    pub(super) fn evictable_since(&self, least: Duration) -> Option<Instant> {
        let state = self.state();
        state.unused_for(least).then_some(state.idle_since)
    }

    /// Since when the session has been idle; `None` if it is not idle.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let state = self.state();
        (state.is_idle() && !state.closed).then_some(state.idle_since)
    }

    /// Time until the session expires if no job comes.
    pub(super) fn expires_in(&self, idle: Duration) -> Duration {
        self.idle_since().map_or(idle, |since| idle.saturating_sub(since.elapsed()))
    }
}

impl State {
    fn unused_for(&self, least: Duration) -> bool {
        self.is_idle() && !self.closed && !self.evicted && self.idle_since.elapsed() >= least
    }

    fn is_idle(&self) -> bool {
        !self.running && self.jobs.is_empty() && self.requests == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: Duration = Duration::from_secs(30);

    #[test]
    fn a_session_is_idle_from_the_end_of_its_job_on_however_long_its_result_takes() {
        let queue = Queue::new();
        queue.state().running = true;
        assert_eq!(queue.idle_since(), None);
        queue.ended();
        let since = queue.idle_since().unwrap();
        while Instant::now() == since {}
        // Its result has been told.
        queue.ended();
        assert_eq!(queue.idle_since(), Some(since));
    }

    #[tokio::test]
    async fn only_a_session_that_was_unused_for_long_enough_makes_room() {
        let queue = Queue::new();
        queue.state().idle_since -= LEAST;
        queue.request_begins(1).unwrap();
        assert!(!queue.evict(LEAST) && !queue.evict(Duration::ZERO), "a request is under way");
        queue.request_ended();
        assert!(!queue.evict(LEAST) && queue.evictable_since(LEAST).is_none(), "it was used just now");
        queue.state().idle_since -= LEAST;
        assert!(queue.evictable_since(LEAST).is_some() && !queue.is_evicted());
        assert!(queue.evict(LEAST) && queue.is_evicted());
        assert!(!queue.evict(LEAST) && queue.evictable_since(LEAST).is_none(), "once");
        assert_eq!(queue.request_begins(1), Err(Why::Evicted));
        assert!(matches!(queue.next(LEAST).await, Next::Evicted));
    }
}
