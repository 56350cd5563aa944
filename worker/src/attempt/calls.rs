//! The path of a tool call: from the runner's frame through the gate to the client, and the answer back.
//!
//! A call is held in memory only until it has left the worker. Every call is answered, whatever is wrong with it.

use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::value::RawValue;
use thermae_backplane::bus;
use thermae_runner::frames::{self, Frame};
use thermae_schemas::{ErrorCode, names};

use super::settle::reply;
use crate::context::Context;
use crate::running::Entry;
use crate::tools::{Open, Refused};
use crate::wire;
use crate::work::Work;

/// The answer to a call. If not even the number of the call can be read: the reason, because such a runner is broken.
type Answered = Result<frames::ToolResult, String>;

/// How long a call may wait for its answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// The time itself.
    pub within: Duration,
    /// Whether this is what is left of the job's wall-clock time, and not the tool's own limit.
    pub by_wall: bool,
}

/// Checks a call, sends it to the client and waits for the answer. The gate has already counted the call.
pub(super) async fn call(
    ctx: &Context,
    work: &Work,
    entry: &Entry,
    frame: Frame,
    mut open: Open,
    patience: Patience,
) -> Answered {
    let bytes = frame.body.len();
    let read = ctx.heavy.scan(bytes, move || frame.parse::<frames::ToolCall>().map_err(|e| unreadable(&frame, &e)));
    let frames::ToolCall { call, name, arguments } = match read.await {
        Ok(call) => call,
        Err(answered) => return count(ctx, answered),
    };
    let gate = open.gate().clone();
    let steps = gate.cost(&name, bytes);
    let checked = ctx.heavy.check(steps, move || (gate.check(&name, arguments), name));
    let (checked, name) = checked.await;
    let lost = || Refused { code: ErrorCode::WorkerLost, message: "the worker lost its lease on the job".into() };
    let admitted = entry.check().map_err(|_| lost()).and(checked);
    let result = match admitted {
        Err(refused) => Err(refuse(ctx, &refused)),
        Ok(arguments) => ask(ctx, work, &name, arguments, &mut open, patience).await,
    };
    Ok(frames::ToolResult { call, result })
}

/// Answers a call that exceeds a bound.
pub(super) fn too_many(ctx: &Context, frame: &Frame, refused: &Refused) -> Answered {
    let call = number(frame).ok_or("a tool call can't be read")?;
    Ok(frames::ToolResult { call, result: Err(refuse(ctx, refused)) })
}

fn refuse(ctx: &Context, refused: &Refused) -> String {
    ctx.metrics.tool_calls.with_label_values(&[refused.code.as_str()]).inc();
    refused.text()
}

fn unreadable(frame: &Frame, error: &serde_json::Error) -> Result<(u32, Refused), String> {
    let refused = Refused { code: ErrorCode::ToolArguments, message: format!("the call can't be read: {error}") };
    number(frame).map(|call| (call, refused)).ok_or_else(|| format!("a tool call can't be read: {error}"))
}

fn count(ctx: &Context, unreadable: Result<(u32, Refused), String>) -> Answered {
    let (call, refused) = unreadable?;
    Ok(frames::ToolResult { call, result: Err(refuse(ctx, &refused)) })
}

/// The number of a call, even if the rest of it can't be read. The runner writes the number first.
fn number(frame: &Frame) -> Option<u32> {
    #[derive(Deserialize)]
    struct Numbered {
        call: u32,
    }
    if let Ok(Numbered { call }) = frame.parse() {
        return Some(call);
    }
    let digits = frame.body.strip_prefix(br#"{"call":"#)?;
    let end = digits.iter().position(|b| !b.is_ascii_digit())?;
    std::str::from_utf8(&digits[..end]).ok()?.parse().ok()
}

/// Sends a call that passed the gate to the client, and waits for the answer.
#[tracing::instrument(name = "tool_call", skip_all, fields(otel.kind = "client", tool.name = tool))]
async fn ask(
    ctx: &Context,
    work: &Work,
    tool: &str,
    arguments: Box<RawValue>,
    open: &mut Open,
    patience: Patience,
) -> Result<Box<RawValue>, String> {
    let began = Instant::now();
    let (result, answer) = match exchange(ctx, work, tool, arguments, open, patience).await {
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
    arguments: Box<RawValue>,
    open: &mut Open,
    patience: Patience,
) -> Result<Result<Box<RawValue>, String>, Refused> {
    let gone = || Refused {
        code: ErrorCode::ClientGone,
        message: format!("no client is there to answer the call of {tool:?}"),
    };
    let internal = |message| Refused { code: ErrorCode::Internal, message };
    let key = work.reply_to.as_deref().ok_or_else(gone)?;
    let mut waiting = ctx.calls.begin(&work.key.tenant);
    let call = wire::Call {
        call: &waiting.call,
        tool,
        arguments: &arguments,
        reply_to: &names::calls_key(&work.key.tenant, &ctx.id),
        within_ms: u64::try_from(patience.within.as_millis()).unwrap_or(u64::MAX),
    };
    let body = wire::tool_call(work, call).map_err(|e| internal(e.to_string()))?;
    drop(arguments);
    let answered = async {
        if let Some(pool) = ctx.pool(&work.job.pool) {
            pool.traffic().settled(&work.key.tenant).await;
        }
        ctx.moves(work, body.len());
        let publish = async {
            let sent = ctx.bus.publish(reply(work, key, body, false)).await?.wait().await;
            open.left();
            sent
        };
        // The answer may come before the broker's confirm.
        tokio::select! {
            biased;
            answer = waiting.answer() => return answer,
            sent = publish => match sent {
                Ok(()) => {}
                Err(bus::Error::Unroutable { .. }) => return Err(gone()),
                // It is not known whether the call arrived. A tool may have an effect, so the call is not sent twice.
                // The answer may still come.
                Err(bus::Error::Disconnected(_)) => {}
                Err(e) => return Err(internal(e.to_string())),
            },
        }
        waiting.answer().await
    };
    let answered = tokio::time::timeout(patience.within, answered).await;
    if let Ok(Ok(Ok(answer))) = &answered {
        ctx.moves(work, answer.get().len());
    }
    answered.unwrap_or_else(|_| {
        let seconds = patience.within.as_secs_f64();
        let whose = if patience.by_wall { ", which was all that was left of the job's limits.wall_ms" } else { "" };
        let message = format!("{tool:?} was not answered within {seconds} s{whose}");
        Err(Refused { code: ErrorCode::ToolTimeout, message })
    })
}

#[cfg(test)]
mod tests {
    use thermae_runner::frames::Kind;

    use super::*;

    #[test]
    fn a_call_that_can_t_be_read_still_has_a_number() {
        let number = |body: &str| number(&Frame::raw(Kind::ToolCall, 1, body));
        assert_eq!(number(r#"{"call":7,"name":3}"#), Some(7));
        assert_eq!(number(r#"{"name":"t","call":8}"#), Some(8));
        assert_eq!(number(r#"{"call":9,"name":"t","arguments":NaN}"#), Some(9));
        assert_eq!(number(r#"{"call":-1}"#), None);
        assert_eq!(number("call"), None);
    }
}
