//! What every bus does.

use std::time::Duration;

use thermae_backplane::bus::{AckBatch, Bus, Error, ExchangeKind, ExchangeSpec, QueueKind, QueueSpec};
use thermae_backplane::declare_fleet;
use thermae_schemas::{WorkerId, names};

use super::{Broker, message, publish, queue};
use crate::support::{never, soon, unique, until};

async fn ready(broker: &Broker) -> std::sync::Arc<dyn Bus> {
    let bus = broker.connect().await;
    declare_fleet(&*bus).await.unwrap();
    bus
}

fn body(delivery: &thermae_backplane::bus::Delivery) -> &str {
    std::str::from_utf8(&delivery.message.body).unwrap()
}

async fn exchange(bus: &dyn Bus, kind: ExchangeKind, alternate: Option<String>) -> String {
    let spec = ExchangeSpec { name: unique("test"), kind, alternate, bindings: Vec::new() };
    bus.declare_exchange(&spec).await.unwrap();
    spec.name
}

pub async fn a_message_arrives_as_it_was_sent(broker: Broker) {
    let bus = ready(&broker).await;
    for kind in [QueueKind::Quorum, QueueKind::Classic] {
        let to = queue(&*bus, kind).await;
        let mut sent = message("work", &to.name, "{\"é\": 1}");
        sent.message_id = Some("job".into());
        sent.correlation_id = Some("mark".into());
        sent.reply_to = Some("acme.c".into());
        sent.headers.set_text("x-tenant", "acme");
        sent.headers.set_int("x-attempt", 3);
        sent.headers.set_flag("x-maybe-duplicate", true);
        let mut consumer = bus.consume(&to.name, 1).await.unwrap();
        publish(&*bus, sent.clone()).await.unwrap();
        let mut found = soon("a delivery", consumer.next()).await.unwrap();
        sent.mandatory = false;
        // A broker that is set up to writes down when a message came.
        found.message.headers.0.remove(names::H_RECEIVED);
        assert_eq!(found.message, sent);
        assert!(!found.redelivered);
        found.ack().await.unwrap();
        drop(consumer);
        assert_eq!(bus.queue_depth(&to.name).await.unwrap(), Some(0));
        bus.delete_queue(&to.name).await.unwrap();
    }
}

pub async fn a_message_names_its_sender_or_nobody(broker: Broker) {
    let (bus, acme) = (ready(&broker).await, broker.tenant().await);
    assert_eq!((bus.user(), acme.user()), ("fleet", "acme"));
    let key = format!("acme.{}", unique("sender"));
    let spec = QueueSpec {
        name: unique("test"),
        kind: QueueKind::Classic,
        bindings: vec![("submit".to_owned(), key.clone())],
        delivery_limit: None,
        dead_letter: None,
        expires: None,
    };
    bus.declare_queue(&spec).await.unwrap();
    let mut consumer = bus.consume(&spec.name, 3).await.unwrap();
    for persistent in [true, false] {
        for named in [Some("acme"), None] {
            let mut sent = message("submit", &key, "{}");
            (sent.user_id, sent.persistent) = (named.map(str::to_owned), persistent);
            publish(&*acme, sent).await.unwrap();
            let found = soon("a delivery", consumer.next()).await.unwrap();
            assert_eq!(found.message.user_id.as_deref(), named);
            found.ack().await.unwrap();
        }
        for other in ["globex", "fleet", "", "acme.x"] {
            let mut sent = message("submit", &key, "forged");
            (sent.user_id, sent.persistent) = (Some(other.to_owned()), persistent);
            let answer = publish(&*acme, sent).await;
            assert!(matches!(&answer, Err(Error::Denied(why)) if why.contains("user_id")), "{other:?}: {answer:?}");
        }
    }
    // And nothing else is the worse for it.
    publish(&*acme, message("submit", &key, "last")).await.unwrap();
    assert_eq!(body(&soon("a delivery", consumer.next()).await.unwrap()), "last");
    bus.delete_queue(&spec.name).await.unwrap();
}

pub async fn a_mandatory_message_to_nobody_is_unroutable(broker: Broker) {
    let bus = ready(&broker).await;
    let key = unique("nobody");
    for persistent in [true, false] {
        let mut sent = message("work", &key, "{}");
        sent.persistent = persistent;
        let answer = publish(&*bus, sent.clone()).await;
        assert!(matches!(&answer, Err(Error::Unroutable { key: k, .. }) if *k == key), "{answer:?}");
        sent.mandatory = false;
        publish(&*bus, sent).await.unwrap();
    }
}

