//! Acknowledgements, rejections, and deliveries that come back without either.

use std::time::Duration;

use thermae_backplane::bus::{AckBatch, Bus, Error, ExchangeKind, QueueKind, QueueSpec};

use super::super::{Broker, message, publish, queue};
use super::{body, exchange, ready};
use crate::support::{never, soon, unique, until};

pub async fn what_a_dropped_consumer_held_comes_back_marked_and_in_order(broker: Broker) {
    let bus = ready(&broker).await;
    let to = queue(&*bus, QueueKind::Quorum).await;
    for n in 0..4 {
        publish(&*bus, message("work", &to.name, &n.to_string())).await.unwrap();
    }
    let mut consumer = bus.consume(&to.name, 3).await.unwrap();
    let held = soon("a delivery", consumer.next()).await.unwrap();
    assert!(!held.redelivered);
    drop(consumer);
    let mut consumer = bus.consume(&to.name, 4).await.unwrap();
    let mut found = Vec::new();
    for _ in 0..4 {
        let delivery = soon("a delivery", consumer.next()).await.unwrap();
        found.push((body(&delivery).to_owned(), delivery.redelivered));
        delivery.ack().await.unwrap();
    }
    // The last message was never delivered. The others come back before it, or just after it if the broker sends it
    // first.
    found.sort();
    let marks: Vec<_> = found.iter().map(|(body, again)| (body.as_str(), *again)).collect();
    assert_eq!(marks, [("0", true), ("1", true), ("2", true), ("3", false)]);
    bus.delete_queue(&to.name).await.unwrap();
}

pub async fn a_consumer_that_nobody_waited_for_holds_nothing(broker: Broker) {
    let bus = ready(&broker).await;
    let to = queue(&*bus, QueueKind::Quorum).await;
    publish(&*bus, message("work", &to.name, "{}")).await.unwrap();
    // Each call is given up at another point of its way.
    for n in 0..40 {
        let _ = tokio::time::timeout(Duration::from_micros(n * 200), bus.consume(&to.name, 1)).await;
    }
    until("the end of all consumers", || async { bus.queue_consumers(&to.name).await.unwrap() == Some(0) }).await;
    let mut consumer = bus.consume(&to.name, 1).await.unwrap();
    soon("the message", consumer.next()).await.unwrap().ack().await.unwrap();
    bus.delete_queue(&to.name).await.unwrap();
}

pub async fn what_a_lost_connection_held_comes_back_marked(broker: Broker) {
    let bus = ready(&broker).await;
    let other = broker.connect().await;
    let to = queue(&*bus, QueueKind::Quorum).await;
    publish(&*bus, message("work", &to.name, "{}")).await.unwrap();
    let mut doomed = other.consume(&to.name, 1).await.unwrap();
    let held = soon("a delivery", doomed.next()).await.unwrap();
    other.close().await;
    assert!(held.ack().await.is_err());
    assert!(soon("its end", doomed.next()).await.is_none());
    let mut consumer = bus.consume(&to.name, 1).await.unwrap();
    let found = soon("it again", consumer.next()).await.unwrap();
    assert!(found.redelivered);
    found.ack().await.unwrap();
    bus.delete_queue(&to.name).await.unwrap();
}

async fn with_dead_letters(bus: &dyn Bus, limit: u32) -> (QueueSpec, QueueSpec) {
    let dead = exchange(bus, ExchangeKind::Fanout, None).await;
    let morgue =
        QueueSpec { name: unique("test"), bindings: vec![(dead.clone(), String::new())], ..QueueSpec::resolve() };
    bus.declare_queue(&morgue).await.unwrap();
    let name = unique("test");
    let bindings = vec![("work".to_owned(), name.clone())];
    let (kind, expires) = (QueueKind::Quorum, None);
    let spec = QueueSpec { name, kind, bindings, delivery_limit: Some(limit), dead_letter: Some(dead), expires };
    bus.declare_queue(&spec).await.unwrap();
    (spec, morgue)
}

