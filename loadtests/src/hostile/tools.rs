//! Garbage answers: many for each tool call of the tenant's own jobs, and some for calls that don't exist.

use std::time::Duration;

use anyhow::{Context, Result};
use futures::StreamExt;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::FieldTable;
use lapin::{Channel, Consumer};
use thermae_schemas::names;

use super::amqp::{Call, Enemy};
use super::jobs;

/// Number of answers that are sent before their confirms are awaited.
const AT_ONCE: usize = 64;

async fn events(enemy: &Enemy, channel: &Channel) -> Result<Consumer> {
    channel.basic_qos(16, BasicQosOptions::default()).await?;
    let queue = enemy.queue(channel, "garbage").await?;
    let options = BasicConsumeOptions::default();
    Ok(channel.basic_consume(queue.as_str().into(), "".into(), options, FieldTable::default()).await?)
}

/// Runs one job to find out which worker runs this tenant's jobs. Call it before the tenant's other means slow down its
/// own jobs.
pub(super) async fn first_call(enemy: &Enemy) -> Result<Call> {
    let (_connection, channel) = enemy.channel().await?;
    let mut events = events(enemy, &channel).await?;
    let key = format!("{}.high.default", enemy.tenant);
    enemy.publish(&channel, names::SUBMIT, &key, &jobs::calling(), "garbage").await?.await?;
    loop {
        let event = events.next().await.context("the queue is gone")??;
        event.ack(BasicAckOptions::default()).await?;
        if let Ok(call) = serde_json::from_slice(&event.data) {
            return Ok(call);
        }
    }
}

/// Sends garbage to the worker that made the last call, without end.
pub(super) async fn garbage(enemy: &Enemy) -> Result<()> {
    let (_connection, channel) = enemy.channel().await?;
    let mut events = events(enemy, &channel).await?;
    let mut last = enemy.first_call.clone();
    let large = vec![b' '; 1 << 20];
    loop {
        let next = tokio::time::timeout(Duration::from_millis(5), events.next()).await;
        if let Ok(event) = next {
            let event = event.context("the queue is gone")??;
            if let Ok(call) = serde_json::from_slice::<Call>(&event.data) {
                last = Some(call);
            }
            event.ack(BasicAckOptions::default()).await?;
        }
        let Some(Call { call, reply_to }) = &last else { continue };
        let mut sent = Vec::new();
        for n in 0..AT_ONCE {
            let body = match n % 8 {
                0 => format!(r#"{{"call": "{call}", "ok": NaN}}"#).into_bytes(),
                1 => format!(r#"{{"call": "{call}", "ok": 1, "error": 2}}"#).into_bytes(),
                2 if n == 2 => large.clone(),
                _ => format!(r#"{{"call": "{n:032}", "ok": {}1{}}}"#, "[".repeat(60), "]".repeat(60)).into_bytes(),
            };
            sent.push(enemy.publish(&channel, names::CALLS, reply_to, &body, "unread").await?);
            enemy.tally.count("garbage answer");
        }
        for confirm in sent {
            confirm.await?;
        }
    }
}
