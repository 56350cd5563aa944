//! An SDK as a face.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use serde_json::{Value, json};

use super::face::{Answered, Ended, Face};
use super::sdk::{Sdk, Told, WIDE};

/// Most bytes of input in one frame here, and the window of requests to sessions.
const PIECE: usize = 32 << 10;
const WINDOW: usize = 64 << 10;

/// Connects another SDK to the same fleet.
pub(crate) type Again = Arc<dyn Fn() -> BoxFuture<'static, Result<Sdk>> + Send + Sync>;

/// An SDK with an open fleet.
pub(crate) struct Frames {
    sdk: Sdk,
    again: Option<Again>,
    last: u64,
    /// The requests that follow runs, by the jobs' ids.
    runs: HashMap<String, u64>,
    /// Frames that came while others were awaited.
    heard: HashMap<u64, VecDeque<Told>>,
}

impl Frames {
    pub(crate) fn new(sdk: Sdk, again: Option<Again>) -> Self {
        Self { sdk, again, last: 100, runs: HashMap::new(), heard: HashMap::new() }
    }

    /// Sends a request. Gives its id.
    async fn ask(&mut self, mut header: Value, payload: impl Into<Bytes>) -> Result<u64> {
        self.last += 1;
        header["id"] = json!(self.last);
        self.sdk.send(header, payload).await?;
        Ok(self.last)
    }

    /// The next frame of a request.
    async fn told(&mut self, id: u64) -> Result<Told> {
        if let Some(told) = self.heard.get_mut(&id).and_then(VecDeque::pop_front) {
            return Ok(told);
        }
        loop {
            let told = self.sdk.next().await?;
            match told.id() {
                Some(of) if of == id => return Ok(told),
                Some(of) => self.heard.entry(of).or_default().push_back(told),
                None => bail!("the connection ends: {told:?}"),
            }
        }
    }

    /// The answer to a request that has one.
    async fn asked(&mut self, header: Value, payload: impl Into<Bytes>) -> Result<Answered<Bytes>> {
        let id = self.ask(header, payload).await?;
        let told = self.told(id).await?;
        ensure!(told.is("done") || told.is("error"), "{told:?}");
        Ok(if told.is("done") { Ok(told.payload) } else { Err(told.code().to_owned()) })
    }

    fn following(&self, run: &str) -> Result<u64> {
        self.runs.get(run).copied().with_context(|| format!("{run} is not followed here"))
    }

    /// A request to a session, to its end. Gives credit for what comes, and input as it is allowed.
    async fn request(&mut self, session: &str, mut work: Value, input: Bytes) -> Result<Answered<Ended>> {
        work["session"] = json!(session);
        work["more_input"] = json!(!input.is_empty());
        let id = self.ask(json!({ "type": "request", "window": WINDOW }), work.to_string()).await?;
        let (mut allowed, mut sent) = (WINDOW as u64, 0);
        let mut ended = Ended { done: Value::Null, stdout: Vec::new(), stderr: Vec::new() };
        loop {
            while sent < input.len() && (sent + PIECE) as u64 <= allowed {
                let piece = input.slice(sent..input.len().min(sent + PIECE));
                sent += piece.len();
                let header = json!({ "type": "input", "id": id, "end": sent == input.len() });
                self.sdk.send(header, piece).await?;
            }
            let told = self.told(id).await?;
            match told.header["type"].as_str() {
                Some("credit") => allowed += told.header["bytes"].as_u64().context("no bytes")?,
                Some("output") => {
                    let stderr = told.header["stream"] == "stderr";
                    if stderr { &mut ended.stderr } else { &mut ended.stdout }.extend_from_slice(&told.payload);
                    let credit = json!({ "type": "credit", "id": id, "bytes": told.payload.len() });
                    self.sdk.send(credit, "").await?;
                }
                Some("done") => {
                    ended.done = serde_json::from_slice(&told.payload)?;
                    let code = match ended.done["how"].as_str() {
                        Some("error") => &ended.done["error"]["code"],
                        Some("failed") => &ended.done["errno"],
                        _ => return Ok(Ok(ended)),
                    };
                    return Ok(Err(code.as_str().context("no code")?.to_owned()));
                }
                _ => return Ok(Err(told.code().to_owned())),
            }
        }
    }
}

