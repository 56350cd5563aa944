//! What the client hears while the code runs: streamed output, and tool calls.
//!
//! These are not persistent and nothing waits for them, but tool calls: those are mandatory, so that a call to a client
//! that is gone fails at once.

use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::Value;
use serde_json::value::RawValue;
use thermae_backplane::bus;
use thermae_runner::frames;
use thermae_schemas::{ErrorCode, Event, EventBody, MimeBundle, Stream, ToolCall, names};
use tokio::time::error::Elapsed;

use super::settle::reply;
use crate::context::Context;
use crate::running::Entry;
use crate::tools::{Gate, Refused};
use crate::work::Work;

/// How long a streamed event may hold the run up.
const EVENT_WITHIN: Duration = Duration::from_millis(200);

/// Which of the two streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    Stdout,
    Stderr,
}

/// Streams a job's events to its client, as far as it asked for them.
pub(super) struct Streamer<'a> {
    ctx: &'a Context,
    work: &'a Work,
    key: Option<&'a str>,
    lifecycle: bool,
    output: bool,
    display: bool,
    seq: u64,
    /// Whether anything was sent.
    sent: bool,
    /// The beginnings of characters whose rest has not come yet.
    partial: [Vec<u8>; 2],
}

impl<'a> Streamer<'a> {
    pub(super) fn new(ctx: &'a Context, work: &'a Work) -> Self {
        let wants = |s| work.job.stream.contains(&s);
        Self {
            ctx,
            work,
            key: work.reply_to.as_deref(),
            lifecycle: wants(Stream::Lifecycle),
            output: wants(Stream::Output),
            display: wants(Stream::Display),
            seq: 0,
            sent: false,
            partial: Default::default(),
        }
    }

    pub(super) async fn started(&mut self) {
        if self.lifecycle {
            self.send(EventBody::Started { worker: self.ctx.id.clone() }).await;
        }
    }

    pub(super) async fn output(&mut self, output: Output, bytes: &[u8]) {
        if self.output {
            let partial = &mut self.partial[output as usize];
            partial.extend_from_slice(bytes);
            let whole = partial.len() - unfinished(partial);
            let text = String::from_utf8_lossy(&partial[..whole]).into_owned();
            partial.drain(..whole);
            self.text(output, text).await;
        }
    }

    pub(super) async fn display(&mut self, data: &MimeBundle) {
        if self.display {
            self.send(EventBody::Display { data: data.clone() }).await;
        }
    }

    /// Sends what is left of characters that never became whole; when it returns, the result comes after all that was sent.
    pub(super) async fn end(&mut self) {
        for output in [Output::Stdout, Output::Stderr] {
            let rest = std::mem::take(&mut self.partial[output as usize]);
            self.text(output, String::from_utf8_lossy(&rest).into_owned()).await;
        }
        if self.sent {
            lost(tokio::time::timeout(EVENT_WITHIN, self.ctx.bus.flush()).await);
        }
    }

    async fn text(&mut self, output: Output, text: String) {
        if !text.is_empty() {
            let seq = self.seq;
            self.seq += 1;
            self.send(match output {
                Output::Stdout => EventBody::Stdout { seq, text },
                Output::Stderr => EventBody::Stderr { seq, text },
            })
            .await;
        }
    }

    async fn send(&mut self, body: EventBody) {
        let Some(key) = self.key else { return };
        let event = Event::new(self.work.key.job.clone(), self.work.attempt, body);
        let Ok(body) = serde_json::to_vec(&event) else { return };
        let message = bus::Message { mandatory: false, ..reply(self.work, key, body.into(), false) };
        self.sent = true;
        lost(tokio::time::timeout(EVENT_WITHIN, self.ctx.bus.publish(message)).await);
    }
}

/// Says so where an event may be lost: that costs nothing but the event.
fn lost<T>(sent: Result<Result<T, bus::Error>, Elapsed>) {
    match sent {
        Ok(Ok(_)) => {}
        Ok(Err(e)) => tracing::debug!(error = %e, "a streamed event may be lost; the result has it all"),
        Err(e) => tracing::debug!(error = %e, "a streamed event may be lost; the result has it all"),
    }
}

