//! What a broker refuses: a message or a queue beyond its bounds.

use lapin::options::QueueDeclareOptions;
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Connection, ConnectionProperties};
use thermae_backplane::bus::{Bus, Error};
use thermae_backplane::declare_fleet;

use super::{message, publish, rabbit};
use crate::support::{server, unique};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_beyond_the_brokers_bound_is_too_large() {
    let bus = rabbit(&server("THERMAE_TEST_AMQP")).await.unwrap();
    declare_fleet(&bus).await.unwrap();
    let huge = publish(&bus, message("submit", "acme.normal.huge", &"x".repeat((16 << 20) + 1))).await;
    assert!(matches!(huge, Err(Error::TooLarge(_))), "{huge:?}");
    assert!(!huge.unwrap_err().is_transient());
    assert!(bus.is_connected());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_refuses_and_keeps_what_it_took() {
    let url = server("THERMAE_TEST_AMQP");
    let (bus, name) = (rabbit(&url).await.unwrap(), unique("full"));
    declare_fleet(&bus).await.unwrap();
    let connection = Connection::connect(&url, ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    let mut arguments = FieldTable::default();
    arguments.insert("x-max-length".into(), AMQPValue::LongInt(1));
    arguments.insert("x-overflow".into(), AMQPValue::LongString("reject-publish".as_bytes().into()));
    let options = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
    channel.queue_declare(name.as_str().into(), options, arguments).await.unwrap();
    channel
        .queue_bind(
            name.as_str().into(),
            "work".into(),
            name.as_str().into(),
            Default::default(),
            FieldTable::default(),
        )
        .await
        .unwrap();
    publish(&bus, message("work", &name, "kept")).await.unwrap();
    let refused = publish(&bus, message("work", &name, "refused")).await;
    assert!(matches!(refused, Err(Error::Refused { .. })), "{refused:?}");
    assert_eq!(bus.queue_depth(&name).await.ok().flatten().unwrap_or(1), 1);
}
