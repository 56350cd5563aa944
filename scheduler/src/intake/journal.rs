//! Which submit queues exist. AMQP can't list queues, and a queue that nobody consumes would be a backlog that nobody sees; so
//! every new one is written to a queue of its own, `submit.lanes`, before it is declared. It is as durable as the jobs.
//!
//! A scheduler that begins to lead reads all of it and puts one snapshot in its place. It looks again now and then: another
//! scheduler, on its way out, may have held a part of it.

use std::time::Duration;

use thermae_backplane::bus::{Delivery, Message, QueueSpec};
use thermae_schemas::names;

use super::Lanes;
use crate::answer::acknowledge;
use crate::context::Context;
use crate::error::Trouble;
use crate::lane::Lane;

/// How long the next message of a queue that is not empty may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often it is read again.
const AGAIN: Duration = Duration::from_secs(60);

/// Writes lanes down.
pub(super) async fn remember(ctx: &Context, lanes: &[Lane]) -> Result<(), Trouble> {
    let keys: Vec<String> = lanes.iter().map(ToString::to_string).collect();
    let message = Message {
        exchange: names::WORK.to_owned(),
        key: names::LANES_KEY.to_owned(),
        body: serde_json::to_vec(&keys).unwrap_or_default().into(),
        mandatory: true,
        persistent: true,
        ..Message::default()
    };
    ctx.publish(message).await
}

/// Starts a consumer for every lane written down.
pub(super) async fn read(lanes: &Lanes) -> Result<(), Trouble> {
    lanes.0.ctx.persist(|| read_once(lanes)).await
}

/// Reads again now and then, until this scheduler leads no more.
pub(super) async fn watch(lanes: Lanes) {
    let ctx = &lanes.0.ctx;
    loop {
        tokio::select! {
            () = ctx.stop.cancelled() => return,
            () = tokio::time::sleep(AGAIN) => {}
        }
        if read(&lanes).await.is_err() {
            return;
        }
    }
}

async fn read_once(lanes: &Lanes) -> Result<(), Trouble> {
    let ctx = &lanes.0.ctx;
    let spec = QueueSpec::lanes();
    ctx.bus.declare_queue(&spec).await?;
    let depth = ctx.bus.queue_depth(&spec.name).await?.unwrap_or(0);
    if depth == 0 {
        return Ok(());
    }
    let prefetch = u16::try_from(depth).unwrap_or(u16::MAX);
    let mut consumer = ctx.bus.consume(&spec.name, prefetch).await?;
    let mut read: Vec<Delivery> = Vec::new();
    while read.len() < usize::from(prefetch) {
        let Ok(Some(delivery)) = tokio::time::timeout(PATIENCE, consumer.next()).await else { break };
        for lane in parse(&delivery.message.body) {
            lanes.restore(lane);
        }
        read.push(delivery);
    }
    // Even a single message is replaced: coming back again and again would count as deliveries.
    if !read.is_empty() {
        remember(ctx, &lanes.list()).await?;
        for delivery in &read {
            acknowledge(delivery).await;
        }
    }
    Ok(())
}

fn parse(body: &[u8]) -> Vec<Lane> {
    match serde_json::from_slice::<Vec<String>>(body) {
        Ok(keys) => keys.iter().filter_map(|key| Lane::parse(key)).collect(),
        Err(error) => {
            tracing::warn!(%error, "an entry of the list of submit queues can't be read");
            Vec::new()
        }
    }
}