pub async fn an_alternate_exchange_takes_what_nobody_is_bound_for(broker: Broker) {
    let bus = ready(&broker).await;
    let fallback = exchange(&*bus, ExchangeKind::Fanout, None).await;
    let first = exchange(&*bus, ExchangeKind::Topic, Some(fallback.clone())).await;
    let spec = QueueSpec { name: unique("test"), bindings: vec![(fallback, String::new())], ..QueueSpec::resolve() };
    bus.declare_queue(&spec).await.unwrap();
    publish(&*bus, message(&first, "a.high.b", "{}")).await.unwrap();
    let mut consumer = bus.consume(&spec.name, 1).await.unwrap();
    let found = soon("a delivery", consumer.next()).await.unwrap();
    assert_eq!((found.message.exchange.as_str(), found.message.key.as_str()), (first.as_str(), "a.high.b"));
    bus.delete_queue(&spec.name).await.unwrap();
}

pub async fn an_exchange_behind_another_routes_what_that_one_passes_on(broker: Broker) {
    let bus = ready(&broker).await;
    let source = exchange(&*bus, ExchangeKind::Fanout, None).await;
    let others = exchange(&*bus, ExchangeKind::Fanout, None).await;
    let first = exchange(&*bus, ExchangeKind::Topic, Some(source.clone())).await;
    let behind = ExchangeSpec {
        name: unique("test"),
        kind: ExchangeKind::Topic,
        alternate: Some(others.clone()),
        bindings: vec![(source.clone(), String::new()), (first.clone(), "*.cancel".to_owned())],
    };
    // A second declaration changes nothing.
    for _ in 0..2 {
        bus.declare_exchange(&behind).await.unwrap();
    }
    let queue = |exchange: &str, key: &str| QueueSpec {
        name: unique("test"),
        bindings: vec![(exchange.to_owned(), key.to_owned())],
        ..QueueSpec::resolve()
    };
    let (known, rest, tap) = (queue(&behind.name, "acme.#"), queue(&others, ""), queue(&first, "acme.cancel"));
    for spec in [&known, &rest, &tap] {
        bus.declare_queue(spec).await.unwrap();
    }
    for (key, to) in [("acme.cancel", &known), ("acme.high.p", &known), ("globex.cancel", &rest), ("acme2.x", &rest)] {
        publish(&*bus, message(&first, key, "{}")).await.unwrap();
        let mut consumer = bus.consume(&to.name, 1).await.unwrap();
        let found = soon("a delivery", consumer.next()).await.unwrap();
        assert_eq!((found.message.exchange.as_str(), found.message.key.as_str()), (first.as_str(), key));
        found.ack().await.unwrap();
    }
    for (spec, left) in [(known, 0), (rest, 0), (tap, 1)] {
        assert_eq!(bus.queue_depth(&spec.name).await.unwrap(), Some(left), "nothing came twice");
        bus.delete_queue(&spec.name).await.unwrap();
    }
}

pub async fn after_a_flush_a_message_comes_later(broker: Broker) {
    let bus = ready(&broker).await;
    let to = queue(&*bus, QueueKind::Classic).await;
    let mut consumer = bus.consume(&to.name, 100).await.unwrap();
    for round in 0..50 {
        // Those without a confirm and those with one travel by different channels.
        for n in 0..10 {
            let mut event = message("work", &to.name, &format!("{round}.{n}"));
            (event.mandatory, event.persistent) = (false, false);
            drop(bus.publish(event).await.unwrap());
        }
        bus.flush().await.unwrap();
        publish(&*bus, message("work", &to.name, &format!("{round}.end"))).await.unwrap();
        for n in 0..10 {
            let found = soon("an event", consumer.next()).await.unwrap();
            assert_eq!(body(&found), format!("{round}.{n}"));
            found.ack().await.unwrap();
        }
        let found = soon("what came after", consumer.next()).await.unwrap();
        assert_eq!(body(&found), format!("{round}.end"));
        found.ack().await.unwrap();
    }
    bus.delete_queue(&to.name).await.unwrap();
}

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
    // The last one was never out; what was comes back first or, where the broker gave it out before, just after.
    found.sort();
    let marks: Vec<_> = found.iter().map(|(body, again)| (body.as_str(), *again)).collect();
    assert_eq!(marks, [("0", true), ("1", true), ("2", true), ("3", false)]);
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
    // Back in its old place, before the others; but handed out after them.
    let first = body(&held[0]).to_owned();
    held[0].requeue().await.unwrap();
    let again = soon("it again", consumer.next()).await.unwrap();
    assert_eq!((body(&again), again.redelivered), (first.as_str(), true));
    held[2].ack_multiple().await.unwrap();
    // A second time does nothing.
    held[2].ack_multiple().await.unwrap();
    // There is room for one more: two of three are gone.
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
    // Its place is free: all the others can come, and two of them are half of the prefetch.
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
    // One that stopped keeps what it holds.
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
    // And nothing else is the worse for it.
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

