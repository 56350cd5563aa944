//! The lines of the audit log, without what chains them.

use std::num::NonZeroU32;
use std::time::SystemTime;

use serde::Serialize;
use serde_json::Value;
use thermae_schemas::WorkerId;

use super::redact::Shown;
use crate::work::Work;

/// Most characters of a tool's name. A job's tools have no longer ones, but code can call anything.
const LONGEST_NAME: usize = 128;

/// Most characters of the text of a refusal.
const LONGEST_WHY: usize = 500;

/// A call: which run makes it, its number in the run, and the tool if it is known.
#[derive(Clone, Copy)]
pub(super) struct Named<'a> {
    pub(super) work: &'a Work,
    pub(super) call: u32,
    pub(super) tool: Option<&'a str>,
}

/// How a call ended.
#[derive(Clone, Copy)]
pub(super) struct End<'a> {
    /// `ok`, the tool's own `error`, or the code of a refusal.
    pub(super) result: &'a str,
    /// Text of the refusal.
    pub(super) why: Option<&'a str>,
    /// How long it took, in milliseconds.
    pub(super) ms: Option<f64>,
}

/// What came of a wait for approval.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct Ruled<'a> {
    /// `approved`, `approved_before` (a yes about an earlier call counts), `denied` or `timed_out`.
    pub result: &'static str,
    /// Id of the call that the decision was about, as in the event `approval`.
    pub approval: &'a str,
    /// The RabbitMQ user that sent the decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<&'a str>,
    /// For whom the user decided, as the user says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<&'a str>,
    /// How many calls a yes counts for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<NonZeroU32>,
    /// The reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<&'a str>,
}

#[derive(Serialize)]
struct Line<'a> {
    at: String,
    worker: &'a WorkerId,
    event: &'static str,
    #[serde(flatten)]
    run: Option<Run<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments_left_out: Option<String>,
    #[serde(flatten)]
    ruled: Option<Ruled<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ms: Option<f64>,
}

#[derive(Serialize)]
struct Run<'a> {
    tenant: &'a str,
    job: &'a str,
    attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<&'a str>,
    call: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<&'a str>,
}

impl<'a> Line<'a> {
    fn new(worker: &'a WorkerId, event: &'static str) -> Self {
        let at = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
        let (run, arguments, arguments_left_out, ruled, result, why, ms) = Default::default();
        Self { at, worker, event, run, arguments, arguments_left_out, ruled, result, why, ms }
    }

    fn of(worker: &'a WorkerId, event: &'static str, named: &Named<'a>) -> Self {
        let Named { work, call, tool } = *named;
        let run = Run {
            tenant: work.key.tenant.as_str(),
            job: work.key.job.as_str(),
            attempt: work.attempt,
            session: work.job.session.as_ref().map(|session| session.id.as_str()),
            call,
            tool: tool.map(|tool| cut(tool, LONGEST_NAME)),
        };
        Self { run: Some(run), ..Self::new(worker, event) }
    }

    /// The object without its opening brace.
    fn fields(&self) -> String {
        let mut text = serde_json::to_string(self).unwrap_or_else(|_| unreachable!("strings and numbers are JSON"));
        text.remove(0);
        text
    }
}

/// The worker begins to write to a file.
pub(super) fn opened(worker: &WorkerId) -> String {
    Line::new(worker, "opened").fields()
}

/// Code makes a call.
pub(super) fn call(worker: &WorkerId, named: &Named<'_>, arguments: Shown) -> String {
    let mut line = Line::of(worker, "call", named);
    match arguments {
        Shown::Whole(value) => line.arguments = Some(value),
        Shown::LeftOut(why) => line.arguments_left_out = Some(why),
    }
    line.fields()
}

/// A call that needs approval has it, or does not get it.
pub(super) fn decision(worker: &WorkerId, named: &Named<'_>, ruled: &Ruled<'_>) -> String {
    Line { ruled: Some(*ruled), ..Line::of(worker, "decision", named) }.fields()
}

/// A call has ended.
pub(super) fn end(worker: &WorkerId, named: &Named<'_>, end: &End<'_>) -> String {
    let End { result, why, ms } = *end;
    let why = why.map(|why| cut(why, LONGEST_WHY));
    Line { result: Some(result), why, ms, ..Line::of(worker, "end", named) }.fields()
}

/// At most this many characters of a text.
fn cut(text: &str, most: usize) -> &str {
    text.char_indices().nth(most).map_or(text, |(at, _)| &text[..at])
}
