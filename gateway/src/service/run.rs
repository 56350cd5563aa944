//! One run: takes its events from the client, and keeps them for those who follow it.

mod approvals;
mod calls;
mod events;

use std::sync::Weak;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use thermae_client::Follower;
use thermae_schemas::{Artifact, Event, EventBody, JobId, Outcome, Status, ToolCall, ToolFailure};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::approvals::Approvals;
use self::calls::Calls;
use super::places::Place;
use super::table::Runs;
use super::views::{LostView, OutcomeText, RunState, RunSummary, RunView};
use crate::budget::Held;
use crate::problem::Problem;

pub(crate) use self::calls::Answered;
pub(super) use self::events::Events;
pub(crate) use self::events::Next;

/// What a run takes besides its texts.
const PER_RUN: usize = 1 << 10;
/// What the client takes for a run under way, besides the text of the job.
const PER_JOB: usize = 3 << 10;

/// A run that was submitted through this gateway, or that the gateway took over.
pub(crate) struct Run {
    pub(crate) id: JobId,
    /// Digest of its job, if the job was submitted here.
    pub(super) digest: Option<[u8; 32]>,
    /// Its number in the order in which runs came; 0 until it is in the table.
    number: AtomicU64,
    /// Whether the table has counted its end.
    end_counted: AtomicBool,
    runs: Weak<Runs>,
    state: watch::Sender<State>,
}

struct State {
    events: Events,
    calls: Calls,
    approvals: Approvals,
    end: Option<End>,
    /// Bytes of the job, which the client keeps until the end.
    job_bytes: usize,
    held: Held,
    /// Its place among the runs under way, until the end.
    place: Option<Place>,
    /// What is done at the end.
    at_end: Vec<AtEnd>,
}

type AtEnd = Box<dyn FnOnce() + Send + Sync>;

/// How a run ended.
#[derive(Clone)]
enum End {
    /// With this result, as the fleet sent it.
    Result(Option<Status>, Bytes),
    /// The gateway lost the fleet.
    Lost(LostView),
}

impl State {
    /// Counts what it holds. If the gateway holds too much, drops the oldest events.
    fn count(&mut self) -> usize {
        let job = if self.end.is_some() { 0 } else { self.job_bytes + PER_JOB };
        let mut dropped = 0;
        while !self.held.set(PER_RUN + job + self.waiting_bytes() + self.events.bytes()) && self.events.drop_oldest() {
            dropped += 1;
        }
        dropped
    }

    /// Bytes of the calls that wait.
    fn waiting_bytes(&self) -> usize {
        self.calls.bytes() + self.approvals.bytes()
    }

    /// Ends the run.
    fn close(&mut self, end: End) {
        self.calls.close();
        self.approvals.close();
        self.end = Some(end);
        self.place = None;
    }
}

impl Run {
    /// A run whose job is submitted, with the digest of the job, or one that is taken over. `held` has the bytes of its
    /// job.
    pub(super) fn new(
        id: JobId,
        digest: Option<[u8; 32]>,
        runs: Weak<Runs>,
        events: Events,
        held: Held,
        place: Place,
    ) -> Self {
        let (job_bytes, place) = (held.bytes(), Some(place));
        let (calls, approvals) = Default::default();
        let mut state = State { events, calls, approvals, end: None, job_bytes, held, place, at_end: Vec::new() };
        state.count();
        let (number, end_counted) = Default::default();
        Self { id, digest, number, end_counted, runs, state: watch::Sender::new(state) }
    }

    /// What the run is now.
    pub(crate) fn view(&self) -> RunView {
        let (calls, approvals, last_event, end) = {
            let (state, now) = (self.state.borrow(), Instant::now());
            (state.calls.views(now), state.approvals.views(now), state.events.last(), state.end.clone())
        };
        let (state, outcome, error) = match end {
            None => (RunState::Underway, None, None),
            Some(End::Lost(lost)) => (RunState::Unknown, None, Some(lost)),
            Some(End::Result(_, text)) => (RunState::Ended, Some(OutcomeText(text)), None),
        };
        RunView { id: self.id.clone(), state, calls, approvals, last_event, outcome, error }
    }

