//! Answers tool calls. Each call runs once, in its own task.

use std::collections::{HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::FutureExt;
use serde_json::Value;
use thermae_backplane::bus::{Headers, Message};
use thermae_schemas::{Body, JobId, ToolCall, ToolFailure, ToolReply, ToolResult, names};
use tracing::Instrument;

use crate::client::Shared;
use crate::{publish, trace};

/// Answers the calls that a job's code makes to the client's tools. Several calls may run at the same time.
#[async_trait]
pub trait ToolHandler: Send + Sync + 'static {
    /// Runs a tool. If it returns an `Err` or panics, the code gets a `ToolError`. The failure's type and data reach
    /// only jobs of protocol 2; other jobs get the type as a part of the text. The call is dropped when the code no
    /// longer waits for it, but *not* when the job ends.
    async fn call(&self, job: &JobId, tool: &str, arguments: Value) -> Result<Value, ToolFailure>;
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
    seen: HashMap<String, Option<Bytes>>,
    order: VecDeque<String>,
    running: usize,
}

/// What to do with a call.
enum Verdict {
    /// It is new: run the tool.
    New,
    /// It is still running, or its answer was too large to keep: do nothing.
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

    fn begin(&self, call: &str, max: usize) -> Verdict {
        let mut table = self.lock();
        match table.seen.get(call) {
            Some(Some(answer)) => return Verdict::Answered(answer.clone()),
            Some(None) => return Verdict::Repeat,
            None => {}
        }
        if table.running >= max {
            return Verdict::Full;
        }
        table.running += 1;
        table.seen.insert(call.to_owned(), None);
        table.order.push_back(call.to_owned());
        while table.order.len() > KEPT.max(max) {
            if let Some(old) = table.order.pop_front() {
                table.seen.remove(&old);
            }
        }
        Verdict::New
    }

    fn done(&self, call: &str, answer: &Bytes) {
        let mut table = self.lock();
        table.running -= 1;
        if answer.len() <= KEPT_BYTES
            && let Some(kept) = table.seen.get_mut(call)
        {
            *kept = Some(answer.clone());
        }
    }
}

/// Starts to answer a call, in the job's version of the protocol. Returns `false` if nobody waits for the job.
pub(crate) fn answer(shared: &Arc<Shared>, job: JobId, protocol: u32, call: ToolCall, headers: &Headers) -> bool {
    let Some((handler, parent)) = shared.jobs.tools(&job) else { return false };
    match shared.calls.begin(&call.call, shared.options.max_calls) {
        Verdict::New => {}
        Verdict::Repeat => return true,
        Verdict::Answered(body) => {
            spawn(shared, send(shared.clone(), call.reply_to, body, within(call.within_ms)));
            return true;
        }
        Verdict::Full => {
            let full = "the client is already answering as many tool calls as it can";
            let body = encode(&call.call, protocol, Err(full.into()));
            spawn(shared, send(shared.clone(), call.reply_to, body, within(call.within_ms)));
            return true;
        }
    }
    let span =
        tracing::info_span!(parent: &parent, "tool", otel.kind = "consumer", job.id = %job, tool.name = %call.tool);
    trace::adopt(&span, headers);
    spawn(shared, run(shared.clone(), handler, job, protocol, call).instrument(span));
    true
}

fn spawn(shared: &Arc<Shared>, task: impl Future<Output = ()> + Send + 'static) {
    let stop = shared.stop.clone();
    shared.tasks.spawn(async move {
        tokio::select! {
            () = task => {}
            () = stop.cancelled() => {}
        }
    });
}

async fn run(shared: Arc<Shared>, handler: Option<Arc<dyn ToolHandler>>, job: JobId, protocol: u32, call: ToolCall) {
    let within = within(call.within_ms);
    let reply = match handler {
        None => Err(format!("the client answers no tool calls for this job ({:?} was called)", call.tool).into()),
        Some(handler) => {
            let answered = AssertUnwindSafe(handler.call(&job, &call.tool, call.arguments)).catch_unwind();
            match tokio::time::timeout(within, answered).await {
                Ok(Ok(reply)) => reply,
                Ok(Err(_)) => Err(format!("the tool {:?} panicked", call.tool).into()),
                Err(_) => Err(format!("the tool {:?} did not answer within {} ms", call.tool, call.within_ms).into()),
            }
        }
    };
    let body = encode(&call.call, protocol, reply);
    shared.calls.done(&call.call, &body);
    send(shared, call.reply_to, body, within).await;
}

fn within(ms: u64) -> Duration {
    // At most a day, so that no task lives forever.
    Duration::from_millis(ms.clamp(1, 24 * 3600 * 1000))
}

fn encode(call: &str, protocol: u32, reply: Result<Value, ToolFailure>) -> Bytes {
    let reply = match reply {
        Ok(value) => ToolReply::Ok(value),
        Err(failure) if protocol < 2 => ToolReply::Error(failure.into_text()),
        Err(failure) => ToolReply::Error(failure),
    };
    ToolResult::new(call, reply).to_json().unwrap_or_default().into()
}

/// Publishes an answer. Outages are waited out for at most `within`, because nobody waits for the answer after that.
async fn send(shared: Arc<Shared>, key: String, body: Bytes, within: Duration) {
    let mut message = Message { exchange: names::CALLS.to_owned(), key, body, ..Message::default() };
    message.sign(shared.bus.as_ref(), &shared.tenant);
    trace::inject(&tracing::Span::current(), &mut message.headers);
    let publish = async {
        let mut pause = shared.options.retry_min;
        loop {
            let sent = match shared.bus.publish(message.clone()).await {
                Ok(confirm) => confirm.wait().await,
                Err(error) => Err(error),
            };
            match sent {
                Err(error) if error.is_transient() => {
                    tracing::debug!(%error, "a tool's answer could not be sent; trying again");
                    if publish::wait(&shared, &mut pause).await.is_err() {
                        return;
                    }
                }
                Err(error) => return tracing::warn!(%error, "a tool's answer could not be sent"),
                Ok(()) => return,
            }
        }
    };
    if tokio::time::timeout(within, publish).await.is_err() {
        tracing::warn!("a tool's answer could not be sent in time");
    }
}
