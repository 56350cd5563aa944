//! Requests to sessions, against a scheduler and a worker that the test plays.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use bytes::Bytes;
use libtest_mimic::Trial;
use serde_json::{Map, Value, json};
use thermae_backplane::bus::{self, Bus, Consumer, Message, QueueSpec};
use thermae_bridge::{Opened, Opener, Refusal};
use thermae_client::{Client, Options};
use thermae_fleet::{EmbeddedOptions, Fleet};
use thermae_schemas::{
    Body, Event, EventBody, JobId, OutputStream, Request, RequestDone, RequestEnd, RequestInput, Say, TenantName,
    WorkerId, names,
};

use crate::contract::sdk::{Sdk, Told};
use crate::test;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        test("a_request_takes_input_and_gives_output_and_its_end", a_request_takes_input_and_gives_output_and_its_end),
        test("output_waits_for_the_credit_of_the_sdk", output_waits_for_the_credit_of_the_sdk),
        test("more_input_than_was_allowed_ends_the_request", more_input_than_was_allowed_ends_the_request),
        test("a_cancelled_request_ends_as_usual", a_cancelled_request_ends_as_usual),
        test("requests_under_way_end_with_the_connection", requests_under_way_end_with_the_connection),
        test("what_can_not_be_a_request_is_refused", what_can_not_be_a_request_is_refused),
    ]
}

/// An SDK, and the fleet that the test plays.
struct Played {
    sdk: Sdk,
    bus: bus::Local,
    requests: Box<dyn Consumer>,
    says: Box<dyn Consumer>,
}

/// Opens a client on a bus of the test. The embedded fleet beside it gets no jobs.
struct OnBus(bus::Local);

#[async_trait]
impl Opener for OnBus {
    async fn open(&self, _: Map<String, Value>) -> Result<Opened, Refusal> {
        let fleet = Fleet::embedded(EmbeddedOptions { slots: Some(1), ..EmbeddedOptions::default() }).await?;
        let tenant = TenantName::new("acme").map_err(|error| Refusal::new("denied", error.to_string()))?;
        let client = Client::connect(Arc::new(self.0.as_user("acme")), tenant, Options::default()).await;
        let client = client.map_err(|error| Refusal::new("denied", error.to_string()))?;
        Ok(Opened { client, fleet: Arc::new(fleet), facts: Map::new() })
    }
}

impl Played {
    async fn new() -> Result<Self> {
        let bus = bus::Local::new();
        thermae_backplane::declare_fleet(&bus).await?;
        let calls = QueueSpec::calls(&WorkerId::new("w-1")?);
        bus.declare_queue(&calls).await?;
        let (requests, says) = (bus.consume(names::UNROUTED_QUEUE, 0).await?, bus.consume(&calls.name, 0).await?);
        let mut sdk = Sdk::silent(Arc::new(OnBus(bus.as_user("acme"))));
        sdk.hello().await?;
        sdk.send(json!({ "type": "open", "id": 0 }), "").await?;
        ensure!(sdk.next().await?.is("hello") && sdk.next().await?.is("opened"));
        Ok(Self { sdk, bus, requests, says })
    }

    /// Sends a request of the SDK, whose id at the fleet is `r<id>`, and opens it. Returns its message.
    async fn request(&mut self, id: u64, window: u64, more: Value) -> Result<Message> {
        let mut request = json!({ "id": format!("r{id}"), "session": "s", "exec": { "shell": "cat" } });
        request.as_object_mut().context("no object")?.extend(more.as_object().cloned().unwrap_or_default());
        let header = json!({ "type": "request", "id": id, "window": window });
        self.sdk.send(header, request.to_string()).await?;
        let delivery = self.requests.next().await.context("no request")?;
        delivery.ack().await?;
        let asked = Request::parse(&delivery.message.body)?;
        ensure!(asked.id.as_str() == format!("r{id}") && u64::from(asked.window) == window, "{asked:?}");
        self.tell(&delivery.message, EventBody::Opened { reply_to: "acme.w-1".to_owned() }).await?;
        Ok(delivery.message.as_ref().clone())
    }

