//! What is told of a call, and the lines of the audit log, without what chains them.

use std::time::SystemTime;

use serde::Serialize;
use serde_json::Value;
use thermae_schemas::{AuditLine, AuditWhat, WorkerId};

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

/// Code makes a call.
pub(super) fn call(worker: &WorkerId, named: &Named<'_>, arguments: Shown) -> AuditLine {
    let (arguments, arguments_left_out) = match arguments {
        Shown::Whole(value) => (Some(value), None),
        Shown::LeftOut(why) => (None, Some(why)),
    };
    AuditLine { arguments, arguments_left_out, ..line(worker, AuditWhat::Call, named) }
}

/// A call has ended.
pub(super) fn end(worker: &WorkerId, named: &Named<'_>, end: &End<'_>) -> AuditLine {
    let End { result, why, ms } = *end;
    let why = why.map(|why| cut(why, LONGEST_WHY));
    AuditLine { result: Some(result.to_owned()), why, ms, ..line(worker, AuditWhat::End, named) }
}

fn line(worker: &WorkerId, what: AuditWhat, named: &Named<'_>) -> AuditLine {
    let (arguments, arguments_left_out, result, why, ms) = Default::default();
    let tool = named.tool.map(|tool| cut(tool, LONGEST_NAME));
    let (at, worker, call) = (now(), worker.clone(), named.call);
    AuditLine { what, at, worker, call, tool, arguments, arguments_left_out, result, why, ms }
}

fn now() -> String {
    humantime::format_rfc3339_millis(SystemTime::now()).to_string()
}

/// At most this many characters of a text.
fn cut(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

/// A line of the file, which tells of many runs.
#[derive(Serialize)]
struct Line<'a> {
    at: &'a str,
    worker: &'a WorkerId,
    event: AuditWhat,
    tenant: &'a str,
    job: &'a str,
    attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<&'a str>,
    call: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments_left_out: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ms: Option<f64>,
}

/// What is told of a call of this run, as a line of the file without its opening brace.
pub(super) fn fields(line: &AuditLine, work: &Work) -> String {
    let AuditLine { what, at, worker, call, tool, arguments, arguments_left_out, result, why, ms } = line;
    without_brace(&Line {
        at,
        worker,
        event: *what,
        tenant: work.key.tenant.as_str(),
        job: work.key.job.as_str(),
        attempt: work.attempt,
        session: work.job.session.as_ref().map(|session| session.id.as_str()),
        call: *call,
        tool: tool.as_deref(),
        arguments: arguments.as_ref(),
        arguments_left_out: arguments_left_out.as_deref(),
        result: result.as_deref(),
        why: why.as_deref(),
        ms: *ms,
    })
}

/// The worker begins to write to a file.
pub(super) fn opened(worker: &WorkerId) -> String {
    #[derive(Serialize)]
    struct Opened<'a> {
        at: String,
        worker: &'a WorkerId,
        event: &'static str,
    }
    without_brace(&Opened { at: now(), worker, event: "opened" })
}

fn without_brace(line: &impl Serialize) -> String {
    let mut text = serde_json::to_string(line).unwrap_or_else(|_| unreachable!("strings and numbers are JSON"));
    text.remove(0);
    text
}
