//! Runs that this gateway need not follow, because they were submitted elsewhere or were taken over: look, answer,
//! decide, take over.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::value::RawValue;
use thermae_bridge::read::read_answer;
use thermae_schemas::{Decided, Decision, EventBody, JobId, RunInfo, RunQuery, RunState, Verdict};

use super::runs::confirmed;
use super::{ANSWER_WITHIN, Run, Service};
use crate::identity::Caller;
use crate::problem::Problem;

/// What the fleet says of a run, with every digit.
pub(crate) type Told = BTreeMap<String, Box<RawValue>>;

/// The runs that are being taken over.
#[derive(Clone, Default)]
pub(super) struct Taking(Arc<Mutex<HashSet<JobId>>>);

impl Taking {
    fn lock(&self) -> MutexGuard<'_, HashSet<JobId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to take a run over, unless another request does.
    fn begin(&self, id: &JobId) -> Result<Turn, Problem> {
        if !self.lock().insert(id.clone()) {
            let detail = format!("another request takes the run {:?} over at this moment", id.as_str());
            return Err(Problem::new("being_taken", detail));
        }
        Ok(Turn { taking: self.clone(), id: id.clone() })
    }
}

/// A take-over that is under way until this is dropped.
struct Turn {
    taking: Taking,
    id: JobId,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.taking.lock().remove(&self.id);
    }
}

impl Service {
    /// What the fleet knows of a run of the tenant, whoever follows it. Takes nothing over.
    pub(crate) async fn ask(&self, query: RunQuery) -> Result<(RunInfo, Told), Problem> {
        let id = query.job.clone();
        let (event, text) = self.client.ask_for_run(query, ANSWER_WITHIN).await?;
        let unreadable = || Problem::new("fleet_failed", "the fleet's answer can't be read");
        let EventBody::Run(info) = event.body else { return Err(unreadable()) };
        if info.state == RunState::Unknown {
            return Err(thermae_client::Error::UnknownRun(id).into());
        }
        let mut told: Told = serde_json::from_slice(&text).map_err(|_| unreadable())?;
        // These are about the message, not about the run.
        told.retain(|name, _| !matches!(name.as_str(), "protocol" | "job" | "event"));
        Ok((info, told))
    }

    /// Answers a tool call of a run that another client follows.
    pub(super) async fn answer_elsewhere(&self, id: &JobId, call: &str, payload: &[u8]) -> Result<(), Problem> {
        let reply = read_answer(payload).map_err(|error| Problem::new("bad_body", error))?;
        let (info, _) = self.ask(RunQuery::new(id.clone())).await?;
        let Some(waiting) = info.calls.iter().find(|waiting| waiting.call == call) else {
            return Err(Problem::new("unknown_call", format!("no call {call:?} of the run waits for an answer")));
        };
        Ok(confirmed(self.client.answer(call, &waiting.reply_to, reply)).await??)
    }

    /// Decides about a call of any run of the tenant that waits for approval, for this caller. The first decision about
    /// a call counts, wherever it comes from.
    pub(crate) async fn decide(
        &self,
        run: &JobId,
        call: &str,
        payload: &[u8],
        caller: &Caller,
    ) -> Result<Decided, Problem> {
        let bad = |why: String| Problem::new("bad_body", why);
        let verdict: Verdict =
            serde_json::from_slice(payload).map_err(|error| bad(format!("the verdict can't be read: {error}")))?;
        verdict.check().map_err(bad)?;
        let decision = Decision { by: caller.named(), ..Decision::new(run.clone(), call, verdict) };
        let decided = self.client.decide(&decision, None, ANSWER_WITHIN).await?;
        if let Some(error) = decided.error {
            return Err(error.into());
        }
        if let Ok(run) = self.runs.get(run) {
            run.decided(call);
        }
        Ok(decided)
    }

    /// Follows a run of the tenant for this caller from now on, in the place of whoever followed it before. Returns a
    /// run that the gateway follows already as it is.
    pub(crate) async fn take_over(&self, id: &JobId, caller: &Caller) -> Result<Arc<Run>, Problem> {
        if self.draining.is_cancelled() {
            return Err(Problem::new("draining", "the gateway is stopping"));
        }
        if let Ok(run) = self.runs.get(id)
            && run.is_followed()
        {
            return Ok(run);
        }
        let (turn, run) = (self.taking.begin(id)?, self.runs.take(id, caller)?);
        let (client, runs, query) = (self.client.clone(), self.runs.clone(), RunQuery::new(id.clone()));
        // In a task of its own: what was taken over is followed even if the caller has gone.
        let taken = self.tasks.spawn(async move {
            let _turn = turn;
            let (event, _) = client.take_over(query, run.clone(), ANSWER_WITHIN).await?;
            runs.add(&run);
            Ok::<_, thermae_client::Error>((run, event))
        });
        let (run, event) = taken.await.map_err(|_| Problem::new("internal_error", "the take-over failed"))??;
        if let EventBody::Run(info) = event.body {
            // The outcome, or the calls that wait, come right after the answer.
            let calls = info.calls.iter().filter(|call| !call.omitted).count() + info.approvals.len();
            if info.state == RunState::Ended || calls > 0 {
                let _ = tokio::time::timeout(ANSWER_WITHIN, run.settled(Some(calls.max(1)))).await;
            }
        }
        Ok(run)
    }
}
