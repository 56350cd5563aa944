//! Prints how long a message takes. `cargo xtask bench` judges such times.

use std::time::{Duration, Instant};

use thermae_backplane::bus::QueueKind;
use thermae_backplane::declare_fleet;

use super::{Broker, message, queue};
use crate::support::soon;

/// Median times from publish to delivery, and from publish to confirm.
async fn median(broker: Broker, kind: QueueKind, rounds: usize) -> (Duration, Duration) {
    let (here, there) = (broker.connect().await, broker.connect().await);
    declare_fleet(&*here).await.unwrap();
    let to = queue(&*here, kind).await;
    let mut consumer = there.consume(&to.name, 8).await.unwrap();
    let body = "x".repeat(500);
    let (mut delivered, mut confirmed) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let begun = Instant::now();
        let confirm = here.publish(message("work", &to.name, &body)).await.unwrap();
        let found = soon("a delivery", consumer.next()).await.unwrap();
        delivered.push(begun.elapsed());
        confirm.wait().await.unwrap();
        confirmed.push(begun.elapsed());
        found.ack().await.unwrap();
    }
    here.delete_queue(&to.name).await.unwrap();
    delivered.sort();
    confirmed.sort();
    (delivered[rounds / 2], confirmed[rounds / 2])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_of_many_messages_crosses_the_process() {
    let broker = Broker::Local(thermae_backplane::bus::Local::new());
    let (delivered, _) = median(broker, QueueKind::Quorum, 2000).await;
    println!("in the process: publish to delivery {delivered:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_of_many_messages_crosses_rabbitmq() {
    for kind in [QueueKind::Quorum, QueueKind::Classic] {
        let (delivered, confirmed) = median(Broker::rabbit(), kind, 300).await;
        println!("{kind:?}: publish to delivery {delivered:?}, to confirm {confirmed:?}");
    }
}