pub async fn a_message_that_comes_back_too_often_is_a_dead_letter(broker: Broker) {
    let bus = ready(&broker).await;
    let (to, morgue) = with_dead_letters(&*bus, 2).await;
    let mut sent = message("work", &to.name, "poison");
    sent.headers.set_text("x-tenant", "acme");
    publish(&*bus, sent).await.unwrap();
    let mut consumer = bus.consume(&to.name, 1).await.unwrap();
    for round in 0..3 {
        let found = soon("a delivery", consumer.next()).await.unwrap();
        assert_eq!(found.redelivered, round > 0);
        found.requeue().await.unwrap();
    }
    let mut morgue_consumer = bus.consume(&morgue.name, 1).await.unwrap();
    let dead = soon("the dead letter", morgue_consumer.next()).await.unwrap();
    assert_eq!((body(&dead), dead.message.key.as_str()), ("poison", to.name.as_str()));
    assert_eq!(dead.message.headers.text("x-first-death-reason"), Some("delivery_limit"));
    assert_eq!(dead.message.headers.text("x-first-death-queue"), Some(to.name.as_str()));
    assert_eq!(dead.message.headers.text("x-tenant"), Some("acme"));
    dead.ack().await.unwrap();
    never("a fourth delivery", consumer.next()).await;
    bus.delete_queue(&to.name).await.unwrap();
    bus.delete_queue(&morgue.name).await.unwrap();
}

pub async fn a_rejected_message_is_a_dead_letter(broker: Broker) {
    let bus = ready(&broker).await;
    let (to, morgue) = with_dead_letters(&*bus, 9).await;
    publish(&*bus, message("work", &to.name, "x")).await.unwrap();
    let mut consumer = bus.consume(&to.name, 1).await.unwrap();
    soon("a delivery", consumer.next()).await.unwrap().dead_letter().await.unwrap();
    let mut morgue_consumer = bus.consume(&morgue.name, 1).await.unwrap();
    let dead = soon("the dead letter", morgue_consumer.next()).await.unwrap();
    assert_eq!(dead.message.headers.text("x-first-death-reason"), Some("rejected"));
    dead.ack().await.unwrap();
    bus.delete_queue(&to.name).await.unwrap();
    bus.delete_queue(&morgue.name).await.unwrap();
}

pub async fn a_message_without_a_limit_comes_back_for_ever(broker: Broker) {
    let bus = ready(&broker).await;
    let to = queue(&*bus, QueueKind::Quorum).await;
    publish(&*bus, message("work", &to.name, "x")).await.unwrap();
    let mut consumer = bus.consume(&to.name, 1).await.unwrap();
    for _ in 0..60 {
        soon("a delivery", consumer.next()).await.unwrap().requeue().await.unwrap();
    }
    soon("a delivery", consumer.next()).await.unwrap().ack().await.unwrap();
    bus.delete_queue(&to.name).await.unwrap();
}

pub async fn a_stopped_consumer_keeps_what_it_holds_and_returns_the_rest(broker: Broker) {
    let bus = ready(&broker).await;
    let to = queue(&*bus, QueueKind::Quorum).await;
    for n in 0..3 {
        publish(&*bus, message("work", &to.name, &n.to_string())).await.unwrap();
    }
    let mut consumer = bus.consume(&to.name, 2).await.unwrap();
    let held = soon("a delivery", consumer.next()).await.unwrap();
    consumer.stop().await.unwrap();
    assert!(soon("its end", consumer.next()).await.is_none());
    held.ack().await.unwrap();
    let mut other = bus.consume(&to.name, 3).await.unwrap();
    let mut rest = Vec::new();
    for _ in 0..2 {
        let found = soon("a delivery", other.next()).await.unwrap();
        rest.push(body(&found).to_owned());
        found.ack().await.unwrap();
    }
    rest.sort();
    assert_eq!(rest, ["1", "2"]);
    drop(consumer);
    never("the one that was acknowledged", other.next()).await;
    bus.delete_queue(&to.name).await.unwrap();
}

pub async fn a_stale_acknowledgement_is_an_error(broker: Broker) {
    let bus = ready(&broker).await;
    let to = queue(&*bus, QueueKind::Quorum).await;
    publish(&*bus, message("work", &to.name, "x")).await.unwrap();
    let mut consumer = bus.consume(&to.name, 1).await.unwrap();
    let stale = soon("a delivery", consumer.next()).await.unwrap();
    drop(consumer);
    let mut consumer = bus.consume(&to.name, 1).await.unwrap();
    let fresh = soon("it again", consumer.next()).await.unwrap();
    assert!(matches!(stale.ack().await, Err(Error::Disconnected(_))));
    fresh.ack().await.unwrap();
    fresh.ack().await.unwrap();
    bus.delete_queue(&to.name).await.unwrap();
}

