//! The path of a tool call: from the runner's frame through the gate to the provider, and the answer back.
//!
//! A call is held in memory only until it has left the worker. Every call is answered, whatever is wrong with it.

use std::collections::VecDeque;
use std::time::Duration;

use serde::Deserialize;
use thermae_runner::frames::{self, Frame};
use thermae_schemas::{AuditLine, ErrorCode, EventBody};
use thermae_service::units::seconds;
use tokio::time::Instant;

use super::{Answer, Call, Gate, Kept, Open, Provider, Refused};
use crate::attempt::send_alone;
use crate::audit::{self, Named};
use crate::conn::Running;
use crate::context::Context;
use crate::heavy::Heavy;
use crate::metrics::Metrics;
use crate::options::Granted;
use crate::running::Entry;
use crate::work::Work;

/// The answer to a call with this number.
pub(crate) struct Answered {
    call: u32,
    answer: Answer,
}

/// Not even the number of the call can be read. Such a runner is broken.
#[derive(Debug, thiserror::Error)]
#[error("a tool call can't be read: {0}")]
pub(crate) struct Unreadable(serde_json::Error);

/// How long a call may wait for its answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    within: Duration,
    /// Whether this is what is left of the run's time, and not the tool's own limit.
    by_run: bool,
}

impl Patience {
    /// At most the tool's own limit, and at most what can be left of the time of a run that began at `began`: its
    /// wall-clock time, the time that it may wait beside, and the time that it has to end after its interrupt. With
    /// that last part, the run's limit ends a run that waits for too long. Without it, the program would get the
    /// interrupt or an error of the tool, whichever came first.
    pub(crate) fn new(limits: &Granted, began: Instant) -> Self {
        let own = Duration::from_millis(limits.tool_ms);
        let run = limits.run;
        let run = Duration::from_millis(run.wall_ms.saturating_add(run.pause_ms).saturating_add(run.grace_ms));
        let left = run.saturating_sub(began.elapsed());
        Self { within: own.min(left.max(Duration::from_millis(1))), by_run: left < own }
    }

    /// Bounds it by the called tool's own time-out, if it has one.
    fn at_most(self, timeout: Option<Duration>) -> Self {
        match timeout {
            Some(within) if within < self.within => Self { within, by_run: false },
            _ => self,
        }
    }
}

/// Checks a call, has it answered, and waits for the answer. The gate has already counted the call.
///
/// # Errors
/// The call can't be answered.
pub(crate) async fn call(
    ctx: &Context,
    work: &Work,
    entry: &Entry,
    frame: Frame,
    mut open: Open,
    patience: Patience,
) -> Result<Answered, Unreadable> {
    let (gate, bytes) = (open.gate().clone(), frame.body.len());
    let named = |call, tool| Named { work, token: gate.token(), call, tool };
    let read = ctx.heavy.scan(bytes, move || frame.parse().map_err(|e| (number(&frame), e)));
    let frames::ToolCall { call, name, arguments } = match read.await {
        Ok(call) => call,
        Err((Ok(call), e)) => {
            let refused = Refused::new(ErrorCode::ToolArguments, format!("the call can't be read: {e}"));
            return Ok(refuse(ctx, entry, named(call, None), &refused).await);
        }
        Err((Err(unreadable), _)) => return Err(unreadable),
    };
    let (steps, checks) = (gate.cost(&name, bytes), gate.clone());
    let checked = ctx.heavy.check(steps, move || (checks.check(&name, arguments), name));
    let (checked, name) = checked.await;
    let lost = || Refused::new(ErrorCode::WorkerLost, "the worker lost its lease on the job");
    let arguments = match entry.check().map_err(|_| lost()).and(checked) {
        Ok(arguments) => arguments,
        Err(refused) => return Ok(refuse(ctx, entry, named(call, Some(&name)), &refused).await),
    };
    let Ok(mut trail) = ctx.audit.begin(named(call, Some(&name)), &arguments).await else {
        let refused = Refused::new(ErrorCode::AuditFailed, audit::Unwritten.to_string());
        return Ok(counted(ctx, call, refused));
    };
    tell(ctx, work, entry, trail.told.take()).await;
    let patience = patience.at_most(gate.timeout(&name));
    let asked = Call { work, entry, tool: &name, arguments, within: patience.within, open: &mut open, trail: &trail };
    let answer = ask(&*ctx.provider, &ctx.metrics, asked, patience.by_run).await;
    let why = answer.as_ref().err().map(|refused| &*refused.message);
    let told = trail.end(label(&answer), why).await;
    tell(ctx, work, entry, told).await;
    Ok(Answered { call, answer })
}

/// How a call ended, in metrics and in the audit log.
fn label(answer: &Answer) -> &'static str {
    match answer {
        Ok(kept) if kept.is_error() => "error",
        Ok(_) => "ok",
        Err(refused) => refused.code.as_str(),
    }
}

