//! A bare request and reply over RabbitMQ: what a tool call's round trip is compared with.
//!
//! Two connections, two transient classic queues, a 100-byte body, one request in flight, no confirms: the least that any
//! system pays that asks a question over this broker.

use std::time::Instant;

use anyhow::{Context, Result};
use futures::StreamExt;
use hdrhistogram::Histogram;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, Consumer};

const BODY: [u8; 100] = [b'x'; 100];

/// Times in nanoseconds of `samples` round trips.
pub async fn measure(url: &str, samples: u32) -> Result<Histogram<u64>> {
    let server = Connection::connect(url, ConnectionProperties::default()).await.context("connect to RabbitMQ")?;
    let client = Connection::connect(url, ConnectionProperties::default()).await.context("connect to RabbitMQ")?;
    let (server_channel, client_channel) = (server.create_channel().await?, client.create_channel().await?);
    let (asked, mut requests) = queue(&server_channel).await?;
    let (answered, mut replies) = queue(&client_channel).await?;
    let answering = tokio::spawn(async move {
        while let Some(request) = requests.next().await {
            let request = request?;
            send(&server_channel, &answered, &request.data).await?;
            request.ack(BasicAckOptions::default()).await?;
        }
        anyhow::Ok(())
    });
    let mut times = Histogram::new(3)?;
    for n in 0..samples + samples / 10 {
        let begun = Instant::now();
        send(&client_channel, &asked, &BODY).await?;
        let reply = replies.next().await.context("the reply queue ended")??;
        let took = begun.elapsed();
        reply.ack(BasicAckOptions::default()).await?;
        if n >= samples / 10 {
            times.record(took.as_nanos() as u64)?;
        }
    }
    answering.abort();
    client.close(0, "done".into()).await?;
    server.close(0, "done".into()).await?;
    Ok(times)
}

async fn queue(channel: &Channel) -> Result<(String, Consumer)> {
    let options = QueueDeclareOptions { exclusive: true, auto_delete: true, ..Default::default() };
    let queue = channel.queue_declare("".into(), options, FieldTable::default()).await?;
    let name = queue.name().to_string();
    let consumer = channel
        .basic_consume(name.as_str().into(), "".into(), BasicConsumeOptions::default(), FieldTable::default())
        .await?;
    Ok((name, consumer))
}

async fn send(channel: &Channel, queue: &str, body: &[u8]) -> Result<()> {
    let sent = channel
        .basic_publish("".into(), queue.into(), BasicPublishOptions::default(), body, BasicProperties::default())
        .await?;
    drop(sent);
    Ok(())
}