#[async_trait]
impl Face for Frames {
    async fn submit(&mut self, job: &Value) -> Result<Answered<()>> {
        let id = self.ask(json!({ "type": "run", "window": WIDE }), job.to_string()).await?;
        self.runs.insert(job["id"].as_str().unwrap_or_default().to_owned(), id);
        Ok(Ok(()))
    }

    async fn next(&mut self, run: &str) -> Result<Answered<Bytes>> {
        let id = self.following(run)?;
        let told = self.told(id).await?;
        if told.is("error") {
            return Ok(Err(told.code().to_owned()));
        }
        ensure!(told.is("event"), "{told:?}");
        let event: Value = serde_json::from_slice(&told.payload)?;
        if event["event"] == "result" {
            let done = self.told(id).await?;
            ensure!(done.header == json!({ "type": "done", "id": id }), "{done:?}");
        }
        Ok(Ok(told.payload))
    }

    async fn answer(&mut self, run: &str, call: &Value, text: &str) -> Result<Answered<()>> {
        let header = json!({ "type": "tool_result", "id": self.following(run)?, "call": call["call"] });
        self.sdk.send(header, text.to_owned()).await?;
        Ok(Ok(()))
    }

    async fn answer_any(&mut self, _: &str, call: &Value, text: &str) -> Result<Answered<()>> {
        let header = json!({ "type": "answer", "call": call["call"], "reply_to": call["reply_to"] });
        Ok(self.asked(header, text.to_owned()).await?.map(drop))
    }

    async fn cancel(&mut self, run: &str) -> Result<()> {
        let id = self.following(run)?;
        self.sdk.send(json!({ "type": "cancel", "id": id }), "").await
    }

    async fn info(&mut self, run: &str) -> Result<Answered<Value>> {
        let told = self.asked(json!({ "type": "run_info", "job": run }), "").await?;
        Ok(match told {
            Ok(text) => Ok(serde_json::from_slice(&text)?),
            Err(code) => Err(code),
        })
    }

    async fn take_over(&mut self, run: &str) -> Result<Answered<()>> {
        let id = self.ask(json!({ "type": "attach", "window": WIDE, "job": run }), "").await?;
        let first = self.told(id).await?;
        if first.is("error") {
            return Ok(Err(first.code().to_owned()));
        }
        self.heard.entry(id).or_default().push_front(first);
        self.runs.insert(run.to_owned(), id);
        Ok(Ok(()))
    }

    async fn sessions(&mut self) -> Result<Value> {
        let listed = self.asked(json!({ "type": "sessions" }), "").await?;
        Ok(serde_json::from_slice(&listed.map_err(anyhow::Error::msg)?)?)
    }

    async fn exec(&mut self, session: &str, command: &Value, input: Bytes) -> Result<Answered<Ended>> {
        self.request(session, json!({ "exec": command }), input).await
    }

    async fn file(&mut self, session: &str, op: &Value, content: Bytes) -> Result<Answered<Bytes>> {
        let ended = self.request(session, json!({ "file": op }), content).await?;
        let is_read = op["op"] == "read";
        Ok(ended.map(|ended| if is_read { ended.stdout.into() } else { ended.done["value"].to_string().into() }))
    }

    async fn artifact(&mut self, _: &str, artifact: &Value) -> Result<Answered<Bytes>> {
        let id = self.ask(json!({ "type": "artifact", "ref": artifact["id"], "window": WIDE }), "").await?;
        let mut content = Vec::new();
        loop {
            let told = self.told(id).await?;
            match told.header["type"].as_str() {
                Some("data") => content.extend_from_slice(&told.payload),
                Some("done") => return Ok(Ok(content.into())),
                _ => return Ok(Err(told.code().to_owned())),
            }
        }
    }

    async fn another(&mut self) -> Result<Option<Box<dyn Face>>> {
        let Some(again) = &self.again else { return Ok(None) };
        Ok(Some(Box::new(Self::new(again().await?, None))))
    }

    async fn end(self: Box<Self>) -> Result<()> {
        self.sdk.vanish().await
    }
}
