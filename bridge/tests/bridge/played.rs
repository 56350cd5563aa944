//! A fleet whose scheduler and worker are played by the test: what a bridge sends arrives here, and the test answers.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use serde_json::{Map, Value, json};
use thermae_backplane::bus::{self, Bus, Consumer, Message, QueueSpec, SharedBus};
use thermae_bridge::{Opened, Opener, Refusal, Terms};
use thermae_client::{Client, Options};
use thermae_fleet::{EmbeddedOptions, Fleet};
use thermae_schemas::{Asked, Class, PoolName, Query, RunQuery, TenantName, ToolResult, WorkerId, names};

use crate::contract::sdk::Sdk;

fn tenant() -> Result<TenantName> {
    Ok(TenantName::new("acme")?)
}

/// Gives every SDK a client of the played fleet. The fleet that it carries runs nothing.
struct Played {
    bus: bus::Local,
    fleet: Arc<Fleet>,
}

#[async_trait]
impl Opener for Played {
    async fn open(&self, _: Map<String, Value>) -> Result<Opened, Refusal> {
        let bus: SharedBus = Arc::new(self.bus.as_user("acme"));
        let tenant = tenant().map_err(|error| Refusal::new("denied", error.to_string()))?;
        let client = Client::connect(bus, tenant, Options::default()).await?;
        Ok(Opened { client, fleet: self.fleet.clone(), facts: Map::new() })
    }
}

pub(crate) struct PlayedFleet {
    bus: bus::Local,
    opener: Arc<Played>,
    jobs: Box<dyn Consumer>,
    asked: Box<dyn Consumer>,
    answers: Box<dyn Consumer>,
    /// Reply key of the worker's calls.
    pub(crate) reply_to: String,
}

async fn next(from: &mut Box<dyn Consumer>) -> Result<Message> {
    let delivery = from.next().await.context("the queue is gone")?;
    delivery.ack().await?;
    Ok(delivery.message.as_ref().clone())
}

impl PlayedFleet {
    pub(crate) async fn start() -> Result<Self> {
        let bus = bus::Local::new();
        thermae_backplane::declare_fleet(&bus).await?;
        let worker = WorkerId::new("w-1")?;
        let (submit, calls) =
            (QueueSpec::submit(&tenant()?, Class::Normal, &PoolName::new("default")?), QueueSpec::calls(&worker));
        for spec in [&submit, &calls] {
            bus.declare_queue(spec).await?;
        }
        let jobs = bus.consume(&submit.name, 0).await?;
        let asked = bus.consume(names::UNROUTED_QUEUE, 0).await?;
        let answers = bus.consume(&calls.name, 0).await?;
        let options = EmbeddedOptions { slots: Some(1), warm: Some(1), ..EmbeddedOptions::default() };
        let opener = Arc::new(Played { bus: bus.as_user("acme"), fleet: Arc::new(Fleet::embedded(options).await?) });
        let reply_to = names::calls_key(&tenant()?, &worker);
        Ok(Self { bus, opener, jobs, asked, answers, reply_to })
    }

    /// An SDK of this fleet.
    pub(crate) async fn sdk(&self) -> Result<Sdk> {
        self.sdk_on(Terms::default()).await
    }

    /// An SDK of this fleet, on these terms.
    pub(crate) async fn sdk_on(&self, terms: Terms) -> Result<Sdk> {
        let mut sdk = Sdk::on(terms, self.opener.clone());
        sdk.hello().await?;
        sdk.send(json!({ "type": "open", "id": 0, "embedded": {} }), "").await?;
        ensure!(sdk.next().await?.is("hello") && sdk.next().await?.is("opened"));
        Ok(sdk)
    }

    /// The next job.
    pub(crate) async fn job(&mut self) -> Result<Message> {
        next(&mut self.jobs).await
    }

    /// The next question about a run.
    pub(crate) async fn question(&mut self) -> Result<(Message, RunQuery)> {
        let message = next(&mut self.asked).await?;
        match serde_json::from_slice::<Query>(&message.body)?.what {
            Asked::Run(run) => Ok((message, run)),
            other => anyhow::bail!("{other:?}"),
        }
    }

    /// The next cancel: the id of its job.
    pub(crate) async fn cancel(&mut self) -> Result<Value> {
        let message = next(&mut self.asked).await?;
        ensure!(message.key == "acme.cancel", "{message:?}");
        Ok(serde_json::from_slice::<Value>(&message.body)?["job"].clone())
    }

    /// The next answer to a call.
    pub(crate) async fn answer(&mut self) -> Result<ToolResult> {
        Ok(serde_json::from_slice(&next(&mut self.answers).await?.body)?)
    }

    /// Sends an event to whoever sent this message.
    pub(crate) async fn tell(&self, to: &Message, event: &str) -> Result<()> {
        let message = Message {
            exchange: names::REPLIES.to_owned(),
            key: to.reply_to.clone().context("no reply key")?,
            body: event.to_owned().into(),
            ..Message::default()
        };
        Ok(self.bus.publish(message).await?.wait().await?)
    }

    pub(crate) async fn end(self) -> Result<()> {
        let fleet = Arc::into_inner(self.opener).and_then(|opener| Arc::into_inner(opener.fleet));
        fleet.context("a connection still holds the fleet")?.close().await;
        Ok(())
    }
}