    async fn tell(&self, asked: &Message, body: EventBody) -> Result<()> {
        let id = JobId::new(asked.message_id.clone().unwrap_or_default())?;
        let message = Message {
            exchange: names::REPLIES.to_owned(),
            key: asked.reply_to.clone().unwrap_or_default(),
            body: Event::new(id, 0, body).to_json()?.into(),
            mandatory: true,
            ..Message::default()
        };
        Ok(self.bus.publish(message).await?.wait().await?)
    }

    async fn output(&self, asked: &Message, stream: OutputStream, offset: u64, text: &'static str) -> Result<()> {
        self.tell(asked, EventBody::Output { stream, offset, data: Bytes::from(text).into() }).await
    }

    async fn done(&self, asked: &Message, output: u64, end: RequestEnd) -> Result<()> {
        self.tell(asked, EventBody::Done(RequestDone { output, ..RequestDone::bare(end) })).await
    }

    async fn said(&mut self) -> Result<Say> {
        let delivery = self.says.next().await.context("nothing said")?;
        delivery.ack().await?;
        Ok(RequestInput::parse(&delivery.message.body)?.say)
    }

    async fn input(&mut self, id: u64, text: &'static str, end: bool) -> Result<()> {
        self.sdk.send(json!({ "type": "input", "id": id, "end": end }), text).await
    }

    async fn vanish(self) -> Result<()> {
        self.sdk.vanish().await
    }
}

fn end(told: &Told) -> Result<Value> {
    ensure!(told.is("done"), "{told:?}");
    Ok(serde_json::from_slice(&told.payload)?)
}

async fn a_request_takes_input_and_gives_output_and_its_end() -> Result<()> {
    let mut played = Played::new().await?;
    let asked = played.request(1, 4, json!({ "more_input": true, "input": "YQ==", "window": 9 })).await?;
    played.input(1, "bcd", false).await?;
    let first = played.said().await?;
    ensure!(first == Say::Input { offset: 1, data: Bytes::from("bcd").into(), end: false }, "{first:?}");
    played.tell(&asked, EventBody::Credit { input: 7 }).await?;
    let credit = played.sdk.next().await?;
    ensure!(credit.is("credit") && credit.id() == Some(1) && credit.header["bytes"] == 3, "{credit:?}");
    played.sdk.send(json!({ "type": "signal", "id": 1, "signal": 10 }), "").await?;
    ensure!(played.said().await? == Say::Signal(10));
    played.input(1, "e", true).await?;
    let last = played.said().await?;
    ensure!(last == Say::Input { offset: 4, data: Bytes::from("e").into(), end: true }, "{last:?}");
    played.output(&asked, OutputStream::Stdout, 0, "ab").await?;
    played.output(&asked, OutputStream::Stderr, 2, "c").await?;
    played.done(&asked, 3, RequestEnd::Exited { code: 3 }).await?;
    let all = played.sdk.all_of(1).await?;
    let [stdout, stderr, done] = &all[..] else { anyhow::bail!("{all:?}") };
    for (told, stream, text) in [(stdout, "stdout", "ab"), (stderr, "stderr", "c")] {
        ensure!(told.is("output") && told.header["stream"] == stream && told.payload == text, "{told:?}");
    }
    let done = end(done)?;
    ensure!(done["how"] == "exited" && done["code"] == 3 && done["output"] == 3, "{done}");
    // What comes after the end, or for no request at all, has no effect.
    for id in [1, 77] {
        played.input(id, "late", true).await?;
        played.sdk.send(json!({ "type": "signal", "id": id, "signal": 9 }), "").await?;
        played.sdk.send(json!({ "type": "cancel", "id": id }), "").await?;
    }
    let asked = played.request(2, 4, json!({})).await?;
    played.done(&asked, 0, RequestEnd::Exited { code: 0 }).await?;
    ensure!(end(&played.sdk.next().await?)?["code"] == 0);
    played.vanish().await
}

