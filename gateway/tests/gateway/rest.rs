//! Requests over HTTP as a face of the fleet.

use std::collections::HashMap;

use anyhow::{Context, Result, bail, ensure};
use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};

use crate::contract::face::{Answered, Ended, Face};
use crate::http::{Answer, Connection, Events};
use crate::serving::{Serving, TOKEN, head};

const JSON: &str = "Content-Type: application/json\r\n";

/// A gateway, and the runs that are followed through it.
pub(crate) struct Rest {
    serving: Serving,
    /// Whether the fleet is another one's.
    is_second: bool,
    runs: HashMap<String, Events>,
}

/// What a request gives, or its problem's code; for files, the kernel's error.
fn answered(answer: Answer) -> Result<Answered<Bytes>> {
    if answer.status < 300 {
        return Ok(Ok(answer.body.into()));
    }
    let problem = answer.json()?;
    let code = if problem["errno"].is_string() { &problem["errno"] } else { &problem["code"] };
    Ok(Err(code.as_str().with_context(|| format!("{answer:?}"))?.to_owned()))
}

impl Rest {
    pub(crate) async fn open(slots: u32) -> Result<Box<dyn Face>> {
        Ok(Box::new(Self { serving: Serving::slots(slots).await?, is_second: false, runs: HashMap::new() }))
    }

    async fn ask(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> Result<Answered<Bytes>> {
        answered(self.serving.ask(method, path, headers, body).await?)
    }

    async fn get(&self, path: &str) -> Result<Answered<Value>> {
        Ok(match self.ask("GET", path, "", b"").await? {
            Ok(body) => Ok(serde_json::from_slice(&body)?),
            Err(code) => Err(code),
        })
    }
}

#[async_trait]
impl Face for Rest {
    async fn submit(&mut self, job: &Value) -> Result<Answered<()>> {
        Ok(self.ask("POST", "/v1/runs", JSON, job.to_string().as_bytes()).await?.map(drop))
    }

    async fn next(&mut self, run: &str) -> Result<Answered<Bytes>> {
        if !self.runs.contains_key(run) {
            let events = self.serving.follow("GET", &format!("/v1/runs/{run}/events"), "", b"").await?;
            self.runs.insert(run.to_owned(), events);
        }
        let events = self.runs.get_mut(run).context("not followed")?;
        let told = events.next().await?.with_context(|| format!("the events of {run} have ended"))?;
        if ["result", "error"].contains(&told.event.as_str()) {
            self.runs.remove(run);
        }
        match told.event.as_str() {
            "error" => Ok(Err(told.data["code"].as_str().context("no code")?.to_owned())),
            "gap" | "closing" => bail!("{told:?}"),
            _ => Ok(Ok(told.text.into())),
        }
    }

    async fn answer(&mut self, run: &str, call: &Value, text: &str) -> Result<Answered<()>> {
        let call = call["call"].as_str().context("no call")?;
        Ok(self.ask("POST", &format!("/v1/runs/{run}/calls/{call}"), JSON, text.as_bytes()).await?.map(drop))
    }

    async fn answer_any(&mut self, run: &str, call: &Value, text: &str) -> Result<Answered<()>> {
        self.answer(run, call, text).await
    }

    async fn cancel(&mut self, run: &str) -> Result<()> {
        let cancelled = self.ask("DELETE", &format!("/v1/runs/{run}"), "", b"").await?;
        ensure!(cancelled.is_ok(), "{cancelled:?}");
        Ok(())
    }

    async fn info(&mut self, run: &str) -> Result<Answered<Value>> {
        self.get(&format!("/v1/runs/{run}/info")).await
    }

    async fn take_over(&mut self, run: &str) -> Result<Answered<()>> {
        self.runs.remove(run);
        Ok(self.ask("POST", &format!("/v1/runs/{run}/take-over"), "", b"").await?.map(drop))
    }

    async fn sessions(&mut self) -> Result<Value> {
        let listed = self.get("/v1/sessions").await?.map_err(anyhow::Error::msg)?;
        Ok(listed["sessions"].clone())
    }

    async fn exec(&mut self, session: &str, command: &Value, input: Bytes) -> Result<Answered<Ended>> {
        let mut body = command.clone();
        body["stdin_base64"] = json!(STANDARD.encode(input));
        let (path, body) = (format!("/v1/sessions/{session}/exec"), body.to_string());
        let headers = format!("Authorization: Bearer {TOKEN}\r\n{JSON}Accept: text/event-stream\r\n");
        let mut connection = Connection::open(self.serving.addr).await?;
        connection.send(head("POST", &path, &headers, body.len())).await?;
        connection.send(body).await?;
        let mut answer = connection.head().await?;
        if answer.status != 200 {
            let length = answer.header("content-length").context("no length")?.parse()?;
            answer.body = connection.read(length).await?;
            return Ok(answered(answer)?.map(|_| Ended { done: Value::Null, stdout: Vec::new(), stderr: Vec::new() }));
        }
        let (mut events, mut stdout, mut stderr) = (Events::new(connection), Vec::new(), Vec::new());
        loop {
            let told = events.next().await?.context("the events have ended")?;
            let (text, base64) = (told.data["text"].as_str(), told.data["base64"].as_str());
            let bytes = text.map_or_else(|| STANDARD.decode(base64.unwrap_or_default()), |text| Ok(text.into()))?;
            match told.event.as_str() {
                "stdout" => stdout.extend(bytes),
                "stderr" => stderr.extend(bytes),
                "done" if told.data["how"] == "failed" => {
                    return Ok(Err(told.data["errno"].as_str().context("no errno")?.to_owned()));
                }
                "done" => return Ok(Ok(Ended { done: told.data, stdout, stderr })),
                _ => return Ok(Err(told.data["code"].as_str().context("no code")?.to_owned())),
            }
        }
    }

    async fn file(&mut self, session: &str, op: &Value, content: Bytes) -> Result<Answered<Bytes>> {
        let files = format!("/v1/sessions/{session}/files");
        let path = match op["path"].as_str().context("no path")? {
            "." => files,
            path => format!("{files}/{path}"),
        };
        match op["op"].as_str() {
            Some("read") => self.ask("GET", &path, "", b"").await,
            Some("stat") => self.ask("GET", &format!("{path}?op=stat"), "", b"").await,
            Some("list") => self.ask("GET", &format!("{path}?most={}", op["most"]), "", b"").await,
            Some("remove") => self.ask("DELETE", &path, "", b"").await,
            Some("write") => {
                let mode = op["mode"].as_str().filter(|mode| *mode != "truncate");
                let query = mode.map_or_else(String::new, |mode| format!("?mode={mode}"));
                self.ask("PUT", &format!("{path}{query}"), "", &content).await
            }
            other => bail!("HTTP has no {other:?}"),
        }
    }

    async fn artifact(&mut self, run: &str, artifact: &Value) -> Result<Answered<Bytes>> {
        let path = artifact["path"].as_str().context("no path")?.trim_start_matches("/workspace/artifacts/");
        self.ask("GET", &format!("/v1/runs/{run}/artifacts/{path}"), "", b"").await
    }

    async fn another(&mut self) -> Result<Option<Box<dyn Face>>> {
        let serving = self.serving.another().await?;
        Ok(Some(Box::new(Self { serving, is_second: true, runs: HashMap::new() })))
    }

    async fn end(self: Box<Self>) -> Result<()> {
        let Self { serving, is_second, runs } = *self;
        drop(runs);
        if is_second { serving.leave().await } else { serving.end().await }
    }
}
