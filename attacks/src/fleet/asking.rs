//! A run whose only tool call waits for approval.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use thermae_client::{Client, JobHandle, Tools};
use thermae_schemas::{Capabilities, Job, PendingApproval, RunQuery};

use super::broker::{must, unique};
use super::{Site, soon, until};

/// Prints what came of the call: `made`, or the code of the refusal.
const CODE: &str = "
try:
    print(await pay())
except ToolError as error:
    print(str(error).split(':')[0])
";

/// A run whose only tool call waits for approval.
pub struct Asking {
    /// The run.
    pub run: JobHandle,
    /// The question, as the fleet knows it.
    pub asked: PendingApproval,
    tenant: String,
}

impl Asking {
    /// Begins a run of this client's tenant, and waits until its call waits.
    ///
    /// # Errors
    /// The run does not come so far.
    pub async fn begin(client: &Client) -> Result<Self> {
        let tools = Arc::new(Tools::new().with("pay", |_: Value| async { Ok::<_, String>("made") }));
        let capabilities = Capabilities::from_json(r#"[{"pattern": "pay", "approval": {}}]"#)?;
        let job = Job { tools: tools.specs(), capabilities: Some(capabilities), ..Job::python(CODE) };
        let run = soon("the submit", client.submit(job, Some(tools))).await??;
        let mut asked = None;
        until("the question", async || {
            let query = RunQuery::new(run.id().clone());
            asked = client.run_info(query, Duration::from_secs(60)).await?.approvals.into_iter().next();
            Ok(asked.is_some())
        })
        .await?;
        Ok(Self { run, asked: asked.context("no question")?, tenant: client.tenant().to_string() })
    }

    /// The path of a decision about the call, at a gateway.
    pub fn path(&self) -> String {
        format!("/v1/runs/{}/calls/{}/decision", self.run.id(), self.asked.call)
    }

    /// The message of a decision about the call.
    pub fn decision(&self, verdict: &str) -> Vec<u8> {
        let (id, verdict) = (unique("decision"), json!({ "decision": verdict }));
        let message = json!({
            "id": id, "run": self.run.id(), "call": self.asked.call, "verdict": verdict
        });
        message.to_string().into_bytes()
    }

    /// Denies the call as the fleet itself. What was decided before it counts. Gives the output of the run.
    ///
    /// # Errors
    /// The run does not end.
    pub async fn end(self, site: &Site) -> Result<String> {
        let fleet = site.witness().await?;
        let signed = fleet.signed(&self.tenant);
        must(&fleet.publish("approvals", &self.asked.reply_to, &self.decision("deny"), signed).await?)?;
        Ok(soon("the outcome", self.run.result()).await??.stdout)
    }
}