async fn output_waits_for_the_credit_of_the_sdk() -> Result<()> {
    let mut played = Played::new().await?;
    let slow = played.request(1, 4, json!({})).await?;
    played.output(&slow, OutputStream::Stdout, 0, "1234").await?;
    ensure!(played.sdk.next().await?.payload == "1234");
    // The bridge took it, so the worker may send more. It waits in the bridge.
    ensure!(played.said().await? == Say::Credit(8));
    played.output(&slow, OutputStream::Stdout, 4, "5678").await?;
    let quick = played.request(2, 4, json!({})).await?;
    played.output(&quick, OutputStream::Stdout, 0, "ok").await?;
    played.done(&quick, 2, RequestEnd::Exited { code: 0 }).await?;
    for kind in ["output", "done"] {
        let told = played.sdk.next().await?;
        ensure!(told.id() == Some(2) && told.is(kind), "a request without credit holds up no other: {told:?}");
    }
    played.done(&slow, 8, RequestEnd::Exited { code: 0 }).await?;
    played.sdk.send(json!({ "type": "credit", "id": 1, "bytes": 5 }), "").await?;
    let all = played.sdk.all_of(1).await?;
    let [output, done] = &all[..] else { anyhow::bail!("{all:?}") };
    ensure!(output.payload == "5678" && end(done)?["how"] == "exited", "{all:?}");
    played.vanish().await
}

async fn more_input_than_was_allowed_ends_the_request() -> Result<()> {
    let mut played = Played::new().await?;
    played.request(1, 4, json!({ "more_input": true })).await?;
    played.input(1, "12345", false).await?;
    let told = played.sdk.next().await?;
    ensure!(told.is("error") && told.code() == "bad_request", "{told:?}");
    ensure!(played.said().await? == Say::Cancel {});
    played.vanish().await
}

async fn a_cancelled_request_ends_as_usual() -> Result<()> {
    let mut played = Played::new().await?;
    let asked = played.request(1, 4, json!({})).await?;
    played.sdk.send(json!({ "type": "cancel", "id": 1 }), "").await?;
    ensure!(played.said().await? == Say::Cancel {});
    played.done(&asked, 0, RequestEnd::Cancelled {}).await?;
    ensure!(end(&played.sdk.next().await?)?["how"] == "cancelled");
    played.vanish().await
}

async fn requests_under_way_end_with_the_connection() -> Result<()> {
    let mut played = Played::new().await?;
    let asked = played.request(1, 4, json!({})).await?;
    played.request(2, 4, json!({})).await?;
    played.sdk.send(json!({ "type": "close" }), "").await?;
    for _ in 0..2 {
        ensure!(played.said().await? == Say::Cancel {});
    }
    // One ends in time, and the other does not.
    played.done(&asked, 0, RequestEnd::Cancelled {}).await?;
    ensure!(end(&played.sdk.next().await?)?["how"] == "cancelled");
    let late = played.sdk.next().await?;
    ensure!(late.id() == Some(2) && late.code() == "closed", "{late:?}");
    ensure!(played.sdk.next_or_end().await?.is_none());
    Ok(played.sdk.serving.await?)
}

async fn what_can_not_be_a_request_is_refused() -> Result<()> {
    let mut played = Played::new().await?;
    for window in [0, (16 << 20) + 1] {
        played.sdk.send(json!({ "type": "request", "id": 1, "window": window }), "{}").await?;
        let told = played.sdk.next().await?;
        ensure!(told.code() == "bad_request" && told.id() == Some(1), "{told:?}");
    }
    for (id, text, code) in [(1, "{", "malformed_json"), (2, r#"{"session": "s"}"#, "schema_violation")] {
        played.sdk.send(json!({ "type": "request", "id": id, "window": 9 }), text).await?;
        let done = end(&played.sdk.next().await?)?;
        ensure!(done["how"] == "error" && done["error"]["code"] == code, "{done}");
    }
    played.vanish().await
}