    /// What the run has left, once it has ended.
    pub(crate) fn artifacts(&self) -> Result<Vec<Artifact>, Problem> {
        #[derive(Deserialize)]
        struct Left {
            #[serde(default)]
            artifacts: Vec<Artifact>,
        }
        let end = self.state.borrow().end.clone();
        let Some(End::Result(_, text)) = end else { return Ok(Vec::new()) };
        let left: Left = serde_json::from_slice(&text)
            .map_err(|error| Problem::new("internal_error", format!("the outcome can't be read: {error}")))?;
        Ok(left.artifacts)
    }

    /// Does something as soon as the run has ended.
    pub(super) fn at_end(&self, done: impl FnOnce() + Send + Sync + 'static) {
        let mut now: Option<AtEnd> = None;
        self.state.send_if_modified(|state| {
            match state.end {
                Some(_) => now = Some(Box::new(done)),
                None => state.at_end.push(Box::new(done)),
            }
            false
        });
        if let Some(done) = now {
            done();
        }
    }

    /// The run in short.
    pub(crate) fn summary(&self) -> RunSummary {
        let state = self.state.borrow();
        let (now, status) = match &state.end {
            None => (RunState::Underway, None),
            Some(End::Lost(_)) => (RunState::Unknown, None),
            Some(End::Result(status, _)) => (RunState::Ended, *status),
        };
        RunSummary { id: self.id.clone(), state: now, waiting_calls: state.calls.count(), status }
    }

    /// Sets its number.
    pub(super) fn came(&self, number: u64) {
        self.number.store(number, Ordering::Relaxed);
    }

    /// Its number in the order in which runs came.
    pub(super) fn number(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.state.borrow().end.is_some()
    }

    /// Whether the gateway follows the run, or has its outcome.
    pub(crate) fn is_followed(&self) -> bool {
        !matches!(self.state.borrow().end, Some(End::Lost(_)))
    }

    /// Notes that the table counts its end. Returns whether it had not counted it before.
    pub(super) fn count_end(&self) -> bool {
        !self.end_counted.swap(true, Ordering::Relaxed)
    }

    /// Waits until the run has ended, or also until this many calls wait for answers or for approval.
    pub(crate) async fn settled(&self, or_calls: Option<usize>) {
        let mut state = self.state.subscribe();
        let enough = |waiting: usize| or_calls.is_some_and(|count| waiting >= count);
        let waiting = |state: &State| state.calls.count() + state.approvals.count();
        let _ = state.wait_for(|state| state.end.is_some() || enough(waiting(state))).await;
    }

    /// Answers a tool call. What is `held` stays so until the answer is sent.
    pub(crate) fn answer(&self, call: &str, payload: &[u8], held: Held) -> Result<Answered, Problem> {
        let mut answered = Ok(Answered::Unknown);
        self.state.send_modify(|state| {
            answered = state.calls.answer(call, payload, held);
            state.count();
        });
        answered
    }

    /// How long the answer of this call may be kept back.
    pub(crate) fn bears(&self, call: &str) -> Duration {
        self.state.borrow().calls.bears(call)
    }

    /// A call does not wait for approval any more. The fleet says so, too, but that may come after the caller's next
    /// look.
    pub(super) fn decided(&self, call: &str) {
        self.state.send_modify(|state| {
            state.approvals.over(call);
            state.count();
        });
    }

    /// Follows the events after this one.
    pub(crate) fn follow(&self, after: u64) -> Follow {
        Follow { after, state: self.state.subscribe() }
    }

    /// Adds an event.
    fn add(&self, text: &Bytes, also: impl FnOnce(&mut State)) {
        #[derive(Deserialize)]
        struct Named<'a> {
            #[serde(borrow)]
            event: std::borrow::Cow<'a, str>,
        }
        let kind = serde_json::from_slice::<Named<'_>>(text).map_or_else(|_| "unknown".into(), |named| named.event);
        let (mut dropped, runs) = (0, self.runs.upgrade());
        if let Some(runs) = &runs {
            runs.make_room(text.len());
        }
        self.state.send_modify(|state| {
            dropped = state.events.push(&kind, text.clone());
            also(state);
            dropped += state.count();
        });
        if dropped > 0
            && let Some(runs) = runs
        {
            runs.dropped(dropped);
        }
    }
}