/// A refusal as the code gets it. A call that was not answered in time is a `TimeoutError`, too.
fn for_code(refused: &Refused) -> frames::ToolFailure {
    let late = refused.code == ErrorCode::ToolTimeout;
    frames::ToolFailure { kind: late.then(|| "TimeoutError".to_owned()), ..refused.to_string().into() }
}

/// Refuses a call that exceeds a bound.
///
/// # Errors
/// The call can't be answered.
pub(crate) async fn turn_away(
    ctx: &Context,
    work: &Work,
    entry: &Entry,
    gate: &Gate,
    frame: &Frame,
    refused: &Refused,
) -> Result<Answered, Unreadable> {
    let named = |call| Named { work, token: gate.token(), call, tool: None };
    let call = number(frame)?;
    // A job can make any number of such calls, and must not fill the audit log with them.
    if gate.first_exceeds() {
        return Ok(refuse(ctx, entry, named(call), refused).await);
    }
    Ok(counted(ctx, call, refused.clone()))
}

/// Answers that a run has not got, in the order in which they came.
#[derive(Default)]
pub(crate) struct Unread {
    answers: VecDeque<Answered>,
    on_disk: usize,
}

impl Unread {
    pub(crate) fn push(&mut self, answered: Answered) {
        self.on_disk += usize::from(answered.is_on_disk());
        self.answers.push_back(answered);
    }

    pub(crate) fn pop(&mut self) -> Option<Answered> {
        let answered = self.answers.pop_front()?;
        self.on_disk -= usize::from(answered.is_on_disk());
        Some(answered)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }

    /// Number of those that wait on the disk.
    pub(crate) fn on_disk(&self) -> usize {
        self.on_disk
    }
}

impl Answered {
    fn is_on_disk(&self) -> bool {
        self.answer.as_ref().is_ok_and(Kept::is_on_disk)
    }

    /// Hands the answer to the run.
    pub(crate) async fn give(self, heavy: &Heavy, running: &mut Running) {
        let call = self.call;
        let taken = match self.answer {
            Ok(kept) => kept.take(heavy).await,
            Err(refused) => Err(refused),
        };
        match taken {
            Ok((result, _share)) => running.answer(&frames::ToolResult { call, result }),
            Err(refused) => running.answer(&frames::ToolResult { call, result: Err(for_code(&refused)) }),
        }
    }
}

/// Refuses a call that did not pass the gate.
async fn refuse(ctx: &Context, entry: &Entry, named: Named<'_>, refused: &Refused) -> Answered {
    let told = ctx.audit.refused(&named, refused.code, &refused.message).await;
    tell(ctx, named.work, entry, told).await;
    counted(ctx, named.call, refused.clone())
}

/// Tells the client of the run what the audit log says.
async fn tell(ctx: &Context, work: &Work, entry: &Entry, line: Option<AuditLine>) {
    if let Some(line) = line {
        send_alone(ctx, work, entry, EventBody::Audit(line)).await;
    }
}

fn counted(ctx: &Context, call: u32, refused: Refused) -> Answered {
    ctx.metrics.tool_calls.with_label_values(&[refused.code.as_str()]).inc();
    Answered { call, answer: Err(refused) }
}

