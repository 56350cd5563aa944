//! Calls that wait for approval, and the decisions about them.

use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::optional::{integer_or, nullable};
use crate::{ErrorInfo, JobId, JsonText};

/// A tool call of the code that waits for somebody's yes. The tool hears of the call only after that.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Approval {
    /// Id of the call: a random UUID, as 32 hexadecimal digits. The decision carries it. The event `tool_call` has
    /// another id.
    pub call: String,
    /// Name of the tool, as the job declares it.
    pub tool: String,
    /// Arguments of the call: a JSON object. The tool gets exactly these.
    pub arguments: JsonText,
    /// Pattern of the capability that takes the call.
    pub pattern: String,
    /// Most calls that a yes can count for: this one, and the next ones that the capability takes.
    pub next: NonZeroU32,
    /// Routing key of the decision, on the exchange `approvals`.
    pub reply_to: String,
    /// How long the call waits for the decision, in milliseconds. Then it is not made.
    pub within_ms: u64,
}

/// A call that waits for approval, in the answer to a question about its run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PendingApproval {
    /// Id of the call, as in the event `approval`.
    pub call: String,
    /// Name of the tool, as the job declares it.
    pub tool: String,
    /// Arguments of the call: a JSON object. Missing if `omitted` is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<JsonText>,
    /// Whether the arguments were too large to keep. Only the client that got the event `approval` has them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub omitted: bool,
    /// Pattern of the capability that takes the call.
    pub pattern: String,
    /// Most calls that a yes can count for.
    pub next: NonZeroU32,
    /// Routing key of the decision, on the exchange `approvals`.
    pub reply_to: String,
    /// How long the call waits for the decision in all, in milliseconds.
    pub within_ms: u64,
    /// How long it has waited, in milliseconds.
    pub waited_ms: u64,
    /// How long it goes on to wait, in milliseconds.
    pub left_ms: u64,
}

/// A decision about a call that waits for approval. The event `decided` answers it, to the `reply_to` of this message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Decision", deny_unknown_fields)]
#[schemars(transform = nullable)]
pub struct Decision {
    /// Version of the protocol; 1 if the field is missing.
    #[serde(default = "crate::first_protocol", deserialize_with = "integer_or::<1, _, _>")]
    pub protocol: u32,
    /// Id of the decision. The answer carries it as `job`.
    pub id: JobId,
    /// Id of the job whose run makes the call.
    pub run: JobId,
    /// Id of the call.
    pub call: String,
    /// What is decided.
    pub verdict: Verdict,
    /// Who has decided, for the audit log, if the sender decides for others: at most 128 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

impl Decision {
    /// Most characters of `by`.
    const LONGEST_BY: usize = 128;

    /// A decision about a call of this run.
    pub fn new(run: JobId, call: impl Into<String>, verdict: Verdict) -> Self {
        Self { protocol: crate::OLDEST, id: JobId::random(), run, call: call.into(), verdict, by: None }
    }

    /// Checks what the types do not say.
    ///
    /// # Errors
    /// A field has a value that it can't have, in words.
    pub fn check(&self) -> Result<(), String> {
        if self.by.as_ref().is_some_and(|by| by.chars().count() > Self::LONGEST_BY) {
            return Err(format!("`by` has more than {} characters", Self::LONGEST_BY));
        }
        self.verdict.check()
    }
}

/// What is decided of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Verdict", deny_unknown_fields, expecting = "an object with `decision`")]
#[schemars(transform = nullable)]
pub struct Verdict {
    /// Whether the call is made.
    pub decision: Choice,
    /// How many calls a yes counts for: this one, and the next ones that its capability takes. At most the `next` of the
    /// question. A no counts for this call alone.
    #[serde(default = "one", deserialize_with = "integer_or::<1, _, _>", skip_serializing_if = "is_one")]
    pub calls: NonZeroU32,
    /// Why, at most 500 characters. The code gets the reason of a no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Yes or no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// The call is made.
    Approve,
    /// The call is not made.
    Deny,
}

impl Choice {
    /// The choice's name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Deny => "deny",
        }
    }
}

impl Verdict {
    /// Most characters of `reason`.
    const LONGEST_REASON: usize = 500;

    /// A yes for this many calls.
    pub fn approve(calls: NonZeroU32) -> Self {
        Self { decision: Choice::Approve, calls, reason: None }
    }

    /// A no.
    pub fn deny(reason: Option<String>) -> Self {
        Self { decision: Choice::Deny, calls: NonZeroU32::MIN, reason }
    }

    /// Whether another verdict decides the same, whatever its reason.
    pub fn agrees(&self, other: &Self) -> bool {
        (self.decision, self.calls) == (other.decision, other.calls)
    }

    /// Checks what the types do not say.
    ///
    /// # Errors
    /// A field has a value that it can't have, in words.
    pub fn check(&self) -> Result<(), String> {
        if self.decision == Choice::Deny && !is_one(&self.calls) {
            return Err("a no counts for one call: `calls` is only for a yes".to_owned());
        }
        if self.reason.as_ref().is_some_and(|reason| reason.chars().count() > Self::LONGEST_REASON) {
            return Err(format!("`reason` has more than {} characters", Self::LONGEST_REASON));
        }
        Ok(())
    }
}

fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

fn is_one(calls: &NonZeroU32) -> bool {
    *calls == one()
}

/// What came of a decision, or of a call that waited for one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Decided {
    /// Id of the call.
    pub call: String,
    /// The verdict that counts. Missing if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// Why the decision does not count, or why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorInfo>,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_decision_says_little_and_is_refused_if_it_says_what_is_not_known() {
        let read = |verdict: Value| {
            let text = json!({"id": "d", "run": "j", "call": "c", "verdict": verdict}).to_string();
            serde_json::from_str::<Decision>(&text).map_err(|error| error.to_string())
        };
        let yes = read(json!({"decision": "approve"})).unwrap();
        assert_eq!(yes.verdict, Verdict::approve(NonZeroU32::MIN));
        assert_eq!(serde_json::to_value(&yes.verdict).unwrap(), json!({"decision": "approve"}));
        let three = read(json!({"decision": "approve", "calls": 3, "reason": "fine"})).unwrap();
        assert!(three.check().is_ok() && !three.verdict.agrees(&yes.verdict));
        let no = read(json!({"decision": "deny", "reason": "too much"})).unwrap().verdict;
        assert!(no.agrees(&Verdict::deny(None)) && !no.agrees(&yes.verdict));
        for bad in [
            json!({}),
            json!(true),
            json!("approve"),
            json!({"decision": "yes"}),
            json!({"decision": "approve", "calls": 0}),
            json!({"decision": "approve", "calls": -1}),
            json!({"decision": "approve", "calls": 1.5}),
            json!({"decision": "approve", "calls": 4_294_967_296_u64}),
            json!({"decision": "approve", "next": 3}),
        ] {
            assert!(read(bad.clone()).is_err(), "{bad}");
        }
        assert!(read(json!({"decision": "deny", "calls": 2})).unwrap().check().is_err());
        assert!(Verdict::deny(Some("é".repeat(500))).check().is_ok());
        assert!(Verdict::deny(Some("é".repeat(501))).check().is_err());
        assert!(Decision { by: Some("k".repeat(129)), ..yes }.check().is_err());
    }
}
