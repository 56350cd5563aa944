//! Runs that this client did not submit, or did submit in an earlier life: what the fleet knows of them, and how this
//! client takes them over.
//!
//! ```text
//!  take_over ─▶ Jobs::take ─▶ question `run` ─▶ the fleet
//!  answer `run` ─▶ Follower: the answer ─▶ the calls that wait ─▶ what came before the answer ─▶ events as usual
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use thermae_backplane::bus::Message;
use thermae_schemas::{Body, Event, EventBody, JobId, PendingCall, Query, RunInfo, RunQuery, RunState, names};
use tokio::sync::oneshot;

use crate::client::Shared;
use crate::jobs::{Taking, Waiting};
use crate::questions::Answer;
use crate::turn::Turn;
use crate::{Error, Follower, dispatch, publish, questions, tools};

/// The pause before a run that the fleet doesn't know is asked for again. It doubles with each question.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// Asks what the fleet knows of a run.
pub(crate) async fn info(shared: &Shared, query: RunQuery, within: Duration) -> Result<(Event, Bytes), Error> {
    let ask = || async {
        match questions::ask(shared, Query::run(JobId::random(), query.clone()), within).await? {
            Answer::Run(event, text) => queued_here(shared, *event, text),
            Answer::Sessions(_) | Answer::Decided(_) => Err(Error::NoAnswer(within)),
        }
    };
    until_known(shared, ask, |answer| answer.as_ref().is_ok_and(|(event, _)| is_unknown(event))).await
}

/// Takes a run over, and returns the fleet's answer.
pub(crate) async fn take_over(
    shared: &Shared,
    query: RunQuery,
    follower: Arc<dyn Follower>,
    within: Duration,
) -> Result<(Event, Bytes), Error> {
    let ask = || take_over_once(shared, query.clone(), follower.clone(), within);
    until_known(shared, ask, |answer| matches!(answer, Err(Error::UnknownRun(_)))).await
}

/// The fleet's answer. A run that it does not know, and that this client follows, waits in its queue: no scheduler has
/// seen it yet.
fn queued_here(shared: &Shared, event: Event, text: Bytes) -> Result<(Event, Bytes), Error> {
    let EventBody::Run(info) = &event.body else { return Ok((event, text)) };
    if info.state != RunState::Unknown || shared.jobs.follower(&info.run).is_none() {
        return Ok((event, text));
    }
    let info = RunInfo::new(info.run.clone(), RunState::Queued);
    let event = Event { body: EventBody::Run(info), ..event };
    let text = event.to_json()?.into();
    Ok((event, text))
}

fn is_unknown(event: &Event) -> bool {
    matches!(&event.body, EventBody::Run(info) if info.state == RunState::Unknown)
}

/// Asks for a run again while the fleet doesn't know it, during [`Options::unknown_for`](crate::Options::unknown_for).
/// A scheduler knows a job once it has taken it from its submit queue, a moment after RabbitMQ has confirmed it.
async fn until_known<T, F>(shared: &Shared, ask: impl Fn() -> F, unknown: impl Fn(&T) -> bool) -> T
where
    F: Future<Output = T>,
{
    let (asked, mut pause) = (Instant::now(), FIRST_PAUSE);
    loop {
        let answer = ask().await;
        if !unknown(&answer) || asked.elapsed() + pause > shared.options.unknown_for {
            return answer;
        }
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
}

async fn take_over_once(
    shared: &Shared,
    query: RunQuery,
    follower: Arc<dyn Follower>,
    within: Duration,
) -> Result<(Event, Bytes), Error> {
    let job = query.job.clone();
    let query = Query::run(JobId::random(), RunQuery { take_over: true, ..query });
    let mut message = publish::message(shared, names::query_key(&shared.tenant), &query.id, query.to_json()?.into());
    // The fleet knows who holds a run by the reply key and this id. So it is the same for all turns of this client.
    message.correlation_id = Some(job.to_string());
    let span = tracing::info_span!("job", otel.kind = "consumer", job.id = %job);
    let waiting = Waiting { follower, message: message.clone(), span, turn: Turn::default() };
    let (answer, answered) = oneshot::channel();
    shared.jobs.take(&query.id, Taking { job: job.clone(), waiting, held: Vec::new(), answer })?;
    let mut give_up = GiveUp { shared, job: &job, question: &query.id, answered: false };
    let answer = questions::answered(shared, message, within, answered).await?;
    give_up.answered = true;
    answer.unwrap_or(Err(Error::Closed))
}

/// Gives a take-over up if its wait ends before its answer comes.
struct GiveUp<'a> {
    shared: &'a Shared,
    job: &'a JobId,
    question: &'a JobId,
    answered: bool,
}

