//! Runs a module as a job of the embedded fleet.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use thermae_fleet::{EmbeddedOptions, Fleet};
use thermae_schemas::{Job, JsonText, LimitRequest, Outcome, Status};
use thermae_service::units::{ByteSize, Millis};
use thermae_worker::{LimitOptions, Limits};

use crate::{CASES, Side, Told, report::tail};

/// Number of modules that run at once. Each runs inside first, then outside.
pub const AT_ONCE: u32 = 2;

/// An embedded fleet with limits that are high enough for the tests.
pub struct Inside {
    fleet: Fleet,
}

impl Inside {
    /// Starts the fleet with this interpreter.
    ///
    /// # Errors
    /// As [`Fleet::embedded`].
    pub async fn start(python: &Path) -> Result<Self> {
        let ceiling = Limits {
            wall: Millis::from_secs(300),
            cpu: Millis::from_secs(300),
            memory: ByteSize::mib(1024),
            pids: 256,
            output: ByteSize::mib(8),
            ..Limits::default()
        };
        let options = EmbeddedOptions {
            python: Some(python.to_owned()),
            slots: Some(AT_ONCE),
            limits: LimitOptions { default: ceiling.clone(), ceiling, ..LimitOptions::default() },
            disk: ByteSize::mib(512),
            ..EmbeddedOptions::default()
        };
        Ok(Self { fleet: Fleet::embedded(options).await.context("start the embedded fleet")? })
    }

    /// The environment variables that jobs get.
    ///
    /// # Errors
    /// No job can run on this machine.
    pub async fn environment(&self) -> Result<BTreeMap<String, String>> {
        let outcome = self.submit("import os\ndisplay({'application/json': dict(os.environ)}, raw=True)", &[]).await?;
        ensure!(outcome.status == Status::Succeeded, "no job runs here: {outcome:?}");
        let shown = outcome.displays.first().and_then(|shown| shown.get("application/json"));
        shown.context("a job shows nothing")?.read().context("read a job's environment")
    }

    /// Runs one module, except for the cases that match a pattern in `skip`.
    ///
    /// # Errors
    /// The fleet's error.
    pub async fn run(&self, module: &str, skip: &[&str]) -> Result<Side> {
        let begun = Instant::now();
        let skip = serde_json::to_string(skip)?;
        let outcome = self.submit(CASES, &[("CASES_MODULE", module), ("CASES_SKIP", &skip)]).await?;
        let told = outcome.displays.iter().find_map(|shown| shown.get("application/json"));
        let told: Option<Told> = told.map(JsonText::read).transpose().context("read what a job told")?;
        Ok(Side {
            told,
            trouble: (outcome.status != Status::Succeeded).then(|| trouble(&outcome)),
            stderr: tail(&outcome.stderr),
            took_ms: begun.elapsed().as_millis() as u64,
        })
    }

    async fn submit(&self, code: &str, env: &[(&str, &str)]) -> Result<Outcome> {
        let mut job = Job::python(code);
        job.limits = LimitRequest::default();
        job.env = env.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        Ok(self.fleet.run(job, None).await?)
    }

    /// Stops the fleet, and removes its containers.
    pub async fn close(self) {
        self.fleet.close().await;
    }
}

fn trouble(outcome: &Outcome) -> String {
    let mut text = outcome.status.as_str().to_owned();
    if let Some(code) = outcome.exit_code {
        text += &format!(", status {code}");
    }
    if let Some(signal) = outcome.signal {
        text += &format!(", signal {signal}");
    }
    if let Some(error) = &outcome.error {
        text += &format!(": {}", error.message);
    }
    text
}
