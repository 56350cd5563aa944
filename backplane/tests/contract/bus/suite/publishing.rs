//! Publishing, and the exchanges that lead to queues.

use thermae_backplane::bus::{Error, ExchangeKind, ExchangeSpec, QueueKind, QueueSpec};
use thermae_schemas::{TenantName, names};

use super::super::{Broker, message, publish, queue};
use super::{body, exchange, ready};
use crate::support::{soon, unique, until};

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
        let found = soon("a delivery", consumer.next()).await.unwrap();
        sent.mandatory = false;
        // A broker with the interceptor adds the time when the message arrived.
        let mut message = found.message.as_ref().clone();
        message.headers.0.remove(names::H_RECEIVED);
        assert_eq!(message, sent);
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
    // All this has harmed nothing else.
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

pub async fn what_is_no_job_reaches_its_tenants_queue_though_somebody_listens(broker: Broker) {
    let bus = ready(&broker).await;
    let tenant = TenantName::new(unique("acme")).unwrap();
    let keys = [names::cancel_key(&tenant), names::query_key(&tenant), names::request_key(&tenant)];
    let rest = QueueSpec::rest(&tenant);
    let bindings = keys.iter().map(|key| (names::SUBMIT.to_owned(), key.clone())).collect();
    let tap = QueueSpec { name: unique("test"), bindings, ..QueueSpec::resolve() };
    for spec in [&rest, &tap] {
        bus.declare_queue(spec).await.unwrap();
    }
    let mut consumer = bus.consume(&rest.name, 10).await.unwrap();
    for key in &keys {
        publish(&*bus, message(names::SUBMIT, key, "{}")).await.unwrap();
        let found = soon("a delivery", consumer.next()).await.unwrap();
        assert_eq!((found.message.exchange.as_str(), &found.message.key), (names::SUBMIT, key));
        found.ack().await.unwrap();
    }
    drop(consumer);
    for (spec, left) in [(rest, 0), (tap, 3)] {
        assert_eq!(bus.queue_depth(&spec.name).await.unwrap(), Some(left), "nothing came twice");
        bus.delete_queue(&spec.name).await.unwrap();
    }
}

pub async fn after_a_flush_a_message_comes_later(broker: Broker) {
    let bus = ready(&broker).await;
    let to = queue(&*bus, QueueKind::Classic).await;
    let mut consumer = bus.consume(&to.name, 100).await.unwrap();
    for round in 0..50 {
        // Messages without a confirm and messages with one use different channels.
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
            // The caller drops the confirm, and the message is sent all the same.
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
