//! Answers tool calls. Each call runs once, in its own task.

use std::collections::{HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use futures::FutureExt;
use serde::Serialize;
use serde_json::value::RawValue;
use thermae_backplane::bus::Message;
use thermae_schemas::{JobId, OLDEST, ToolCall, ToolFailure, names};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::client::Shared;
use crate::turn::Turn;
use crate::{Error, Follower, publish, trace};

/// Answers the calls that a job's code makes to the client's tools. Several calls may run at the same time.
#[async_trait]
pub trait ToolHandler: Send + Sync + 'static {
    /// Runs a tool. If it returns an `Err` or panics, the code gets a `ToolError`. The call is dropped when its time is
    /// over, and the code then gets a `TimeoutError`. It is *not* dropped when the job ends.
    ///
    /// The arguments are a JSON object as the code wrote it, and the code gets the result as it is written here: the
    /// order of keys and the digits of numbers stay as they are.
    async fn call(&self, job: &JobId, tool: &str, arguments: Box<RawValue>) -> Result<Box<RawValue>, ToolFailure>;
}

/// Number of answers that are kept for repeated calls. RabbitMQ repeats only deliveries that were not acknowledged, so
/// a few are enough.
const KEPT: usize = 512;
/// Answers with more bytes are not kept.
const KEPT_BYTES: usize = 64 * 1024;

/// What the client remembers of earlier calls.
#[derive(Default)]
pub(crate) struct Calls(Mutex<Table>);

#[derive(Default)]
struct Table {
    seen: HashMap<String, Seen>,
    /// Calls that were answered, the oldest first.
    answered: VecDeque<String>,
    running: usize,
}

/// A call that has come.
enum Seen {
    /// It is being answered, in this turn. The token ends that.
    Running(Turn, CancellationToken),
    /// Its answer; `None` if it was too large to keep, or the call's time was over before.
    Answered(Option<Bytes>),
}

/// What to do with a call.
enum Verdict {
    /// It is new: run the tool, until the token is cancelled.
    New(CancellationToken),
    /// It is still running, its answer was too large to keep, or its time was over: do nothing.
    Repeat,
    /// It was answered: send the same answer again.
    Answered(Bytes),
    /// Too many calls are running already.
    Full,
}

impl Calls {
    fn lock(&self) -> std::sync::MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, call: &str, turn: &Turn, max: usize) -> Verdict {
        let mut table = self.lock();
        match table.seen.get(call) {
            Some(Seen::Answered(Some(answer))) => return Verdict::Answered(answer.clone()),
            Some(Seen::Answered(None)) => return Verdict::Repeat,
            Some(Seen::Running(running, _)) if running.is(turn) => return Verdict::Repeat,
            // What an earlier turn of this client has given up begins anew.
            Some(Seen::Running(..)) | None => {}
        }
        if table.running >= max {
            return Verdict::Full;
        }
        table.running += 1;
        let end = turn.part();
        table.seen.insert(call.to_owned(), Seen::Running(turn.clone(), end.clone()));
        Verdict::New(end)
    }

    /// Keeps the answer of a call, or that its time was over. Returns `false` if the call was given up, or answered by
    /// hand.
    fn done(&self, call: &str, turn: &Turn, answer: Option<&Bytes>) -> bool {
        let mut table = self.lock();
        // The end of a turn can make its follower give a last answer. Nobody may get that one.
        let runs = match table.seen.get(call) {
            Some(Seen::Running(running, end)) => running.is(turn) && !end.is_cancelled(),
            _ => false,
        };
        if runs {
            table.keep(call, answer);
        }
        runs
    }

    /// Keeps an answer that no tool has given. If a tool is about to give one, it is given up.
    fn done_by_hand(&self, call: &str, answer: &Bytes) {
        let mut table = self.lock();
        match table.seen.get(call) {
            Some(Seen::Answered(_)) => {}
            Some(Seen::Running(_, end)) => {
                end.cancel();
                table.keep(call, Some(answer));
            }
            None => table.keep(call, Some(answer)),
        }
    }

    /// A call is not being answered any more, in this turn.
    fn left(&self, call: &str, turn: &Turn) {
        let mut table = self.lock();
        table.running -= 1;
        if matches!(table.seen.get(call), Some(Seen::Running(running, _)) if running.is(turn)) {
            table.seen.remove(call);
        }
    }
}

impl Table {
    fn keep(&mut self, call: &str, answer: Option<&Bytes>) {
        let kept = answer.filter(|answer| answer.len() <= KEPT_BYTES).cloned();
        self.seen.insert(call.to_owned(), Seen::Answered(kept));
        self.answered.push_back(call.to_owned());
        if self.answered.len() > KEPT
            && let Some(old) = self.answered.pop_front()
        {
            self.seen.remove(&old);
        }
    }
}

/// A call that is being answered.
struct UnderWay {
    shared: Arc<Shared>,
    follower: Arc<dyn Follower>,
    call: String,
    turn: Turn,
    sent: bool,
}

impl UnderWay {
    /// Ends with an answer that was sent, or was not.
    fn done(mut self, sent: bool) {
        self.sent = sent;
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.shared.calls.left(&self.call, &self.turn);
        self.follower.done_with(&self.call, self.sent);
    }
}

