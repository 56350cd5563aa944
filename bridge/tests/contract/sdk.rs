//! A plain SDK: sends and reads frames over whatever the door of the test program leads to.

use std::pin::Pin;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{Sink, SinkExt, StreamExt};
use serde_json::{Value, json};
use thermae_bridge::frames::Frame;
use thermae_schemas::{Body, Event, EventBody, Outcome};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::door;

/// Window of a request that needs no credit here.
pub(crate) const WIDE: u64 = 32 << 20;

/// An SDK. Its connection ends when `read` and `write` are dropped.
pub(crate) struct Sdk {
    /// Messages of the bridge: frames without their first length.
    pub(crate) read: BoxStream<'static, Result<Bytes>>,
    /// Messages for the bridge.
    pub(crate) write: Pin<Box<dyn Sink<Bytes, Error = anyhow::Error> + Send>>,
    /// Ends when the bridge has ended.
    pub(crate) serving: JoinHandle<()>,
    /// Ends the bridge.
    pub(crate) stop: CancellationToken,
}

/// A frame that the bridge has sent.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) header: Value,
    pub(crate) payload: Bytes,
}

impl Told {
    pub(crate) fn id(&self) -> Option<u64> {
        self.header["id"].as_u64()
    }

    pub(crate) fn is(&self, kind: &str) -> bool {
        self.header["type"] == kind
    }

    pub(crate) fn event(&self) -> Result<Event> {
        ensure!(self.is("event"), "{self:?}");
        Ok(Event::parse(&self.payload)?)
    }

    pub(crate) fn outcome(&self) -> Result<Outcome> {
        match self.event()?.body {
            EventBody::Result(outcome) => Ok(outcome),
            body => anyhow::bail!("{body:?}"),
        }
    }

    pub(crate) fn code(&self) -> &str {
        self.header["code"].as_str().unwrap_or_default()
    }
}

impl Sdk {
    /// An SDK that has said hello and opens an embedded fleet under the id 0. The answers are not read yet.
    pub(crate) async fn opening(embedded: Value) -> Result<Self> {
        let (mut sdk, mut open) = door::silent(embedded).await?;
        sdk.hello().await?;
        open["type"] = json!("open");
        open["id"] = json!(0);
        sdk.send(open, "").await?;
        Ok(sdk)
    }

    /// An SDK with an open embedded fleet.
    pub(crate) async fn embedded(embedded: Value) -> Result<Self> {
        let mut sdk = Self::opening(embedded).await?;
        let hello = sdk.next().await?;
        ensure!(hello.is("hello") && hello.header["version"] == 1, "{hello:?}");
        let opened = sdk.next().await?;
        ensure!(opened.is("opened") && opened.header["embedded"] == true, "{opened:?}");
        Ok(sdk)
    }

    pub(crate) async fn hello(&mut self) -> Result<()> {
        self.send(json!({ "type": "hello", "versions": [1, 2], "sdk": "test/0" }), "").await
    }

    pub(crate) async fn send(&mut self, header: Value, payload: impl Into<Bytes>) -> Result<()> {
        let frame = Frame { header: header.to_string().into(), payload: payload.into() };
        self.send_raw(frame.into_message()?).await
    }

    /// Sends a message that may be no frame.
    pub(crate) async fn send_raw(&mut self, message: impl Into<Bytes>) -> Result<()> {
        self.write.send(message.into()).await
    }

    /// Runs a job. `more` has its fields beside the id, which is `job-<id>`.
    pub(crate) async fn run(&mut self, id: u64, window: u64, more: Value) -> Result<()> {
        let mut job = json!({ "protocol": 1, "id": format!("job-{id}") });
        job.as_object_mut().context("no object")?.extend(more.as_object().cloned().unwrap_or_default());
        self.send(json!({ "type": "run", "id": id, "window": window }), job.to_string()).await
    }

    /// The next frame; `None` at the end of the stream.
    pub(crate) async fn next_or_end(&mut self) -> Result<Option<Told>> {
        let Some(message) = self.read.next().await.transpose()? else { return Ok(None) };
        let frame = Frame::parse(message)?;
        Ok(Some(Told { header: serde_json::from_slice(&frame.header)?, payload: frame.payload }))
    }

    pub(crate) async fn next(&mut self) -> Result<Told> {
        self.next_or_end().await?.context("the bridge has ended the connection")
    }

    /// Reads to the `done` or `error` of a request: all its frames, the last one included. Other requests' frames are
    /// dropped.
    pub(crate) async fn all_of(&mut self, id: u64) -> Result<Vec<Told>> {
        let mut all = Vec::new();
        loop {
            let told = self.next().await?;
            if told.id() != Some(id) {
                continue;
            }
            let last = told.is("done") || told.is("error");
            all.push(told);
            if last {
                return Ok(all);
            }
        }
    }

    /// The outcome of a run that ends with a result.
    pub(crate) async fn outcome(&mut self, id: u64) -> Result<Outcome> {
        let all = self.all_of(id).await?;
        let [.., result, done] = &all[..] else { anyhow::bail!("{all:?}") };
        ensure!(done.is("done"), "{done:?}");
        result.outcome()
    }

    /// Closes the connection without a word, and waits for the end of the bridge.
    pub(crate) async fn vanish(self) -> Result<()> {
        let Self { read, write, serving, stop } = self;
        drop((read, write, stop));
        Ok(serving.await?)
    }
}
