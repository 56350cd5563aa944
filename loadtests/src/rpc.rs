//! A bare request and reply over RabbitMQ, with which a tool call's round trip is compared.
//!
//! It uses two connections, two transient classic queues, a body of 100 bytes, one request in flight and no confirms.
//! No system that asks a question over this broker can take less time.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::StreamExt;
use hdrhistogram::Histogram;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, Consumer};

/// How long closing a connection may take.
const END: Duration = Duration::from_secs(5);

const BODY: [u8; 100] = [b'x'; 100];

/// Times of `samples` round trips, in nanoseconds.
pub async fn measure(url: &str, samples: u32) -> Result<Histogram<u64>> {
    // This AMQP library is built without TLS, and would open a plain connection for a URL of TLS.
    ensure!(url.starts_with("amqp://"), "the bare request and reply are measured over a plain connection, amqp://");
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
    end(&client).await;
    end(&server).await;
    Ok(times)
}

/// Closes a connection that is no longer needed. The times are already measured, so errors are only printed: a channel
/// whose handles were just dropped may be closing, and the library then refuses to close it again.
async fn end(connection: &Connection) {
    if let Ok(Err(error)) = tokio::time::timeout(END, connection.close(0, "done".into())).await {
        eprintln!("closing a connection to RabbitMQ: {error}");
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_url_of_tls_is_not_taken_for_a_plain_one() {
        let error = measure("amqps://u:hunter2@127.0.0.1:1", 1).await.unwrap_err().to_string();
        assert!(error.contains("amqp://") && !error.contains("hunter2"), "{error}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_end_of_a_measurement_never_fails_it() {
        let url = std::env::var("THERMAE_TEST_AMQP").expect("THERMAE_TEST_AMQP: `cargo xtask test` sets it");
        for _ in 0..20 {
            assert_eq!(measure(&url, 10).await.unwrap().len(), 10);
        }
        // The connection may be in any state.
        let connection = Connection::connect(&url, ConnectionProperties::default()).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        tokio::join!(end(&connection), async { drop(channel) });
        end(&connection).await;
    }
}