/// The number of a call, even if the rest of it can't be read. The runner writes the number first.
fn number(frame: &Frame) -> Result<u32, Unreadable> {
    #[derive(Deserialize)]
    struct Numbered {
        call: u32,
    }
    let first = || {
        let digits = frame.body.strip_prefix(br#"{"call":"#)?;
        let end = digits.iter().position(|b| !b.is_ascii_digit())?;
        std::str::from_utf8(&digits[..end]).ok()?.parse().ok()
    };
    frame.parse().map(|Numbered { call }| call).or_else(|e| first().ok_or(Unreadable(e)))
}

/// Has a call answered that passed the gate. Gives it up when its time is over.
#[tracing::instrument(name = "tool_call", skip_all, fields(otel.kind = "client", tool.name = call.tool))]
async fn ask(provider: &dyn Provider, metrics: &Metrics, call: Call<'_>, by_run: bool) -> Answer {
    let began = Instant::now();
    let (tool, within) = (call.tool, call.within);
    let answer = tokio::time::timeout(within, provider.call(call)).await.unwrap_or_else(|_| {
        let within = seconds(within);
        let whose = if by_run { ", which was all that was left of the run's time" } else { "" };
        let message = format!("{tool:?} was not answered within {within}{whose}");
        Err(Refused::new(ErrorCode::ToolTimeout, message))
    });
    metrics.tool_calls.with_label_values(&[label(&answer)]).inc();
    metrics.tool_seconds.observe(began.elapsed().as_secs_f64());
    answer
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use async_trait::async_trait;
    use serde_json::value::RawValue;
    use thermae_runner::frames::Kind;
    use thermae_schemas::WorkerId;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::options::{AnswerOptions, Bounds};
    use crate::running::Table;
    use crate::running::tests::enter;
    use crate::tools::kept::tests::keeper;
    use crate::tools::{Gate, Said};
    use crate::work::tests::work;

    /// Gives every call this answer.
    struct Fixed(Result<Said, Refused>);

    #[async_trait]
    impl Provider for Fixed {
        async fn call(&self, call: Call<'_>) -> Answer {
            keeper(AnswerOptions::default()).keep(&call.work.key, self.0.clone()?)
        }
    }

    /// Answers no call. Cancels the token when a call is given up.
    struct Silent(CancellationToken);

    #[async_trait]
    impl Provider for Silent {
        async fn call(&self, _: Call<'_>) -> Answer {
            let _given_up = self.0.clone().drop_guard();
            std::future::pending().await
        }
    }

    /// Asks a provider as for a call of the tool `t`.
    async fn asked(provider: &dyn Provider, metrics: &Metrics, within: Duration, by_run: bool) -> Answer {
        let (gate, _) = Gate::new(&[], Bounds::default()).unwrap();
        let mut open = Arc::new(gate).comes(2).unwrap();
        let arguments = RawValue::from_string("{}".into()).unwrap();
        let entry = enter(&Table::default()).unwrap();
        let (audit, work) =
            (audit::Audit::open(&audit::AuditOptions::default(), &WorkerId::boot("w")).unwrap(), work());
        let named = Named { work: &work, token: None, call: 1, tool: Some("t") };
        let trail = audit.begin(named, &arguments).await.unwrap();
        let call = Call { work: &work, entry: &entry, tool: "t", arguments, within, open: &mut open, trail: &trail };
        ask(provider, metrics, call, by_run).await
    }

    #[tokio::test]
    async fn a_call_is_given_up_when_its_time_is_over() {
        let metrics = Metrics::new(&prometheus::Registry::new()).unwrap();
        for (by_run, rest) in [(false, ""), (true, ", which was all that was left of the run's time")] {
            let given_up = CancellationToken::new();
            let answer = asked(&Silent(given_up.clone()), &metrics, Duration::from_millis(5), by_run).await;
            let text = answer.err().unwrap().to_string();
            assert_eq!(text, format!("tool_timeout: \"t\" was not answered within 0.005 s{rest}"));
            assert!(given_up.is_cancelled());
        }
        assert_eq!(metrics.tool_calls.with_label_values(&["tool_timeout"]).get(), 2);
    }

    #[tokio::test]
    async fn any_provider_s_answer_is_passed_on_and_counted() {
        let metrics = Metrics::new(&prometheus::Registry::new()).unwrap();
        let value = RawValue::from_string("[1,  2]".into()).unwrap();
        let gone = Refused::new(ErrorCode::ClientGone, "nobody is there");
        for (answer, label, text) in [
            (Ok(Ok(value)), "ok", "[1,  2]"),
            (Ok(Err("no such city".into())), "error", "no such city"),
            (Err(gone), "client_gone", "client_gone: nobody is there"),
        ] {
            let given = match asked(&Fixed(answer), &metrics, Duration::from_secs(60), false).await {
                Ok(kept) => kept.take(&Heavy::default()).await.unwrap().0,
                Err(refused) => Err(for_code(&refused)),
            };
            assert_eq!(given.map_or_else(|failure| failure.message, |value| value.get().to_owned()), text);
            assert_eq!(metrics.tool_calls.with_label_values(&[label]).get(), 1, "{label}");
        }
    }

    #[test]
    fn a_run_that_waits_ends_before_its_call_does() {
        let mut limits = crate::options::LimitOptions::default().grant(&Default::default()).unwrap();
        limits.tool_ms = u64::MAX;
        let run = limits.run;
        let patience = Patience::new(&limits, Instant::now());
        assert!(patience.by_run && patience.within > Duration::from_millis(run.wall_ms + run.pause_ms + 1));
        limits.tool_ms = 5;
        let patience = Patience::new(&limits, Instant::now());
        assert!(!patience.by_run && patience.within == Duration::from_millis(5));
    }

    #[test]
    fn a_call_that_can_t_be_read_still_has_a_number() {
        let number = |body: &str| number(&Frame::raw(Kind::ToolCall, 1, body)).ok();
        assert_eq!(number(r#"{"call":7,"name":3}"#), Some(7));
        assert_eq!(number(r#"{"name":"t","call":8}"#), Some(8));
        assert_eq!(number(r#"{"call":9,"name":"t","arguments":NaN}"#), Some(9));
        assert_eq!(number(r#"{"call":-1}"#), None);
        assert_eq!(number("call"), None);
    }
}
