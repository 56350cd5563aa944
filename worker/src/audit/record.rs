//! What is told of a call, and the lines of the audit log, without what chains them.

use std::num::NonZeroU32;
use std::time::SystemTime;

use serde::Serialize;
use thermae_schemas::{AuditLine, AuditWhat, JsonText, WorkerId};
use thermae_tokens::TokenId;

use super::redact::Shown;
use crate::work::Work;

/// Most characters of a tool's name. A job's tools have no longer ones, but code can call anything.
const LONGEST_NAME: usize = 128;

/// Most characters of the text of a refusal.
const LONGEST_WHY: usize = 500;

/// A call.
#[derive(Clone, Copy)]
pub(crate) struct Named<'a> {
    /// The run that makes it.
    pub work: &'a Work,
    /// Id of the run's token, if it has one.
    pub token: Option<&'a TokenId>,
    /// Its number in the run.
    pub call: u32,
    /// The tool, if it is known.
    pub tool: Option<&'a str>,
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
#[derive(Clone, Copy)]
pub(crate) struct Ruled<'a> {
    /// `approved`, `approved_before` (a yes about an earlier call counts), `denied` or `timed_out`.
    pub result: &'static str,
    /// Id of the call that the decision was about, as in the event `approval`.
    pub approval: &'a str,
    /// The RabbitMQ user that sent the decision.
    pub user: Option<&'a str>,
    /// For whom the user decided, as the user says.
    pub by: Option<&'a str>,
    /// How many calls a yes counts for.
    pub calls: Option<NonZeroU32>,
    /// The reason.
    pub why: Option<&'a str>,
}

/// Code makes a call.
pub(super) fn call(worker: &WorkerId, named: &Named<'_>, arguments: Shown) -> AuditLine {
    let (arguments, arguments_left_out) = match arguments {
        Shown::Whole(value) => (Some(value), None),
        Shown::LeftOut(why) => (None, Some(why)),
    };
    AuditLine { arguments, arguments_left_out, ..line(worker, AuditWhat::Call, named) }
}

/// A call that needs approval has it, or does not get it.
pub(super) fn decision(worker: &WorkerId, named: &Named<'_>, ruled: &Ruled<'_>) -> AuditLine {
    let owned = |text: Option<&str>| text.map(str::to_owned);
    AuditLine {
        result: Some(ruled.result.to_owned()),
        approval: Some(ruled.approval.to_owned()),
        user: owned(ruled.user),
        by: owned(ruled.by),
        calls: ruled.calls,
        why: ruled.why.map(|why| cut(why, LONGEST_WHY)),
        ..line(worker, AuditWhat::Decision, named)
    }
}

/// A call has ended.
pub(super) fn end(worker: &WorkerId, named: &Named<'_>, end: &End<'_>) -> AuditLine {
    let End { result, why, ms } = *end;
    let why = why.map(|why| cut(why, LONGEST_WHY));
    AuditLine { result: Some(result.to_owned()), why, ms, ..line(worker, AuditWhat::End, named) }
}

fn line(worker: &WorkerId, what: AuditWhat, named: &Named<'_>) -> AuditLine {
    let (arguments, arguments_left_out, approval, user, by) = Default::default();
    let (calls, result, why, ms) = Default::default();
    let tool = named.tool.map(|tool| cut(tool, LONGEST_NAME));
    let token = named.token.map(|id| id.as_str().to_owned());
    let (at, worker, call) = (now(), worker.clone(), named.call);
    AuditLine {
        what,
        at,
        worker,
        call,
        tool,
        token,
        arguments,
        arguments_left_out,
        approval,
        user,
        by,
        calls,
        result,
        why,
        ms,
    }
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
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'a str>,
    call: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<&'a JsonText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments_left_out: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    approval: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    calls: Option<NonZeroU32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ms: Option<f64>,
}

/// What is told of a call of this run, as a line of the file without its opening brace.
pub(super) fn fields(line: &AuditLine, work: &Work) -> String {
    without_brace(&Line {
        at: &line.at,
        worker: &line.worker,
        event: line.what,
        tenant: work.key.tenant.as_str(),
        job: work.key.job.as_str(),
        attempt: work.attempt,
        session: work.job.session.as_ref().map(|session| session.id.as_str()),
        token: line.token.as_deref(),
        call: line.call,
        tool: line.tool.as_deref(),
        arguments: line.arguments.as_ref(),
        arguments_left_out: line.arguments_left_out.as_deref(),
        approval: line.approval.as_deref(),
        user: line.user.as_deref(),
        by: line.by.as_deref(),
        calls: line.calls,
        result: line.result.as_deref(),
        why: line.why.as_deref(),
        ms: line.ms,
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