pub async fn what_a_consumer_was_handed_before_can_be_acknowledged_with_it(broker: Broker) {
    let bus = ready(&broker).await;
    let to = queue(&*bus, QueueKind::Quorum).await;
    for n in 0..5 {
        publish(&*bus, message("work", &to.name, &n.to_string())).await.unwrap();
    }
    let mut others = bus.consume(&to.name, 1).await.unwrap();
    let of_another = soon("a delivery", others.next()).await.unwrap();
    let mut consumer = bus.consume(&to.name, 3).await.unwrap();
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(soon("a delivery", consumer.next()).await.unwrap());
    }
    // It goes back to its old place, before the others, but is delivered after them.
    let first = body(&held[0]).to_owned();
    held[0].requeue().await.unwrap();
    let again = soon("it again", consumer.next()).await.unwrap();
    assert_eq!((body(&again), again.redelivered), (first.as_str(), true));
    held[2].ack_multiple().await.unwrap();
    // A second call does nothing.
    held[2].ack_multiple().await.unwrap();
    // There is room for one more, because two of three are acknowledged.
    let last = soon("the last one", consumer.next()).await.unwrap();
    assert_eq!(body(&last), "4");
    let mut left = vec![body(&of_another).to_owned(), first, "4".to_owned()];
    drop((consumer, others));
    let mut consumer = bus.consume(&to.name, 5).await.unwrap();
    let mut found = Vec::new();
    for _ in 0..3 {
        found.push(body(&soon("what was left", consumer.next()).await.unwrap()).to_owned());
    }
    found.sort();
    left.sort();
    assert_eq!(found, left);
    never("another one", consumer.next()).await;
    bus.delete_queue(&to.name).await.unwrap();
}

pub async fn a_batch_of_acknowledgements_is_sent_when_it_is_due(broker: Broker) {
    let bus = ready(&broker).await;
    let to = queue(&*bus, QueueKind::Quorum).await;
    for n in 0..5 {
        publish(&*bus, message("work", &to.name, &n.to_string())).await.unwrap();
    }
    let mut consumer = bus.consume(&to.name, 4).await.unwrap();
    let mut batch = AckBatch::new(4);
    never("an acknowledgement of nothing", batch.due()).await;
    batch.push(soon("the first", consumer.next()).await.unwrap()).await.unwrap();
    soon("its time", batch.due()).await;
    batch.send().await.unwrap();
    never("an acknowledgement of nothing", batch.due()).await;
    // The acknowledged one has made room, so all the others can come. Two of them are half of the prefetch.
    for _ in 1..5 {
        batch.push(soon("another", consumer.next()).await.unwrap()).await.unwrap();
    }
    drop((consumer, batch));
    let mut consumer = bus.consume(&to.name, 4).await.unwrap();
    never("one that was acknowledged", consumer.next()).await;
    bus.delete_queue(&to.name).await.unwrap();
}

pub async fn a_delivery_is_current_while_its_consumer_and_its_connection_stand(broker: Broker) {
    let bus = ready(&broker).await;
    let other = broker.connect().await;
    let to = queue(&*bus, QueueKind::Quorum).await;
    publish(&*bus, message("work", &to.name, "x")).await.unwrap();
    let mut consumer = bus.consume(&to.name, 1).await.unwrap();
    let first = soon("a delivery", consumer.next()).await.unwrap();
    assert!(first.is_current());
    // A stopped consumer keeps what it holds.
    consumer.stop().await.unwrap();
    assert!(first.is_current());
    drop(consumer);
    assert!(!first.is_current());
    let mut consumer = other.consume(&to.name, 1).await.unwrap();
    let second = soon("it again", consumer.next()).await.unwrap();
    assert!(second.is_current());
    other.close().await;
    assert!(!second.is_current());
    let mut consumer = bus.consume(&to.name, 1).await.unwrap();
    let third = soon("it again", consumer.next()).await.unwrap();
    assert!(third.is_current() && !first.is_current());
    third.ack().await.unwrap();
    bus.delete_queue(&to.name).await.unwrap();
}
