//! Queues and their consumers.

use std::time::Duration;

use thermae_backplane::bus::{Error, ExchangeKind, ExchangeSpec, QueueKind, QueueSpec};
use thermae_backplane::declare_fleet;
use thermae_schemas::{WorkerId, names};

use super::super::{Broker, message, publish, queue};
use super::{body, ready};
use crate::support::{never, soon, unique, until};

pub async fn messages_keep_their_order(broker: Broker) {
    let bus = ready(&broker).await;
    let to = queue(&*bus, QueueKind::Quorum).await;
    for n in 0..100 {
        publish(&*bus, message("work", &to.name, &n.to_string())).await.unwrap();
    }
    let mut consumer = bus.consume(&to.name, 10).await.unwrap();
    for n in 0..100 {
        let found = soon("a delivery", consumer.next()).await.unwrap();
        assert_eq!(body(&found), n.to_string());
        found.ack().await.unwrap();
    }
    bus.delete_queue(&to.name).await.unwrap();
}

pub async fn no_more_than_the_prefetch_is_out(broker: Broker) {
    let bus = ready(&broker).await;
    let to = queue(&*bus, QueueKind::Quorum).await;
    for n in 0..5 {
        publish(&*bus, message("work", &to.name, &n.to_string())).await.unwrap();
    }
    let mut consumer = bus.consume(&to.name, 2).await.unwrap();
    let first = soon("the first", consumer.next()).await.unwrap();
    let _second = soon("the second", consumer.next()).await.unwrap();
    never("a third", consumer.next()).await;
    first.ack().await.unwrap();
    let third = soon("the third", consumer.next()).await.unwrap();
    assert_eq!(body(&third), "2");
    bus.delete_queue(&to.name).await.unwrap();
}

pub async fn a_deleted_queue_ends_its_consumers(broker: Broker) {
    let bus = ready(&broker).await;
    let to = queue(&*bus, QueueKind::Classic).await;
    let mut consumer = bus.consume(&to.name, 1).await.unwrap();
    bus.delete_queue(&to.name).await.unwrap();
    assert!(soon("its end", consumer.next()).await.is_none());
    assert_eq!(bus.queue_depth(&to.name).await.unwrap(), None);
    bus.delete_queue(&to.name).await.unwrap();
    let gone = publish(&*bus, message("work", &to.name, "x")).await;
    assert!(matches!(gone, Err(Error::Unroutable { .. })), "{gone:?}");
}

pub async fn what_does_not_fit_is_a_topology_error(broker: Broker) {
    let bus = ready(&broker).await;
    let to = queue(&*bus, QueueKind::Quorum).await;
    let other = QueueSpec { kind: QueueKind::Classic, ..to.clone() };
    assert!(matches!(bus.declare_queue(&other).await, Err(Error::Topology(_))));
    let other = ExchangeSpec { name: "work".into(), kind: ExchangeKind::Fanout, alternate: None, bindings: Vec::new() };
    assert!(matches!(bus.declare_exchange(&other).await, Err(Error::Topology(_))));
    assert!(matches!(bus.consume(&unique("none"), 1).await.err(), Some(Error::Topology(_))));
    let nowhere = publish(&*bus, message(&unique("none"), "k", "x")).await;
    assert!(matches!(nowhere, Err(Error::Topology(_))), "{nowhere:?}");
    // All this has harmed nothing else.
    publish(&*bus, message("work", &to.name, "x")).await.unwrap();
    bus.delete_queue(&to.name).await.unwrap();
}

pub async fn consumers_share_a_queue(broker: Broker) {
    let bus = ready(&broker).await;
    let to = queue(&*bus, QueueKind::Quorum).await;
    let mut a = bus.consume(&to.name, 1).await.unwrap();
    let mut b = bus.consume(&to.name, 1).await.unwrap();
    publish(&*bus, message("work", &to.name, "x")).await.unwrap();
    publish(&*bus, message("work", &to.name, "y")).await.unwrap();
    let (first, second) = (soon("one", a.next()).await.unwrap(), soon("the other", b.next()).await.unwrap());
    assert_ne!(body(&first), body(&second));
    bus.delete_queue(&to.name).await.unwrap();
}

pub async fn a_classic_queue_without_a_consumer_expires(broker: Broker) {
    let bus = ready(&broker).await;
    let name = unique("test");
    let bindings = vec![("replies".to_owned(), name.clone())];
    let expires = Some(Duration::from_millis(400));
    let spec = QueueSpec { name, kind: QueueKind::Classic, bindings, delivery_limit: None, dead_letter: None, expires };
    bus.declare_queue(&spec).await.unwrap();
    let consumer = bus.consume(&spec.name, 1).await.unwrap();
    // A second queue without a consumer is declared later. Once it has expired, the first one would have, too.
    let twin = unique("test");
    let bindings = vec![("replies".to_owned(), twin.clone())];
    bus.declare_queue(&QueueSpec { name: twin.clone(), bindings, ..spec.clone() }).await.unwrap();
    until("the other's expiry", || async {
        matches!(publish(&*bus, message("replies", &twin, "x")).await, Err(Error::Unroutable { .. }))
    })
    .await;
    publish(&*bus, message("replies", &spec.name, "kept while it has a consumer")).await.unwrap();
    drop(consumer);
    // A look at the queue must not keep it alive, so the test asks with a publish.
    until("its expiry", || async {
        matches!(publish(&*bus, message("replies", &spec.name, "x")).await, Err(Error::Unroutable { .. }))
    })
    .await;
    assert_eq!(bus.queue_depth(&spec.name).await.unwrap(), None);
}

