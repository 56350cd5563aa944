//! A way to use a fleet, as the contract sees it: an SDK's frames over some transport, or requests over HTTP.

use anyhow::{Context, Result, bail};
use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use serde_json::Value;
use thermae_schemas::{Body, Event, EventBody, Outcome};

/// Opens a face with an embedded fleet of this many slots.
pub(crate) type Opens = fn(u32) -> BoxFuture<'static, Result<Box<dyn Face>>>;

/// What an operation gives, or the stable code with which it is refused. For files, this is the kernel's error.
pub(crate) type Answered<T> = Result<T, String>;

/// A command that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// How: the fields of the event `done`.
    pub(crate) done: Value,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

/// A client of a fleet.
#[async_trait]
pub(crate) trait Face: Send {
    /// Submits a job. Its `id` names the run.
    async fn submit(&mut self, job: &Value) -> Result<Answered<()>>;

    /// The next event of a run that was submitted or taken over here, byte for byte as the fleet sent it. The last one
    /// is `result`.
    async fn next(&mut self, run: &str) -> Result<Answered<Bytes>>;

    /// Answers a call of a run that was submitted or taken over here. `call` is its event.
    async fn answer(&mut self, run: &str, call: &Value, text: &str) -> Result<Answered<()>>;

    /// Answers a call of any run of the tenant. `call` is its entry in what `info` gives.
    async fn answer_any(&mut self, run: &str, call: &Value, text: &str) -> Result<Answered<()>>;

    /// Cancels a run that was submitted or taken over here.
    async fn cancel(&mut self, run: &str) -> Result<()>;

    /// What the fleet knows of a run.
    async fn info(&mut self, run: &str) -> Result<Answered<Value>>;

    /// Takes a run over.
    async fn take_over(&mut self, run: &str) -> Result<Answered<()>>;

    /// The live sessions.
    async fn sessions(&mut self) -> Result<Value>;

    /// Runs a command (`argv` or `shell`) in a live session, with this standard input.
    async fn exec(&mut self, session: &str, command: &Value, input: Bytes) -> Result<Answered<Ended>>;

    /// Does an operation on the files of a live session, in its wire form; `content` is what is written. Gives what is
    /// read, or the result as JSON.
    async fn file(&mut self, session: &str, op: &Value, content: Bytes) -> Result<Answered<Bytes>>;

    /// The content of an artifact of a run that has ended. `artifact` is its entry in the outcome.
    async fn artifact(&mut self, run: &str, artifact: &Value) -> Result<Answered<Bytes>>;

    /// Another client of the same fleet, which must end before this one; `None` if the fleet belongs to this one alone.
    async fn another(&mut self) -> Result<Option<Box<dyn Face>>>;

    /// Ends the client, and a fleet that belongs to it.
    async fn end(self: Box<Self>) -> Result<()>;
}

impl dyn Face {
    /// The next event of a run, which must come: its wire form.
    pub(crate) async fn event(&mut self, run: &str) -> Result<Value> {
        match self.next(run).await? {
            Ok(text) => Ok(serde_json::from_slice(&text)?),
            Err(code) => bail!("no event of {run}: {code}"),
        }
    }

    /// The next tool call of a run.
    pub(crate) async fn call(&mut self, run: &str) -> Result<Value> {
        loop {
            let event = self.event(run).await?;
            match event["event"].as_str() {
                Some("tool_call") => return Ok(event),
                Some("result") => bail!("the run has ended: {event}"),
                _ => {}
            }
        }
    }

    /// The outcome of a run that ends with a result, after all its other events.
    pub(crate) async fn outcome(&mut self, run: &str) -> Result<Outcome> {
        loop {
            let text = self.next(run).await?.map_err(|code| anyhow::anyhow!("no outcome of {run}: {code}"))?;
            if let EventBody::Result(outcome) = Event::parse(&text)?.body {
                return Ok(outcome);
            }
        }
    }

    /// Submits a job, which must be taken, and waits for its outcome.
    pub(crate) async fn run(&mut self, job: &Value) -> Result<Outcome> {
        self.submit(job).await?.map_err(|code| anyhow::anyhow!("{job} is refused: {code}"))?;
        self.outcome(job["id"].as_str().context("no id")?).await
    }

    /// The code with which a job is refused: at once, or by its outcome.
    pub(crate) async fn refusal(&mut self, job: &Value) -> Result<String> {
        if let Err(code) = self.submit(job).await? {
            return Ok(code);
        }
        let run = job["id"].as_str().unwrap_or_default();
        loop {
            let text = match self.next(run).await? {
                Ok(text) => text,
                Err(code) => return Ok(code),
            };
            if let EventBody::Result(outcome) = Event::parse(&text)?.body {
                let error = outcome.error.with_context(|| format!("{job} is not refused"))?;
                return Ok(error.code.as_str().to_owned());
            }
        }
    }
}