#[async_trait]
impl Follower for Run {
    fn event(&self, event: Event, text: &Bytes) {
        if matches!(event.body, EventBody::Hold { .. }) {
            // Whoever answers is kept waiting, and need not know.
            return;
        }
        self.add(text, |state| match event.body {
            EventBody::Approval(asked) => state.approvals.asked(asked),
            EventBody::Decided(decided) => state.approvals.over(&decided.call),
            EventBody::Run(info) => state.approvals.are(info.approvals),
            _ => {}
        });
    }

    async fn tool_call(&self, call: ToolCall, text: Bytes) -> Result<Box<RawValue>, ToolFailure> {
        let id = call.call.clone();
        let mut asked = None;
        self.add(&text, |state| asked = state.calls.ask(call));
        let Some(answer) = asked else { return Err("too many calls of this job wait for an answer".into()) };
        let _over = Over { run: self, call: &id };
        answer.await.unwrap_or_else(|_| Err("the job has ended".into()))
    }

    fn done_with(&self, call: &str, sent: bool) {
        // Nobody who waits for a change waits for this.
        self.state.send_if_modified(|state| {
            state.calls.left(call, sent);
            false
        });
    }

    fn end(&self, end: Result<(Event, Bytes), thermae_client::Error>) {
        match end {
            Ok((event, text)) => {
                // Whoever sees the end sees what the run used.
                if let Some(runs) = self.runs.upgrade() {
                    runs.used(&event);
                }
                self.add(&text.clone(), |state| {
                    let status = match event.body {
                        EventBody::Result(Outcome { status, .. }) => Some(status),
                        _ => None,
                    };
                    state.close(End::Result(status, text));
                });
            }
            Err(error) => {
                let lost = Problem::from(error).into();
                self.state.send_modify(|state| {
                    state.close(End::Lost(lost));
                    state.count();
                });
            }
        }
        if let Some(runs) = self.runs.upgrade() {
            runs.ended(self);
        }
        let mut at_end = Vec::new();
        self.state.send_if_modified(|state| {
            at_end = std::mem::take(&mut state.at_end);
            false
        });
        at_end.into_iter().for_each(|done| done());
    }
}

/// Marks a call as over if it is given up.
struct Over<'a> {
    run: &'a Run,
    call: &'a str,
}

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.run.state.send_if_modified(|state| {
            let changed = state.calls.give_up(self.call);
            if changed {
                state.count();
            }
            changed
        });
    }
}

/// Follows the events of a run. Cheap: it holds no events of its own.
pub(crate) struct Follow {
    after: u64,
    state: watch::Receiver<State>,
}

impl Follow {
    /// Whether this event is one that the run has, and nothing can follow it.
    pub(crate) fn is_at_end(&self) -> bool {
        let state = self.state.borrow();
        state.end.is_some() && self.after == state.events.last()
    }

    /// Whether the run has this event, or had it.
    pub(crate) fn is_known(&self) -> bool {
        self.after <= self.state.borrow().events.last()
    }

    /// The next event, as soon as there is one. `None` after the last one. `Next::Nothing` after this time, or when the
    /// gateway stops.
    pub(crate) async fn next(&mut self, within: Duration, draining: &CancellationToken) -> Option<Next> {
        loop {
            {
                let state = self.state.borrow_and_update();
                if let Some(next) = state.events.after(self.after) {
                    self.after = next.number();
                    return Some(next);
                }
                if let Some(end) = &state.end {
                    return match end {
                        End::Lost(lost) if self.after <= state.events.last() => {
                            self.after = u64::MAX;
                            Some(Next::Lost(lost.clone()))
                        }
                        _ => None,
                    };
                }
            }
            tokio::select! {
                changed = self.state.changed() => changed.ok()?,
                () = draining.cancelled() => return Some(Next::Nothing),
                () = tokio::time::sleep(within) => return Some(Next::Nothing),
            }
        }
    }
}
