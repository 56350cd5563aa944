//! A gateway that serves an embedded fleet.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use thermae_fleet::{Client, EmbeddedOptions, Fleet, Secret};
use thermae_gateway::{Gateway, Options, Token};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::http::{Answer, Connection, Events};

/// The token of every gateway here.
pub(crate) const TOKEN: &str = "a-token-of-the-tests";

/// A gateway and its fleet.
pub(crate) struct Serving {
    pub(crate) addr: SocketAddr,
    pub(crate) stop: CancellationToken,
    task: JoinHandle<()>,
    fleet: Arc<Fleet>,
}

impl Serving {
    pub(crate) async fn new() -> Result<Self> {
        Self::with(Options::default()).await
    }

    pub(crate) async fn with(options: Options) -> Result<Self> {
        Self::in_front_of(EmbeddedOptions { slots: Some(2), warm: Some(1), ..EmbeddedOptions::default() }, options)
            .await
    }

    /// A gateway whose fleet has this many slots.
    pub(crate) async fn slots(slots: u32) -> Result<Self> {
        let embedded = EmbeddedOptions { slots: Some(slots), warm: Some(1), ..EmbeddedOptions::default() };
        Self::in_front_of(embedded, Options::default()).await
    }

    pub(crate) async fn in_front_of(embedded: EmbeddedOptions, options: Options) -> Result<Self> {
        Self::of(Arc::new(Fleet::embedded(embedded).await?), options).await
    }

    /// Another gateway of the same fleet. It must end first.
    pub(crate) async fn another(&self) -> Result<Self> {
        Self::of(self.fleet.clone(), Options::default()).await
    }

    async fn of(fleet: Arc<Fleet>, options: Options) -> Result<Self> {
        let options = Options { listen: ([127, 0, 0, 1], 0).into(), ..options };
        let gateway = Gateway::bind(options, Token::new(&Secret::from(TOKEN))?, fleet.clone()).await?;
        let (addr, stop) = (gateway.addr(), CancellationToken::new());
        let task = tokio::spawn(gateway.run(stop.clone()));
        Ok(Self { addr, stop, task, fleet })
    }

    /// The client of the gateway's only tenant.
    pub(crate) fn client(&self) -> &Client {
        self.fleet.client()
    }

    /// Ends the gateway and its fleet.
    pub(crate) async fn end(self) -> Result<()> {
        self.stop.cancel();
        self.task.await?;
        Arc::into_inner(self.fleet).context("something still has the fleet")?.close().await;
        Ok(())
    }

    /// Ends the gateway alone.
    pub(crate) async fn leave(self) -> Result<()> {
        self.stop.cancel();
        Ok(self.task.await?)
    }

    /// Sends a request with these header lines.
    pub(crate) async fn raw(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> Result<Answer> {
        let mut connection = Connection::open(self.addr).await?;
        connection.send(head(method, path, headers, body.len())).await?;
        connection.send(body).await?;
        connection.answer(method != "HEAD").await
    }

    /// Sends a request with the token and these other header lines.
    pub(crate) async fn ask(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> Result<Answer> {
        self.raw(method, path, &format!("Authorization: Bearer {TOKEN}\r\n{headers}"), body).await
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Answer> {
        self.ask("GET", path, "", b"").await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Answer> {
        self.ask("POST", path, "Content-Type: application/json\r\n", body.to_string().as_bytes()).await
    }

    /// Runs a job, and gives its outcome.
    pub(crate) async fn run(&self, job: Value) -> Result<Value> {
        let answer = self.post("/v1/runs?wait=60s", &job).await?;
        ensure!(answer.status == 200, "{answer:?}");
        let run = answer.json()?;
        ensure!(run["state"] == "ended", "{run}");
        Ok(run)
    }

    /// Begins a session.
    pub(crate) async fn session(&self, name: &str) -> Result<()> {
        let run = self.run(json!({ "code": "x = 1", "session": { "id": name } })).await?;
        ensure!(run["outcome"]["status"] == "succeeded", "{run}");
        Ok(())
    }

    /// Follows events.
    pub(crate) async fn follow(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> Result<Events> {
        let mut connection = Connection::open(self.addr).await?;
        let headers = format!("Authorization: Bearer {TOKEN}\r\nAccept: text/event-stream\r\n{headers}");
        connection.send(head(method, path, &headers, body.len())).await?;
        connection.send(body).await?;
        let answer = connection.head().await?;
        ensure!(answer.status == 200 && answer.header("content-type") == Some("text/event-stream"), "{answer:?}");
        Ok(Events::new(connection))
    }

    /// Waits until the gateway holds about this many bytes.
    pub(crate) async fn held(&self, bytes: Range<usize>) -> Result<()> {
        loop {
            let text = String::from_utf8(self.get("/metrics").await?.body)?;
            let held = text.lines().find_map(|line| line.strip_prefix("thermae_gateway_held_bytes "));
            if bytes.contains(&held.context("no metric")?.parse()?) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until a metric of the gateway has this value.
    pub(crate) async fn metric(&self, line: &str) -> Result<()> {
        loop {
            let text = String::from_utf8(self.get("/metrics").await?.body)?;
            if text.lines().any(|known| known == line) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// The head of a request.
pub(crate) fn head(method: &str, path: &str, headers: &str, length: usize) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: gateway\r\n{headers}Content-Length: {length}\r\n\r\n")
}
