//! Runs: submit, look, follow, answer, cancel.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use thermae_client::Follower as _;
use thermae_schemas::{JobId, Scope};

use super::Service;
use super::job;
use super::run::{Answered, Follow, Run};
use super::table::Begun;
use super::views::{RunState, RunsView};
use crate::budget::Held;
use crate::hold::Holder;
use crate::identity::Caller;
use crate::problem::Problem;

/// How long RabbitMQ may take to confirm a message.
const CONFIRM_WITHIN: Duration = Duration::from_secs(30);

fn draining() -> Problem {
    Problem::new("draining", "the gateway is stopping")
}

/// What the fleet confirms, or the problem that it doesn't: the client waits out an outage, but callers should not.
pub(super) async fn confirmed<T>(sent: impl Future<Output = T>) -> Result<T, Problem> {
    let late = |_| {
        let detail = format!("the fleet has not confirmed the message within {} s", CONFIRM_WITHIN.as_secs());
        Problem::new("no_answer", detail)
    };
    tokio::time::timeout(CONFIRM_WITHIN, sent).await.map_err(late)
}

impl Service {
    /// Submits the job in `text` for this caller, unless the same job was submitted before. `key` is the idempotency
    /// key of the header, and `held` has the bytes of the text.
    pub(crate) async fn submit(
        &self,
        text: Bytes,
        key: Option<&str>,
        held: Held,
        caller: &Caller,
        holder: &Holder,
    ) -> Result<Arc<Run>, Problem> {
        if self.draining.is_cancelled() {
            return Err(draining());
        }
        let mut reading = self.hold();
        let (job, identity) = job::read(&text, key, |bytes| holder.grow(&mut reading, bytes))?;
        if job.session.is_some() {
            caller.needs(Scope::Sessions)?;
        }
        let run = match self.runs.begin(&identity, held, || self.runs.place(caller))? {
            Begun::Same(run) => return Ok(run),
            Begun::New(run) => run,
        };
        drop(text);
        let (client, runs, follower) = (self.client.clone(), self.runs.clone(), run.clone());
        // In a task of its own: once it is submitted, the run is followed even if the caller has gone.
        let submitted = self.tasks.spawn(async move {
            let submitted = client.follow(job, follower.clone()).await;
            drop(reading);
            if let Err(error) = &submitted {
                runs.remove(&follower.id);
                follower.end(Err(error.clone()));
            }
            submitted
        });
        match confirmed(submitted).await {
            Ok(submitted) => submitted.map_err(|_| Problem::new("internal_error", "the submit failed"))??,
            // The job is on its way, and may run.
            Err(problem) => return Err(problem.with("run", run.id.as_str())),
        }
        Ok(run)
    }

    /// The run with this id.
    pub(crate) fn run(&self, id: &JobId) -> Result<Arc<Run>, Problem> {
        self.runs.get(id)
    }

    /// A page of the runs that the gateway holds, the newest first: at most so many, those in this state if one is
    /// given, after the page with this cursor.
    pub(crate) fn list(&self, state: Option<RunState>, cursor: Option<u64>, most: usize) -> RunsView {
        let wanted = |run: &Run| state.is_none_or(|state| run.summary().state == state);
        let mut runs = self.runs.list(cursor, most + 1, wanted);
        let more = runs.len() > most;
        runs.truncate(most);
        let next = runs.last().filter(|_| more).map(|last| last.number().to_string());
        RunsView { runs: runs.iter().map(|run| run.summary()).collect(), next }
    }

    /// Waits until a run has ended, or `or_call` also until a call waits for an answer or for approval; at most for
    /// this time, and not while the gateway stops.
    pub(crate) async fn wait(&self, run: &Run, within: Duration, or_call: bool) {
        tokio::select! {
            () = run.settled(or_call.then_some(1)) => {}
            () = self.draining.cancelled() => {}
            () = tokio::time::sleep(within) => {}
        }
    }

    /// Follows the events of a run after this one. `None` if there will be none.
    pub(crate) fn follow(&self, id: &JobId, after: u64) -> Result<Option<Follow>, Problem> {
        let follow = self.runs.get(id)?.follow(after);
        if !follow.is_known() {
            return Err(Problem::new("bad_header", format!("Last-Event-ID: the run has no event {after} yet")));
        }
        Ok((after == 0 || !follow.is_at_end()).then_some(follow))
    }

    /// Waits until a call of a run should be answered: while the run does not read the answers that it has, its next
    /// ones stay with those who send them.
    pub(crate) async fn may_answer(&self, id: &JobId, call: &str) -> Result<(), Problem> {
        let Ok(run) = self.runs.get(id) else { return Ok(()) };
        tokio::select! {
            () = self.client.may_answer(id, run.bears(call)) => Ok(()),
            () = self.draining.cancelled() => Err(draining()),
        }
    }

    /// Answers a tool call of a run, whoever follows the run. Returns when the answer has left the gateway; `held` has
    /// its bytes.
    pub(crate) async fn answer(&self, id: &JobId, call: &str, payload: Bytes, held: Held) -> Result<(), Problem> {
        let followed = self.runs.get(id).ok().filter(|run| run.is_followed());
        let Some(run) = followed else { return self.answer_elsewhere(id, call, &payload).await };
        let over = || Problem::new("call_over", "the code does not wait for this call any more");
        let answered = run.answer(call, &payload, held)?;
        drop(payload);
        match answered {
            Answered::Taken(sent) => tokio::select! {
                biased;
                sent = sent => if sent == Ok(true) { Ok(()) } else { Err(over()) },
                () = self.draining.cancelled() => Err(draining()),
            },
            Answered::Again => Ok(()),
            Answered::Otherwise => Err(Problem::new("call_answered", "the call already has another answer")),
            Answered::Over => Err(over()),
            Answered::Unknown => Err(Problem::new("unknown_call", format!("the run has no call {call:?}"))),
        }
    }

    /// Asks the fleet to cancel a run. The outcome comes as usual.
    pub(crate) async fn cancel(&self, id: &JobId) -> Result<Arc<Run>, Problem> {
        let run = self.runs.get(id)?;
        if !run.has_ended() {
            confirmed(self.client.cancel(id)).await??;
        }
        Ok(run)
    }
}