/// Starts to answer a call. Returns `false` if nobody waits for the job.
pub(crate) fn answer(shared: &Arc<Shared>, job: JobId, call: ToolCall, event: &Message) -> bool {
    let Some((follower, parent, turn)) = shared.jobs.follower(&job) else { return false };
    let end = match shared.calls.begin(&call.call, &turn, shared.options.max_calls) {
        Verdict::New(end) => end,
        Verdict::Repeat => return true,
        Verdict::Answered(body) => {
            spawn(shared, send(shared.clone(), call.reply_to, body, within(call.within_ms)));
            return true;
        }
        Verdict::Full => {
            let full = "the client is already answering as many tool calls as it can";
            let body = encode(&call.call, Err(full.into()));
            spawn(shared, send(shared.clone(), call.reply_to, body, within(call.within_ms)));
            return true;
        }
    };
    let under_way = UnderWay { shared: shared.clone(), follower, call: call.call.clone(), turn, sent: false };
    let span =
        tracing::info_span!(parent: &parent, "tool", otel.kind = "consumer", job.id = %job, tool.name = %call.tool);
    trace::adopt(&span, &event.headers);
    let event = event.body.clone();
    let running = async move {
        let answer = tokio::select! {
            biased;
            () = end.cancelled() => None,
            answer = run(&under_way, call, event) => answer,
        };
        if let Some((key, body, within)) = answer {
            let sent = send(under_way.shared.clone(), key, body, within).await;
            under_way.done(sent);
        }
    };
    spawn(shared, running.instrument(span));
    true
}

/// Answers a call that no tool answers. Returns when the broker has confirmed the answer.
pub(crate) async fn answer_by_hand(
    shared: &Shared,
    call: &str,
    reply_to: &str,
    reply: Result<Box<RawValue>, ToolFailure>,
) -> Result<(), Error> {
    let unknown = || Error::UnknownCall(call.to_owned());
    if reply_to.strip_prefix(shared.tenant.as_str()).is_none_or(|rest| !rest.starts_with('.')) {
        return Err(unknown());
    }
    let body = encode(call, reply);
    shared.calls.done_by_hand(call, &body);
    let mut message = answering(shared, reply_to.to_owned(), body);
    message.mandatory = true;
    publish::confirmed(shared, message).await.map_err(|error| match error {
        Error::NoScheduler => unknown(),
        error => error,
    })
}

fn spawn(shared: &Arc<Shared>, task: impl Future<Output: Send> + Send + 'static) {
    let stop = shared.stop.clone();
    shared.tasks.spawn(async move {
        tokio::select! {
            // A client that ends answers nothing more: the end of its followers is no answer to their calls.
            biased;
            () = stop.cancelled() => {}
            _ = task => {}
        }
    });
}

/// Answers a call by its follower. Returns the message that has to be sent.
///
/// A call whose time is over gets no answer from here: the worker ends it by its own clock, with an error that is the
/// same for every tool. A second one would win by luck.
///
/// While the run's answers lie on its worker's disk, the answer waits here; no longer than for half of its call's time,
/// so that it still gets there.
async fn run(under_way: &UnderWay, call: ToolCall, event: Bytes) -> Option<(String, Bytes, Duration)> {
    let (began, within, tool) = (Instant::now(), within(call.within_ms), call.tool.clone());
    let (id, reply_to) = (call.call.clone(), call.reply_to.clone());
    let answered = AssertUnwindSafe(under_way.follower.tool_call(call, event)).catch_unwind();
    let reply = match tokio::time::timeout(within, answered).await {
        Ok(Ok(reply)) => Some(reply),
        Ok(Err(_)) => Some(Err(format!("the tool {tool:?} panicked").into())),
        Err(_) => None,
    };
    let bears = (within / 2).saturating_sub(began.elapsed());
    if reply.is_some() && !under_way.turn.may_answer(bears).await {
        return None;
    }
    let body = reply.map(|reply| encode(&id, reply));
    let counts = under_way.shared.calls.done(&id, &under_way.turn, body.as_ref());
    body.filter(|_| counts).map(|body| (reply_to, body, within))
}

fn within(ms: u64) -> Duration {
    // At most a day, so that no task lives forever.
    Duration::from_millis(ms.clamp(1, 24 * 3600 * 1000))
}

/// A [`ToolResult`] whose result is JSON text already.
///
/// [`ToolResult`]: thermae_schemas::ToolResult
#[derive(Serialize)]
struct Answer<'a> {
    protocol: u32,
    call: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ok: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a ToolFailure>,
}

/// Writes an answer.
fn encode(call: &str, reply: Result<Box<RawValue>, ToolFailure>) -> Bytes {
    let (ok, error) = (reply.as_deref().ok(), reply.as_ref().err());
    serde_json::to_vec(&Answer { protocol: OLDEST, call, ok, error }).unwrap_or_default().into()
}

/// The message with an answer.
fn answering(shared: &Shared, key: String, body: Bytes) -> Message {
    let mut message = Message { exchange: names::CALLS.to_owned(), key, body, ..Message::default() };
    message.sign(shared.bus.as_ref(), &shared.tenant);
    trace::inject(&tracing::Span::current(), &mut message.headers);
    message
}

/// Publishes an answer. Outages are waited out for at most `within`, because nobody waits for the answer after that.
/// Returns whether it was published.
async fn send(shared: Arc<Shared>, key: String, body: Bytes, within: Duration) -> bool {
    let message = answering(&shared, key, body);
    let publish = async {
        let mut pause = shared.options.retry_min;
        loop {
            match publish::once(&shared, message.clone()).await {
                Err(error) if error.is_transient() => {
                    tracing::debug!(%error, "a tool's answer could not be sent; trying again");
                    if publish::wait(&shared, &mut pause).await.is_err() {
                        return false;
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "a tool's answer could not be sent");
                    return false;
                }
                Ok(()) => return true,
            }
        }
    };
    tokio::time::timeout(within, publish).await.unwrap_or_else(|_| {
        tracing::warn!("a tool's answer could not be sent in time");
        false
    })
}
