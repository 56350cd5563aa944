//! The client's side of the attacking jobs' tools. A call that arrives here has passed every check of the fleet.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use serde_json::value::{RawValue, to_raw_value};
use thermae_client::ToolHandler;
use thermae_schemas::{JobId, ToolFailure};
use tokio::sync::watch;

/// Name of the tool that blocks a neighbour until the attack is over.
pub const GATE: &str = "gate";

/// Name of the tool that answers with a megabyte. All others answer with their arguments.
pub const LARGE: &str = "large";

/// Answers tool calls, and remembers their names.
#[derive(Debug)]
pub struct Tools {
    calls: Mutex<Vec<String>>,
    reached: watch::Sender<bool>,
    open: watch::Sender<bool>,
}

impl Default for Tools {
    fn default() -> Self {
        Self { calls: Mutex::default(), reached: watch::Sender::new(false), open: watch::Sender::new(false) }
    }
}

impl Tools {
    /// Number of calls that have come.
    pub fn calls(&self) -> usize {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Waits until a job has called the gate.
    pub async fn reached(&self) {
        // This can't fail: `self` holds the sender.
        let _ = self.reached.subscribe().wait_for(|reached| *reached).await;
    }

    /// Lets all calls of the gate return, now and later.
    pub fn open(&self) {
        self.open.send_replace(true);
    }
}

#[async_trait]
impl ToolHandler for Tools {
    async fn call(&self, _job: &JobId, tool: &str, arguments: Box<RawValue>) -> Result<Box<RawValue>, ToolFailure> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(tool.to_owned());
        if tool == GATE {
            self.reached.send_replace(true);
            let _ = self.open.subscribe().wait_for(|open| *open).await;
        }
        if tool != LARGE {
            return Ok(arguments);
        }
        to_raw_value(&"x".repeat(1 << 20)).map_err(|error| error.to_string().into())
    }
}
