//! A run of the victim whose only tool call waits.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;
use thermae_client::{JobHandle, Tools};
use thermae_schemas::{Job, PendingCall, RunQuery};
use tokio::sync::watch;

use super::{Site, soon, until, within};

/// A run that prints what its call gives.
pub struct Waiting {
    /// The run.
    pub run: JobHandle,
    /// The call, as the fleet knows it.
    pub call: PendingCall,
    release: watch::Sender<bool>,
}

impl Waiting {
    /// Begins the run, and waits until its call waits.
    ///
    /// # Errors
    /// The run does not come so far.
    pub async fn begin(site: &Site) -> Result<Self> {
        let (release, released) = watch::channel(false);
        let tools = Arc::new(Tools::new().with("look", move |_: Value| {
            let mut released = released.clone();
            async move { released.wait_for(|yes| *yes).await.map(|_| "own").map_err(|gone| gone.to_string()) }
        }));
        let job = Job { tools: tools.specs(), ..Job::python("print(await look())") };
        let run = soon("the victim's submit", site.globex.submit(job, Some(tools))).await??;
        let mut call = None;
        until("the victim's call", async || {
            let query = RunQuery::new(run.id().clone());
            call = site.globex.run_info(query, Duration::from_secs(60)).await?.calls.into_iter().next();
            Ok(call.is_some())
        })
        .await?;
        Ok(Self { run, call: call.context("no call")?, release })
    }

    /// Answers the call, unless somebody else has. Gives the output of the run.
    ///
    /// # Errors
    /// The run does not end.
    pub async fn end(self) -> Result<String> {
        self.release.send_replace(true);
        let outcome = within(Duration::from_secs(60), "the victim's outcome", self.run.result()).await?;
        Ok(outcome.context("the victim's outcome")?.stdout)
    }
}
