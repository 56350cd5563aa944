//! A connection has a limited number of channels, and the client library can't reuse a channel that the broker ended
//! with an error.

use futures::future::join_all;
use futures::{StreamExt, stream};
use thermae_backplane::bus::{Bus, Error, QueueKind};
use thermae_backplane::declare_fleet;

use super::{message, publish, queue, rabbit};
use crate::support::{server, soon, unique, until};

/// More channels than RabbitMQ allows on one connection (2,047 by default).
const MANY: usize = 2500;

fn url() -> String {
    server("THERMAE_TEST_AMQP")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_queues_are_consumed_than_a_connection_has_channels_for() {
    let bus = rabbit(&url()).await.unwrap();
    declare_fleet(&bus).await.unwrap();
    let to = queue(&bus, QueueKind::Classic).await;
    // RabbitMQ allows about two thousand channels on a connection. This bus uses at most 1,000 of them for consumers.
    let opened = join_all((0..1050).map(|_| bus.consume(&to.name, 1))).await;
    let mut consumers: Vec<_> = opened.into_iter().map(Result::unwrap).collect();
    assert_eq!(bus.queue_consumers(&to.name).await.unwrap(), Some(1050));
    for _ in 0..1050 {
        publish(&bus, message("work", &to.name, "one each")).await.unwrap();
    }
    for found in join_all(consumers.iter_mut().map(|one| soon("its one", one.next()))).await {
        found.unwrap().ack().await.unwrap();
    }
    drop(consumers);
    bus.delete_queue(&to.name).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queues_that_are_not_there_can_be_asked_for_without_end() {
    let bus = rabbit(&url()).await.unwrap();
    declare_fleet(&bus).await.unwrap();
    let to = queue(&bus, QueueKind::Classic).await;
    publish(&bus, message("work", &to.name, "held")).await.unwrap();
    let mut consumer = bus.consume(&to.name, 1).await.unwrap();
    let held = soon("a delivery", consumer.next()).await.unwrap();
    let (bus, absent) = (&bus, unique("absent"));
    let answers = stream::iter(0..MANY).map(|n| {
        let name = format!("{absent}.{n}");
        async move { bus.queue_depth(&name).await }
    });
    let mut answers = answers.buffer_unordered(20);
    while let Some(answer) = answers.next().await {
        assert_eq!(answer.unwrap(), None);
    }
    assert_eq!(bus.queue_consumers(&to.name).await.unwrap(), Some(1));
    held.ack().await.expect("its connection stands");
    bus.delete_queue(&to.name).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_errors_of_channels_have_worn_out_is_made_anew() {
    let bus = rabbit(&url()).await.unwrap();
    declare_fleet(&bus).await.unwrap();
    let to = queue(&bus, QueueKind::Classic).await;
    let (absent, mut lost) = (unique("absent"), [0, 0]);
    for n in 0..MANY {
        let name = format!("{absent}.{n}");
        let refused = [bus.consume(&name, 1).await.err(), publish(&bus, message(&name, "key", "x")).await.err()];
        for (error, lost) in refused.into_iter().zip(&mut lost) {
            match error {
                // The error belongs to this request, and not to an earlier one.
                Some(Error::Topology(text)) => assert!(text.contains(&name), "{n}: {text}"),
                Some(Error::Disconnected(_)) => {
                    *lost += 1;
                    until("a new link", || async { bus.is_connected() }).await;
                }
                other => panic!("{n}: {other:?}"),
            }
        }
    }
    assert!(lost.iter().sum::<usize>() > 0, "no connection was worn out: {lost:?}");
    assert!(lost.iter().all(|&lost| lost <= 2), "{lost:?}");
    publish(&bus, message("work", &to.name, "after it")).await.unwrap();
    let mut consumer = bus.consume(&to.name, 1).await.unwrap();
    soon("it", consumer.next()).await.unwrap().ack().await.unwrap();
    bus.delete_queue(&to.name).await.unwrap();
}
