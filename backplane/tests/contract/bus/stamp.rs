//! With the interceptor of `images/rabbitmq/newer.conf`, RabbitMQ writes into each message when it arrived.

use std::time::{SystemTime, UNIX_EPOCH};

use thermae_backplane::bus::{Bus, Headers, Message, QueueKind, QueueSpec};
use thermae_schemas::names;

use super::rabbit;
use crate::support::{server, soon, unique};

fn now_ms() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// Older releases of RabbitMQ have no such setting. `cargo xtask test` sets THERMAE_TEST_STAMPS for the newer ones.
#[tokio::test]
async fn a_message_says_when_it_reached_the_broker_and_a_moved_one_keeps_that() {
    if std::env::var("THERMAE_TEST_STAMPS").is_err() {
        return eprintln!("skipped: THERMAE_TEST_STAMPS is not set");
    }
    let bus = rabbit(&server("THERMAE_TEST_AMQP")).await.unwrap();
    thermae_backplane::declare_fleet(&bus).await.unwrap();
    let key = unique("stamp");
    let queue = QueueSpec {
        name: key.clone(),
        kind: QueueKind::Quorum,
        bindings: vec![(names::WORK.to_owned(), key.clone())],
        delivery_limit: None,
        dead_letter: None,
        expires: Some(std::time::Duration::from_secs(60)),
    };
    bus.declare_queue(&queue).await.unwrap();
    let mut consumer = bus.consume(&key, 1).await.unwrap();
    let mut sent = Message { exchange: names::WORK.to_owned(), key, mandatory: true, ..Message::default() };
    let mut stamps = Vec::new();
    for _ in 0..2 {
        bus.publish(sent.clone()).await.unwrap().wait().await.unwrap();
        let delivery = soon("the message", consumer.next()).await.unwrap();
        delivery.ack().await.unwrap();
        // The scheduler reads the time in the same way.
        stamps.push(delivery.message.headers.int(names::H_RECEIVED).expect("it is stamped"));
        sent = Message { headers: Headers::clone(&delivery.message.headers), ..sent };
    }
    assert!((now_ms() - stamps[0]).abs() < 60_000, "{stamps:?}");
    assert_eq!(stamps[0], stamps[1], "moved, it is no younger");
    bus.delete_queue(&queue.name).await.unwrap();
}