pub async fn a_slow_consumer_holds_no_more_than_its_prefetch(broker: Broker) {
    let bus = ready(&broker).await;
    let to = queue(&*bus, QueueKind::Quorum).await;
    let mut slow = bus.consume(&to.name, 4).await.unwrap();
    for n in 0..200 {
        publish(&*bus, message("work", &to.name, &n.to_string())).await.unwrap();
    }
    until("the rest to wait", || async { bus.queue_depth(&to.name).await.unwrap() == Some(196) }).await;
    let mut fast = bus.consume(&to.name, 50).await.unwrap();
    for _ in 0..196 {
        soon("a delivery", fast.next()).await.unwrap().ack().await.unwrap();
    }
    for _ in 0..4 {
        soon("a delivery", slow.next()).await.unwrap().ack().await.unwrap();
    }
    bus.delete_queue(&to.name).await.unwrap();
}

pub async fn a_closed_bus_says_so(broker: Broker) {
    let bus = ready(&broker).await;
    let to = queue(&*bus, QueueKind::Classic).await;
    let mut consumer = bus.consume(&to.name, 1).await.unwrap();
    bus.delete_queue(&to.name).await.unwrap();
    assert!(bus.is_connected());
    bus.close().await;
    bus.close().await;
    assert!(!bus.is_connected());
    assert!(matches!(publish(&*bus, message("work", "k", "x")).await, Err(Error::Closed)));
    assert!(matches!(bus.declare_queue(&to).await, Err(Error::Closed)));
    assert!(soon("its end", consumer.next()).await.is_none());
}

pub async fn the_fleet_can_be_declared_twice(broker: Broker) {
    let bus = ready(&broker).await;
    declare_fleet(&*broker.connect().await).await.unwrap();
    assert!(bus.queue_depth("resolve").await.unwrap().is_some());
}

pub async fn an_unbound_queue_keeps_what_it_has_and_gets_no_more(broker: Broker) {
    let bus = ready(&broker).await;
    let to = queue(&*bus, QueueKind::Quorum).await;
    publish(&*bus, message("work", &to.name, "before")).await.unwrap();
    bus.unbind_queue(&to).await.unwrap();
    let late = publish(&*bus, message("work", &to.name, "late")).await;
    assert!(matches!(late, Err(Error::Unroutable { .. })), "{late:?}");
    assert_eq!(bus.queue_consumers(&to.name).await.unwrap(), Some(0));
    let mut consumer = bus.consume(&to.name, 1).await.unwrap();
    let found = soon("what it had", consumer.next()).await.unwrap();
    assert_eq!(body(&found), "before");
    assert_eq!(bus.queue_consumers(&to.name).await.unwrap(), Some(1));
    found.ack().await.unwrap();
    // Unbinding works twice, and for a queue that doesn't exist.
    bus.unbind_queue(&to).await.unwrap();
    bus.declare_queue(&to).await.unwrap();
    publish(&*bus, message("work", &to.name, "bound again")).await.unwrap();
    assert_eq!(body(&soon("it", consumer.next()).await.unwrap()), "bound again");
    bus.delete_queue(&to.name).await.unwrap();
    bus.unbind_queue(&to).await.unwrap();
    assert_eq!(bus.queue_consumers(&to.name).await.unwrap(), None);
}

pub async fn a_consumer_survives_the_end_of_its_queue_if_there_is_a_new_one(broker: Broker) {
    let (bus, other) = (ready(&broker).await, broker.connect().await);
    let to = queue(&*bus, QueueKind::Quorum).await;
    let mut consumer = bus.consume(&to.name, 1).await.unwrap();
    let mut witness = bus.consume(&to.name, 1).await.unwrap();
    // RabbitMQ cancels a consumer when its queue is deleted, and (since 4.3) when a delivery was held for too long.
    other.delete_queue(&to.name).await.unwrap();
    assert!(soon("the cancel", witness.next()).await.is_none());
    other.declare_queue(&to).await.unwrap();
    publish(&*other, message("work", &to.name, "in the new one")).await.unwrap();
    if let Some(found) = soon("the new queue's message, or the end", consumer.next()).await {
        assert_eq!(body(&found), "in the new one");
        found.ack().await.unwrap();
    } else {
        // The twin ends a consumer with its queue. RabbitMQ does the same if there is no new queue in time.
        assert!(matches!(broker, Broker::Local(_)));
    }
    bus.delete_queue(&to.name).await.unwrap();
}

pub async fn a_worker_is_written_down_before_its_queues_are_made(broker: Broker) {
    let bus = ready(&broker).await;
    let worker = WorkerId::boot("written");
    thermae_backplane::declare_worker(&*bus, &worker).await.unwrap();
    let mut journal = bus.consume(names::WORKERS_QUEUE, 0).await.unwrap();
    let entry = format!("[\"{worker}\"]");
    // Other tests write here, too. Their entries go back when this consumer ends.
    while body(&soon("the entry", journal.next()).await.unwrap()) != entry {}
    for name in [names::worker_queue(&worker), names::control_queue(&worker), names::calls_queue(&worker)] {
        assert_eq!(bus.queue_depth(&name).await.unwrap(), Some(0), "{name}");
        bus.delete_queue(&name).await.unwrap();
    }
}
