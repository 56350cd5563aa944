//! One run: submits its job or takes it over, passes its events on, asks the SDK to answer its tool calls, and cancels
//! or leaves it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use thermae_client::Follower;
use thermae_schemas::json::measure_unique;
use thermae_schemas::{Event, EventBody, Job, JobId, RunInfo, RunQuery, ToolCall, ToolFailure};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::connection::{ANSWER_WITHIN, Shared};
use crate::job::Unread;
use crate::open::Opened;
use crate::outbox::{HeldAnswer, Outbox};
use crate::terms::Told;
use crate::{Refusal, job, reply};

/// A run under way.
pub(crate) struct Run {
    id: u64,
    outbox: Arc<Outbox>,
    /// Is told the result.
    result_told: Told,
    /// The tool calls that the SDK has not answered yet.
    calls: Mutex<HashMap<String, oneshot::Sender<Answer>>>,
    /// The calls that the SDK knows from an event `run`, until their turn comes. It may answer them before.
    told: Mutex<HashMap<String, oneshot::Receiver<Answer>>>,
    /// The bytes of answers that have not left yet, by their calls.
    leaving: Mutex<HashMap<String, HeldAnswer>>,
    /// Whether the run goes on when the connection ends.
    detached: bool,
    ended: CancellationToken,
    /// Whether the SDK leaves the run.
    left: CancellationToken,
}

/// Size from which a job is read elsewhere: until it is, nothing else happens on this thread.
const LARGE: usize = 1 << 20;

async fn read(text: Bytes) -> Result<Result<Job, Unread>, Refusal> {
    if text.len() < LARGE {
        return Ok(job::read(&text));
    }
    let read = tokio::task::spawn_blocking(move || job::read(&text)).await;
    read.map_err(|_| Refusal::new("internal", "the job could not be read"))
}

/// What a client answers to a tool call.
pub type Answer = Result<Box<RawValue>, ToolFailure>;

impl Run {
    pub(crate) fn new(id: u64, shared: &Shared, detached: bool) -> Self {
        let (ended, left) = (CancellationToken::new(), CancellationToken::new());
        let (outbox, result_told) = (shared.outbox.clone(), shared.told.clone());
        let (calls, told, leaving) = Default::default();
        Self { id, outbox, result_told, calls, told, leaving, detached, ended, left }
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<String, oneshot::Sender<Answer>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn told(&self) -> MutexGuard<'_, HashMap<String, oneshot::Receiver<Answer>>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Expects answers to the calls of an event `run`. Returns those that were not known before.
    fn expect(&self, info: &RunInfo) -> Vec<String> {
        let (mut calls, mut told) = (self.calls(), self.told());
        let mut new = Vec::new();
        for call in &info.calls {
            if let Entry::Vacant(vacant) = calls.entry(call.call.clone()) {
                let (asked, answer) = oneshot::channel();
                vacant.insert(asked);
                told.insert(call.call.clone(), answer);
                new.push(call.call.clone());
            }
        }
        new
    }

    /// Leaves the run, which goes on.
    pub(crate) fn leave(&self) {
        self.left.cancel();
    }

    fn leaving(&self) -> MutexGuard<'_, HashMap<String, HeldAnswer>> {
        self.leaving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands an answer to its call, if the call still waits. Its bytes are `held` until it has left.
    pub(crate) fn answered(&self, call: &str, payload: &[u8], held: HeldAnswer) {
        let Some(waiting) = self.calls().remove(call) else { return };
        self.leaving().insert(call.to_owned(), held);
        // The call may be given up meanwhile.
        if waiting.send(answer(payload)).is_err() {
            self.leaving().remove(call);
        }
    }

    /// Ends the run with its result.
    fn finish(&self, result: impl Into<Bytes>) {
        self.outbox.finish(self.id, [reply::event(self.id, result.into()), reply::done(self.id)]);
    }

    /// Runs the job in `text` to its end, which [`Follower::end`] tells the SDK.
    pub(crate) async fn drive(
        self: Arc<Self>,
        shared: Arc<Shared>,
        text: Bytes,
        cancel: CancellationToken,
    ) -> Result<(), Refusal> {
        let job = match read(text).await? {
            Ok(job) => job,
            Err(Unread::Refused(refusal)) => return Err(refusal),
            Err(Unread::Rejected(result)) => {
                self.finish(result);
                return Ok(());
            }
        };
        let opened = tokio::select! {
            biased;
            () = cancel.cancelled() => {
                self.finish(job::cancelled(job.id)?);
                return Ok(());
            }
            opened = shared.opened() => opened?,
        };
        let job_id = job.id.clone();
        opened.client.follow(job, self.clone()).await?;
        if self.detached {
            self.outbox.offer(self.id, reply::submitted(self.id));
        }
        self.followed(&shared, &opened, &job_id, cancel).await
    }

    /// Takes a run over, and follows it to its end.
    pub(crate) async fn attach(
        self: Arc<Self>,
        shared: Arc<Shared>,
        query: RunQuery,
        cancel: CancellationToken,
    ) -> Result<(), Refusal> {
        let job_id = query.job.clone();
        let opened = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(Refusal::cancelled()),
            () = self.left.cancelled() => return Err(Refusal::cancelled()),
            () = shared.ending.cancelled() => return Err(Refusal::closed()),
            opened = shared.opened() => opened?,
        };
        opened.client.take_over(query, self.clone(), ANSWER_WITHIN).await?;
        self.followed(&shared, &opened, &job_id, cancel).await
    }