/// Bytes at the end that are the beginning of a character.
fn unfinished(bytes: &[u8]) -> usize {
    let tail = bytes.len().saturating_sub(3);
    (tail..bytes.len())
        .rev()
        .map(|at| (&bytes[at..], bytes.len() - at))
        .find(|(rest, _)| rest[0] & 0xc0 != 0x80)
        .map_or(0, |(rest, len)| match std::str::from_utf8(rest) {
            Err(e) if e.error_len().is_none() => len,
            _ => 0,
        })
}

/// Checks a tool call of the code. What it returns is what may leave the worker.
pub(super) fn admit(ctx: &Context, gate: &mut Gate, entry: &Entry, call: &frames::ToolCall) -> Result<Value, Refused> {
    let refused = match entry.check() {
        Err(_) => Refused { code: ErrorCode::WorkerLost, message: "the worker lost its lease on the job".into() },
        Ok(()) => match gate.check(&call.name, &call.arguments) {
            Ok(arguments) => return Ok(arguments),
            Err(refused) => refused,
        },
    };
    ctx.metrics.tool_calls.with_label_values(&[refused.code.as_str()]).inc();
    Err(refused)
}

/// Sends a call that was let through to the client, and waits for the answer.
#[tracing::instrument(name = "tool_call", skip_all, fields(otel.kind = "client", tool.name = tool))]
pub(super) async fn call(
    ctx: &Context,
    work: &Work,
    tool: &str,
    arguments: Value,
    within: Duration,
) -> Result<Box<RawValue>, String> {
    let began = Instant::now();
    let (result, answer) = match exchange(ctx, work, tool, arguments, within).await {
        Ok(Ok(value)) => ("ok", Ok(value)),
        Ok(Err(error)) => ("error", Err(error)),
        Err(refused) => (refused.code.as_str(), Err(refused.text())),
    };
    ctx.metrics.tool_calls.with_label_values(&[result]).inc();
    ctx.metrics.tool_seconds.observe(began.elapsed().as_secs_f64());
    answer
}

async fn exchange(
    ctx: &Context,
    work: &Work,
    tool: &str,
    arguments: Value,
    within: Duration,
) -> Result<Result<Box<RawValue>, String>, Refused> {
    let gone =
        || Refused { code: ErrorCode::ClientGone, message: format!("nobody is there to answer the call of {tool:?}") };
    let key = work.reply_to.as_deref().ok_or_else(gone)?;
    let mut waiting = ctx.calls.begin(&work.key.tenant);
    let body = EventBody::ToolCall(ToolCall {
        call: waiting.call.clone(),
        tool: tool.to_owned(),
        arguments,
        reply_to: names::calls_key(&work.key.tenant, &ctx.id),
        within_ms: u64::try_from(within.as_millis()).unwrap_or(u64::MAX),
    });
    let event = Event::new(work.key.job.clone(), work.attempt, body);
    let body = serde_json::to_vec(&event).map(Bytes::from);
    let body = body.map_err(|e| Refused { code: ErrorCode::Internal, message: e.to_string() })?;
    let answered = async {
        let publish = async { ctx.bus.publish(reply(work, key, body, false)).await?.wait().await };
        // The answer may come before the broker's confirm.
        tokio::select! {
            biased;
            answer = waiting.answer() => return Ok(answer),
            sent = publish => match sent {
                Ok(()) => {}
                Err(bus::Error::Unroutable { .. }) => return Err(gone()),
                // Whether it arrived is not known, and a tool may act: it is not sent twice. The answer may yet come.
                Err(bus::Error::Disconnected(_)) => {}
                Err(e) => return Err(Refused { code: ErrorCode::Internal, message: e.to_string() }),
            },
        }
        Ok(waiting.answer().await)
    };
    tokio::time::timeout(within, answered).await.unwrap_or_else(|_| {
        Err(Refused {
            code: ErrorCode::ToolTimeout,
            message: format!("{tool:?} was not answered within {} s", within.as_secs_f64()),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_in_two_pieces_stays_whole() {
        let text = "aé€😀".as_bytes();
        for cut in 0..text.len() {
            let head = &text[..cut];
            let whole = head.len() - unfinished(head);
            assert!(std::str::from_utf8(&head[..whole]).is_ok(), "cut at {cut}");
        }
        assert_eq!(unfinished(b"a\xff"), 0, "what can't become whole is not waited for");
        assert_eq!(unfinished(b""), 0);
    }
}
