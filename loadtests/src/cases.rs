//! The jobs that are measured, each with its right answer.

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use thermae_client::ToolHandler;
use thermae_schemas::{Job, JobId, JsonText, Outcome, SessionName, SessionRequest, Status, ToolFailure, ToolSpec};

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Case {
    /// `print(1+1)` in a fresh sandbox.
    Print,
    /// A job that imports pandas and sums a frame, in a fresh sandbox.
    Pandas,
    /// A job that calls ten tools, one after the other.
    Tools10,
    /// The next job of a session.
    Session,
    /// One tool call's round trip, timed by the code itself.
    ToolCall,
}

const PANDAS: &str = "import pandas as pd\nframe = pd.DataFrame({'a': range(100), 'b': range(100)})\nprint(int((frame.a * frame.b).sum()))\n";
const TOOLS10: &str = "total = 0\nfor i in range(10):\n    total = await add(a=total, b=i)\nprint(total)\n";
/// Round trips in one [`Case::ToolCall`] job.
const CALLS: u32 = 100;

/// Code that leaves marks in every place where another job could find them.
pub const LEAVE: &str = "import os, sys, threading\nfor d in ('/tmp', '/workspace', '/dev/shm'):\n    open(d + '/canary', 'w').close()\nos.environ['CANARY'] = '1'\nsys.canary = 1\nprint('left')\n";
/// Code that looks for these marks.
pub const LOOK: &str = "import os, sys\nfound = [d for d in ('/tmp', '/workspace', '/dev/shm') if os.path.exists(d + '/canary')]\nprint('found' if found or 'CANARY' in os.environ or hasattr(sys, 'canary') else 'clean')\n";

impl Case {
    /// The case's name in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Print => "print",
            Self::Pandas => "pandas",
            Self::Tools10 => "tools10",
            Self::Session => "session",
            Self::ToolCall => "tool_call",
        }
    }

    /// A job of this case. `session` names the session of [`Case::Session`]; other cases ignore it.
    pub fn job(self, session: &str) -> Job {
        match self {
            Self::Print => Job::python("print(1+1)"),
            Self::Pandas => Job::python(PANDAS),
            Self::Tools10 => Job { tools: vec![add()], ..Job::python(TOOLS10) },
            Self::Session => Job {
                session: SessionName::new(session).ok().map(SessionRequest::new),
                ..Job::python("n = globals().get('n', 0) + 1\nprint(n > 0)")
            },
            Self::ToolCall => Job {
                tools: vec![add()],
                ..Job::python(format!(
                    "import json, time\ntimes = []\nfor i in range({CALLS}):\n    t = time.perf_counter_ns()\n    assert await add(a=i, b=1) == i + 1\n    times.append(time.perf_counter_ns() - t)\nprint(json.dumps(times))\n"
                ))
            },
        }
    }

    /// What the job prints; `None` if that differs from run to run.
    pub fn prints(self) -> Option<&'static str> {
        match self {
            Self::Print => Some("2\n"),
            Self::Pandas => Some("328350\n"),
            Self::Tools10 => Some("45\n"),
            Self::Session => Some("True\n"),
            Self::ToolCall => None,
        }
    }

    /// Checks an answer. Gives the times that the code itself has measured, in nanoseconds; only [`Case::ToolCall`] has
    /// any.
    pub fn check(self, outcome: &Outcome) -> Result<Vec<u64>, String> {
        let wrong = || Err(format!("{}: {}", self.as_str(), describe(outcome)));
        if outcome.status != Status::Succeeded {
            return wrong();
        }
        match self.prints() {
            Some(want) if outcome.stdout == want => Ok(Vec::new()),
            Some(_) => wrong(),
            None => match serde_json::from_str::<Vec<u64>>(&outcome.stdout) {
                Ok(times) if times.len() == CALLS as usize => Ok(times),
                _ => wrong(),
            },
        }
    }
}

/// An outcome in one line, for reports of what went wrong.
pub fn describe(outcome: &Outcome) -> String {
    let error = outcome.error.as_ref().map(|e| format!(" {}: {}", e.code.as_str(), e.message)).unwrap_or_default();
    let stdout: String = outcome.stdout.chars().take(200).collect();
    format!("{}{error}, stdout {stdout:?}", outcome.status.as_str())
}

fn add() -> ToolSpec {
    ToolSpec {
        description: "Adds two numbers.".into(),
        input_schema: Some(JsonText::from(&json!({
            "type": "object",
            "properties": { "a": { "type": "integer" }, "b": { "type": "integer" } },
            "required": ["a", "b"],
        }))),
        ..ToolSpec::new("add")
    }
}

/// The client's side of the tool that some cases call.
pub struct Adder;

impl Adder {
    /// A handler that can be passed to [`thermae_client::Client::submit`].
    pub fn shared() -> Arc<dyn ToolHandler> {
        Arc::new(Self)
    }
}

#[async_trait]
impl ToolHandler for Adder {
    async fn call(&self, _job: &JobId, tool: &str, arguments: Box<RawValue>) -> Result<Box<RawValue>, ToolFailure> {
        let arguments: Value = serde_json::from_str(arguments.get()).map_err(|error| error.to_string())?;
        match (tool, arguments["a"].as_i64(), arguments["b"].as_i64()) {
            ("add", Some(a), Some(b)) => to_raw_value(&(a + b)).map_err(|error| error.to_string().into()),
            _ => Err(format!("no {tool} of {arguments}").into()),
        }
    }
}