    /// Waits for the end of the run, or of the SDK's interest in it.
    async fn followed(
        &self,
        shared: &Shared,
        opened: &Opened,
        job: &JobId,
        cancel: CancellationToken,
    ) -> Result<(), Refusal> {
        tokio::select! {
            // A run that is cancelled and then left is cancelled.
            biased;
            () = self.ended.cancelled() => return Ok(()),
            unfit = shared.unfit() => return Err(unfit),
            () = cancel.cancelled() => {
                // A failure here is one of the client, which then also ends the job.
                if !shared.leaving.is_cancelled() && let Err(error) = opened.client.cancel(job).await {
                    tracing::warn!(%error, job.id = %job, "the job could not be cancelled");
                }
            }
            () = self.left.cancelled() => {}
            () = shared.ending.cancelled(), if self.detached => {}
        }
        let goes_on = self.detached || shared.leaving.is_cancelled();
        tokio::select! {
            biased;
            () = self.ended.cancelled() => Ok(()),
            unfit = shared.unfit() => Err(unfit),
            () = self.left.cancelled() => {
                opened.client.detach(job);
                self.outbox.finish(self.id, [reply::done(self.id)]);
                Ok(())
            }
            // Also if the SDK is gone: its calls go on to wait, and nobody fails them.
            () = shared.ending.cancelled(), if goes_on => {
                opened.client.detach(job);
                Err(Refusal::closed())
            }
            () = shared.gone.cancelled() => Err(Refusal::closed()),
        }
    }
}

#[async_trait]
impl Follower for Run {
    fn event(&self, event: Event, text: &Bytes) {
        let new = if let EventBody::Run(info) = &event.body { self.expect(info) } else { Vec::new() };
        if !self.outbox.offer(self.id, reply::event(self.id, text.clone())) {
            tracing::debug!(job.id = %event.job, "events are not taken fast enough: one was left out");
            for call in new {
                self.calls().remove(&call);
                self.told().remove(&call);
            }
        }
    }

    async fn tool_call(&self, call: ToolCall, text: Bytes) -> Answer {
        let known = self.told().remove(&call.call);
        let told = known.is_some();
        let answer = known.unwrap_or_else(|| {
            let (asked, answer) = oneshot::channel();
            self.calls().insert(call.call.clone(), asked);
            answer
        });
        let _forget = Forget { run: self, call: &call.call };
        if !told && !self.outbox.offer(self.id, reply::event(self.id, text)) {
            return Err("the client takes no more calls of this job now".into());
        }
        tokio::select! {
            answer = answer => answer.unwrap_or_else(|_| Err("the client gave the call up".into())),
            // Nobody reads this, but the call would wait for the rest of its time.
            () = self.ended.cancelled() => Err("the job has ended".into()),
        }
    }

    fn done_with(&self, call: &str, _: bool) {
        self.leaving().remove(call);
    }

    fn end(&self, end: Result<(Event, Bytes), thermae_client::Error>) {
        match end {
            Ok((event, text)) => {
                (self.result_told)(&event);
                self.finish(text);
            }
            Err(error) => self.outbox.finish(self.id, [reply::error(Some(self.id), &error.into())]),
        }
        self.ended.cancel();
    }
}

/// Removes a call that is answered or given up.
struct Forget<'a> {
    run: &'a Run,
    call: &'a str,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.run.calls().remove(self.call);
    }
}

/// Reads the payload of a `tool_result`. What can't be read fails the call.
pub(crate) fn answer(payload: &[u8]) -> Answer {
    read_answer(payload).unwrap_or_else(|why| Err(why.into()))
}

/// Reads an answer to a tool call. The result keeps every digit.
///
/// # Errors
/// The text is no answer. The message says why.
pub fn read_answer(payload: &[u8]) -> Result<Answer, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Said {
        Ok(Box<RawValue>),
        Error(ToolFailure),
    }
    match measure_unique(payload, usize::MAX).and_then(|_| serde_json::from_slice(payload)) {
        Ok(Said::Ok(value)) => Ok(Ok(value)),
        Ok(Said::Error(failure)) => Ok(Err(failure)),
        Err(error) if error.is_data() && serde_json::from_slice::<Said>(payload).is_ok() => {
            Err(format!("the client's answer can't be used: {error}"))
        }
        Err(error) => {
            let form = "neither `ok` (any JSON) nor `error` (a string, or an object with `message`)";
            Err(format!("the client's answer is {form}: {error}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_keeps_every_digit() {
        let exact = "[1180591620717411303424, 0.1000, null]";
        assert_eq!(answer(format!(r#"{{"ok": {exact}}}"#).as_bytes()).unwrap().get(), exact);
        assert_eq!(answer(br#"{"ok":null}"#).unwrap().get(), "null");
        assert_eq!(answer(br#"{"error":"no"}"#).unwrap_err(), "no".into());
        let typed = answer(br#"{"error":{"type":"KeyError","message":"m","data":[1]}}"#).unwrap_err();
        assert_eq!((typed.kind.as_deref(), typed.message.as_str()), (Some("KeyError"), "m"));
        for bad in ["", "{}", "null", r#"{"ok":}"#, r#"{"error":{}}"#, r#"{"ok":1,"error":"x"}"#, r#"{"ok":NaN}"#] {
            assert!(answer(bad.as_bytes()).unwrap_err().message.contains("neither"), "{bad}");
        }
        for (bad, why) in [
            (r#"{"ok":[1e400]}"#, "can't be used: at /ok/0: number out of range"),
            (r#"{"ok":{"a":1,"a":2}}"#, "can't be used: at /ok/a: the key \"a\" stands twice"),
        ] {
            assert!(answer(bad.as_bytes()).unwrap_err().message.ends_with(why), "{bad}");
        }
    }
}
