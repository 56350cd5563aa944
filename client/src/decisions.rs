//! Decisions about calls that wait for approval. The worker answers each.

use std::time::Duration;

use thermae_backplane::bus::Message;
use thermae_schemas::{Body, Decided, Decision, EventBody, JobId, RunQuery, RunState, names};

use crate::client::Shared;
use crate::questions::{self, Answer};
use crate::{Error, publish, runs};

/// Sends a decision under the call's reply key until it is answered. The worker takes only the first of its copies.
pub(crate) async fn decide(
    shared: &Shared,
    decision: &Decision,
    reply_to: &str,
    within: Duration,
) -> Result<Decided, Error> {
    let unknown = || Error::UnknownCall(decision.call.clone());
    if reply_to.strip_prefix(shared.tenant.as_str()).is_none_or(|rest| !rest.starts_with('.')) {
        return Err(unknown());
    }
    let mut message = Message {
        exchange: names::APPROVALS.to_owned(),
        persistent: false,
        ..publish::message(shared, reply_to.to_owned(), &decision.id, decision.to_json()?.into())
    };
    message.correlation_id = None;
    let answer = questions::wait(shared, &decision.id, message, within).await.map_err(|error| match error {
        // Only workers have queues behind this exchange.
        Error::NoScheduler => unknown(),
        error => error,
    })?;
    match answer {
        Answer::Decided(decided) => Ok(decided),
        Answer::Sessions(_) | Answer::Run(..) => Err(Error::NoAnswer(within)),
    }
}

/// The reply key of a call. If the call does not wait any more, that of its run's worker, which knows what came of it.
pub(crate) async fn reply_key(shared: &Shared, run: &JobId, call: &str, within: Duration) -> Result<String, Error> {
    let (event, _) = runs::info(shared, RunQuery::new(run.clone()), within).await?;
    let EventBody::Run(info) = event.body else { return Err(Error::NoAnswer(within)) };
    if info.state == RunState::Unknown {
        return Err(Error::UnknownRun(run.clone()));
    }
    let waiting = info.approvals.into_iter().find(|asked| asked.call == call).map(|asked| asked.reply_to);
    let worker = info.worker.map(|worker| names::calls_key(&shared.tenant, &worker));
    waiting.or(worker).ok_or_else(|| Error::UnknownCall(call.to_owned()))
}

/// Hands the answer to its decision. Returns `false` if no decision of this client waits for it.
pub(crate) fn answered(shared: &Shared, id: &JobId, decided: &Decided) -> bool {
    shared.questions.has(id) && shared.questions.answered(id, Answer::Decided(decided.clone()))
}