pub async fn a_fanout_reaches_every_queue(broker: Broker) {
    let bus = ready(&broker).await;
    let from = exchange(&*bus, ExchangeKind::Fanout, None).await;
    let mut queues = Vec::new();
    for _ in 0..2 {
        let bindings = vec![(from.clone(), String::new())];
        let spec = QueueSpec { name: unique("test"), bindings, ..QueueSpec::resolve() };
        bus.declare_queue(&spec).await.unwrap();
        queues.push(spec.name);
    }
    publish(&*bus, message(&from, "any.key", "x")).await.unwrap();
    for name in queues {
        let mut consumer = bus.consume(&name, 1).await.unwrap();
        soon("a delivery", consumer.next()).await.unwrap().ack().await.unwrap();
        bus.delete_queue(&name).await.unwrap();
    }
}

pub async fn patterns_bind_by_words(broker: Broker) {
    let bus = ready(&broker).await;
    let (from, name) = (exchange(&*bus, ExchangeKind::Topic, None).await, unique("test"));
    let bindings = vec![(from.clone(), "*.w1".to_owned())];
    let spec = QueueSpec { name, bindings, ..QueueSpec::resolve() };
    bus.declare_queue(&spec).await.unwrap();
    publish(&*bus, message(&from, "acme.w1", "x")).await.unwrap();
    for other in ["acme.w2", "w1", "a.b.w1"] {
        let answer = publish(&*bus, message(&from, other, "x")).await;
        assert!(matches!(answer, Err(Error::Unroutable { .. })), "{other}");
    }
    bus.delete_queue(&spec.name).await.unwrap();
}

pub async fn a_classic_queue_without_a_consumer_expires(broker: Broker) {
    let bus = ready(&broker).await;
    let name = unique("test");
    let bindings = vec![("replies".to_owned(), name.clone())];
    let expires = Some(Duration::from_millis(400));
    let spec = QueueSpec { name, kind: QueueKind::Classic, bindings, delivery_limit: None, dead_letter: None, expires };
    bus.declare_queue(&spec).await.unwrap();
    let consumer = bus.consume(&spec.name, 1).await.unwrap();
    // One that has none, declared later, is gone: so this one's time has passed, too.
    let twin = unique("test");
    let bindings = vec![("replies".to_owned(), twin.clone())];
    bus.declare_queue(&QueueSpec { name: twin.clone(), bindings, ..spec.clone() }).await.unwrap();
    until("the other's expiry", || async {
        matches!(publish(&*bus, message("replies", &twin, "x")).await, Err(Error::Unroutable { .. }))
    })
    .await;
    publish(&*bus, message("replies", &spec.name, "kept while it has a consumer")).await.unwrap();
    drop(consumer);
    // Looking at it must not keep it: so the publish is what asks.
    until("its expiry", || async {
        matches!(publish(&*bus, message("replies", &spec.name, "x")).await, Err(Error::Unroutable { .. }))
    })
    .await;
    assert_eq!(bus.queue_depth(&spec.name).await.unwrap(), None);
}

pub async fn each_of_many_publishes_gets_its_own_answer(broker: Broker) {
    let bus = ready(&broker).await;
    let to = queue(&*bus, QueueKind::Quorum).await;
    let nobody = unique("nobody");
    let mut confirms = Vec::new();
    for n in 0..300 {
        let (key, exchange) = match n % 4 {
            0 => (nobody.as_str(), "work"),
            1 if n % 100 == 1 => ("k", nobody.as_str()),
            _ => (to.name.as_str(), "work"),
        };
        let confirm = bus.publish(message(exchange, key, &n.to_string())).await.unwrap();
        if n % 50 == 2 {
            // Nobody wants to know: it is sent all the same.
            drop(confirm);
        } else {
            confirms.push((n, confirm));
        }
    }
    for (n, confirm) in confirms {
        let answer = soon("a confirm", confirm.wait()).await;
        match n % 4 {
            0 => assert!(matches!(answer, Err(Error::Unroutable { .. })), "{n}: {answer:?}"),
            1 if n % 100 == 1 => assert!(matches!(answer, Err(Error::Topology(_))), "{n}: {answer:?}"),
            _ => assert!(answer.is_ok(), "{n}: {answer:?}"),
        }
    }
    let expected = (0..300).filter(|n| n % 4 != 0 && n % 100 != 1).count() as u64;
    until("all of them", || async { bus.queue_depth(&to.name).await.unwrap() == Some(expected) }).await;
    bus.delete_queue(&to.name).await.unwrap();
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
    // Twice, and of a queue that is not there.
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
        // The twin ends a consumer with its queue, as RabbitMQ does where no new one is there in time.
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
    // Other tests write here, too: theirs go back when this consumer ends.
    while body(&soon("the entry", journal.next()).await.unwrap()) != entry {}
    for name in [names::worker_queue(&worker), names::control_queue(&worker), names::calls_queue(&worker)] {
        assert_eq!(bus.queue_depth(&name).await.unwrap(), Some(0), "{name}");
        bus.delete_queue(&name).await.unwrap();
    }
}