impl Drop for GiveUp<'_> {
    fn drop(&mut self) {
        if self.answered {
            return;
        }
        self.shared.jobs.taken(self.question);
        // The answer may have come at this very moment.
        if self.shared.jobs.asked(self.job, self.question) {
            self.shared.jobs.forget(self.job);
        }
    }
}

/// Handles the event `run`. Returns `false` if nobody waits for it.
pub(crate) fn answered(shared: &Arc<Shared>, event: Event, message: &Message) -> bool {
    let EventBody::Run(info) = &event.body else { return false };
    if shared.questions.has(&event.job) {
        let question = event.job.clone();
        return shared.questions.answered(&question, Answer::Run(Box::new(event), message.body.clone()));
    }
    if let Some(taking) = shared.jobs.taken(&event.job) {
        begin(shared, taking, event, &message.body);
        return true;
    }
    // The reply queue was lost, and this client has asked again.
    let run = info.run.clone();
    if !shared.jobs.asked(&run, &event.job) {
        return false;
    }
    if info.state == RunState::Unknown {
        return shared.jobs.fail(&run, Error::UnknownRun(run.clone()));
    }
    if let Some((follower, ..)) = shared.jobs.follower(&run) {
        follower.event(event.clone(), &message.body);
        feed(shared, &run, &event);
    }
    true
}

/// Begins to follow a run that was taken over.
fn begin(shared: &Arc<Shared>, taking: Taking, event: Event, text: &Bytes) {
    let Taking { job, waiting, held, answer } = taking;
    if is_unknown(&event) {
        let _ = answer.send(Err(Error::UnknownRun(job)));
        return;
    }
    waiting.follower.event(event.clone(), text);
    if let Some(before) = shared.jobs.replace(&job, waiting) {
        before.turn.end();
        before.follower.end(Err(Error::Superseded(job.clone())));
    }
    feed(shared, &job, &event);
    let _ = answer.send(Ok((event, text.clone())));
    for (event, message) in held {
        dispatch::hand_on(shared, event, &message);
    }
}

/// Handles a job's first result. Returns `false` if nobody waits for the job, because it already has a result.
pub(crate) fn ended(shared: &Shared, event: Event, text: &Bytes) -> bool {
    let ended = shared.jobs.end(&event.job);
    let known = ended.follower.is_some() || !ended.taking.is_empty();
    for taking in ended.taking {
        // The result was faster than the answer.
        let info = RunInfo::new(event.job.clone(), RunState::Ended);
        let run = Event::new(event.job.clone(), event.attempt, EventBody::Run(info));
        let told: Bytes = run.to_json().unwrap_or_default().into();
        taking.waiting.follower.event(run.clone(), &told);
        taking.waiting.follower.end(Ok((event.clone(), text.clone())));
        let _ = taking.answer.send(Ok((run, told)));
    }
    if let Some(follower) = ended.follower {
        follower.end(Ok((event, text.clone())));
    }
    known
}

/// Begins to answer the calls that wait, as if each came now. Calls whose arguments are omitted go on to wait.
fn feed(shared: &Arc<Shared>, job: &JobId, event: &Event) {
    let EventBody::Run(info) = &event.body else { return };
    for call in info.calls.iter().cloned().filter_map(PendingCall::into_call) {
        let body = EventBody::ToolCall(call.clone());
        let told = Event { protocol: event.protocol, job: job.clone(), attempt: event.attempt, body };
        let message = Message { body: told.to_json().unwrap_or_default().into(), ..Message::default() };
        tools::answer(shared, job.clone(), call, &message);
    }
}
