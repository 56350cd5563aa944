//! A broker that an earlier release has used. RabbitMQ refuses to declare a queue again with other arguments, so the
//! queues of the first release keep theirs. Newer limits are set by policy.

use lapin::options::{QueueDeclareOptions, QueueDeleteOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Connection, ConnectionProperties};
use thermae_backplane::bus::{Bus, Error, QueueSpec};
use thermae_backplane::declare_fleet;
use thermae_schemas::{Class, ClientId, PoolName, TenantName, WorkerId};

use super::{message, publish, rabbit};
use crate::support::{server, unique};

/// Arguments of a queue: those with a number, and those with a text.
type Arguments = (&'static [(&'static str, i64)], &'static [(&'static str, &'static str)]);

/// For queues of jobs: nothing may be lost from them, including dead letters.
const JOBS: Arguments = (
    &[("x-delivery-limit", 50)],
    &[
        ("x-queue-type", "quorum"),
        ("x-dead-letter-exchange", "resolve"),
        ("x-dead-letter-strategy", "at-least-once"),
        ("x-overflow", "reject-publish"),
    ],
);
const ASKED: Arguments = (&[("x-delivery-limit", 50)], &[("x-queue-type", "quorum")]);
const KEPT: Arguments = (&[("x-delivery-limit", 1_000_000_000)], &[("x-queue-type", "quorum")]);
const OF_A_WORKER: Arguments = (&[("x-expires", 300_000)], &[("x-queue-type", "classic")]);
const REPLIES: Arguments = (&[("x-expires", 900_000)], &[("x-queue-type", "classic")]);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queues_of_the_first_release_are_taken_as_they_are() {
    let (tenant, client) = (TenantName::new("acme").unwrap(), ClientId::random());
    let (pool, worker) = (PoolName::new(unique("p")).unwrap(), WorkerId::new(unique("w")).unwrap());
    let queues = [
        (QueueSpec::submit(&tenant, Class::Normal, &pool), JOBS),
        (QueueSpec::unrouted(), JOBS),
        (QueueSpec::pool(&pool, 1), JOBS),
        (QueueSpec::worker(&worker), JOBS),
        (QueueSpec::resolve(), KEPT),
        (QueueSpec::lanes(), KEPT),
        (QueueSpec::control(&worker), OF_A_WORKER),
        (QueueSpec::calls(&worker), OF_A_WORKER),
        (QueueSpec::replies(&tenant, &client), REPLIES),
    ];
    let [unrouted, cancel, query] = QueueSpec::of_0_1_0().try_into().unwrap();
    let queues = queues.into_iter().chain([(unrouted, JOBS), (cancel, ASKED), (query, ASKED)]);
    let queues: Vec<(QueueSpec, Arguments)> = queues.collect();
    let url = server("THERMAE_TEST_AMQP");
    let connection = Connection::connect(&url, ConnectionProperties::default()).await.unwrap();
    let old = connection.create_channel().await.unwrap();
    for (spec, (numbers, texts)) in &queues {
        let mut arguments = FieldTable::default();
        for (name, number) in *numbers {
            arguments.insert((*name).into(), AMQPValue::LongLongInt(*number));
        }
        for (name, text) in *texts {
            arguments.insert((*name).into(), AMQPValue::LongString(text.as_bytes().into()));
        }
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        let made = old.queue_declare(spec.name.as_str().into(), options, arguments).await;
        // The queues that all tests share exist already. The point is that their arguments agree.
        made.unwrap_or_else(|error| panic!("{}: {error}", spec.name));
    }
    let new = rabbit(&url).await.unwrap();
    declare_fleet(&new).await.unwrap();
    for (spec, _) in &queues {
        new.declare_queue(spec).await.unwrap_or_else(|error| panic!("{}: {error}", spec.name));
    }
    for (spec, _) in &queues {
        // A scheduler does this with the bindings of release 0.1.0.
        if QueueSpec::of_0_1_0().contains(spec) {
            new.unbind_queue(spec).await.unwrap();
        }
        if !["submit.unrouted", "submit.lanes", "resolve"].contains(&&*spec.name) {
            old.queue_delete(spec.name.as_str().into(), QueueDeleteOptions::default()).await.unwrap();
        }
    }
}

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
