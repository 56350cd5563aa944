//! What a client learns of a run by its job's id, and how it takes the run over.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::optional::{integer_or, nullable, or_default};
use crate::{Content, JobId, JsonText, PendingApproval, ToolCall, WorkerId};

/// A question about a run of the tenant, by the id of its job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "RunQuery", deny_unknown_fields, expecting = "an object with `job`")]
#[schemars(transform = nullable)]
pub struct RunQuery {
    /// Id of the job.
    pub job: JobId,
    /// How many bytes of standard output the client has. The answer has what comes after them.
    #[serde(default, deserialize_with = "integer_or::<0, _, _>")]
    pub stdout_from: u64,
    /// How many bytes of standard error the client has.
    #[serde(default, deserialize_with = "integer_or::<0, _, _>")]
    pub stderr_from: u64,
    /// Whether this client takes the run over: from now on, it gets the run's calls, output and result, and nobody else
    /// does.
    #[serde(default, deserialize_with = "or_default")]
    pub take_over: bool,
}

impl RunQuery {
    /// A question about the run of this job, with its output from the beginning. It takes nothing over.
    pub fn new(job: JobId) -> Self {
        Self { job, stdout_from: 0, stderr_from: 0, take_over: false }
    }
}

/// A run, as the fleet knows it. The event's `attempt` is the number of the run's attempt, from 1; 0 if there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunInfo {
    /// Id of the job.
    pub run: JobId,
    /// State of the run.
    pub state: RunState,
    /// The worker that runs the code, if it has started and has not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<WorkerId>,
    /// The tool calls that wait for answers, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<PendingCall>,
    /// The tool calls that wait for approval, the oldest first. None of them is among `calls`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<PendingApproval>,
    /// Standard output from where the question asks for it, while the code runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout: Option<OutputPart>,
    /// Standard error, in the same way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<OutputPart>,
}

impl RunInfo {
    /// A run of which only the state is known.
    pub fn new(run: JobId, state: RunState) -> Self {
        Self { run, state, worker: None, calls: Vec::new(), approvals: Vec::new(), stdout: None, stderr: None }
    }
}

/// State of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// The code has not started: the job was handed out, or still waits in its queue and was submitted by the client that
    /// asks.
    Queued,
    /// The code runs.
    Running,
    /// All tasks of the code wait for answers to tool calls.
    Waiting,
    /// The code has waited for so long that it holds no slot any more. It goes on with the next answer.
    Paused,
    /// The job has ended. Its outcome follows as the event `result` of the job.
    Ended,
    /// The fleet has no record of such a job of this tenant: it was not submitted, still waits in its queue and was
    /// submitted by another client, or was forgotten.
    Unknown,
    /// A state that the reader does not know, because a newer release sent it.
    #[serde(other)]
    #[schemars(skip)]
    Other,
}

/// A tool call that waits for its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PendingCall {
    /// Id of the call, as in the event `tool_call`. The answer carries it.
    pub call: String,
    /// Name of the tool, as the job declares it.
    pub tool: String,
    /// Arguments of the call: a JSON object. Missing if `omitted` is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<JsonText>,
    /// Whether the arguments were too large to keep. Only the client that got the event `tool_call` has them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub omitted: bool,
    /// Routing key of the answer, on the exchange `calls`.
    pub reply_to: String,
    /// How long the code waits for the answer in all, in milliseconds.
    pub within_ms: u64,
    /// How long it has waited, in milliseconds.
    pub waited_ms: u64,
    /// How long it goes on to wait, in milliseconds. Then the call fails.
    pub left_ms: u64,
}

impl PendingCall {
    /// The call as the event `tool_call` brings it, with the time that is left. `None` if its arguments are omitted.
    pub fn into_call(self) -> Option<ToolCall> {
        let Self { call, tool, arguments, reply_to, left_ms, .. } = self;
        Some(ToolCall { call, tool, arguments: arguments?, reply_to, within_ms: left_ms })
    }
}

/// A part of what the code has printed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutputPart {
    /// How many bytes come before this part.
    pub from: u64,
    /// The bytes, at most 1 MiB.
    pub data: Content,
    /// Whether more was printed after this part. Ask again for it, from where this part ends.
    #[serde(default)]
    pub more: bool,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{Asked, Event, EventBody, Query};

    #[test]
    fn a_question_says_little_and_is_refused_if_it_says_what_is_not_known() {
        let job = JobId::new("j").unwrap();
        let read = |what: Value| serde_json::from_value::<Query>(json!({"id": "q", "what": what}));
        let asked = read(json!({"run": {"job": "j"}})).unwrap();
        assert_eq!(asked, Query::run(JobId::new("q").unwrap(), RunQuery::new(job.clone())));
        let more = read(json!({"run": {"job": "j", "stdout_from": 7, "stderr_from": 8, "take_over": true}})).unwrap();
        assert_eq!(more.what, Asked::Run(RunQuery { job, stdout_from: 7, stderr_from: 8, take_over: true }));
        assert_eq!(read(json!("sessions")).unwrap().what, Asked::Sessions);
        for bad in
            [json!({"run": {}}), json!({"run": {"job": "j", "takeover": true}}), json!("run"), json!({"runs": {}})]
        {
            assert!(read(bad.clone()).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_answer_is_read_as_it_was_written() {
        let call = PendingCall {
            call: "c".into(),
            tool: "t".into(),
            arguments: JsonText::new(r#"{"b": 18446744073709551617, "a": 1.0}"#.into()).ok(),
            omitted: false,
            reply_to: "acme.w".into(),
            within_ms: 10,
            waited_ms: 4,
            left_ms: 6,
        };
        let bare = PendingCall { arguments: None, omitted: true, ..call.clone() };
        let part = OutputPart { from: 2, data: vec![0, 255].into(), more: true };
        let run = JobId::new("j").unwrap();
        let full = RunInfo {
            worker: Some(WorkerId::new("w").unwrap()),
            calls: vec![call.clone(), bare.clone()],
            stdout: Some(part),
            ..RunInfo::new(run.clone(), RunState::Paused)
        };
        for (info, attempt) in [(full, 2), (RunInfo::new(run, RunState::Unknown), 0)] {
            let event = Event::new(JobId::new("q").unwrap(), attempt, EventBody::Run(info));
            let text = serde_json::to_string(&event).unwrap();
            assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), event, "{text}");
        }
        assert_eq!(bare.into_call(), None);
        let again = call.clone().into_call().unwrap();
        assert_eq!((again.call.as_str(), Some(again.arguments), again.within_ms), ("c", call.arguments, 6));
        let newer = r#"{"run": "j", "state": "frozen", "colour": "blue"}"#;
        assert_eq!(serde_json::from_str::<RunInfo>(newer).unwrap().state, RunState::Other);
    }
}
