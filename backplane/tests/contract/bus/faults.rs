//! What only a real broker can do.

use std::sync::Arc;
use std::time::{Duration, Instant};

use thermae_backplane::bus::{Bus, Error, Message, QueueKind, QueueSpec, Rabbit, RabbitOptions};
use thermae_backplane::declare_fleet;
use thermae_schemas::{ClientId, TenantName, WorkerId, names};
use tokio::task::JoinSet;

use super::{message, publish, queue, rabbit};
use crate::support::{Proxy, Set, never, server, soon, until};

fn url() -> String {
    server("THERMAE_TEST_AMQP")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_reaches_nobody_elses_keys() {
    let fleet = rabbit(&url()).await.unwrap();
    declare_fleet(&fleet).await.unwrap();
    let acme_bus = rabbit(&server("THERMAE_TEST_AMQP_TENANT")).await.unwrap();
    let other_bus = rabbit(&server("THERMAE_TEST_AMQP_OTHER")).await.unwrap();
    let (acme, globex) = (TenantName::new("acme").unwrap(), TenantName::new("globex").unwrap());
    let client = ClientId::random();

    // The tenant's own keys and queues: everything works.
    let own = QueueSpec::replies(&acme, &client);
    acme_bus.declare_queue(&own).await.unwrap();
    let mut replies = acme_bus.consume(&own.name, 1).await.unwrap();
    publish(&fleet, message(names::REPLIES, &names::reply_key(&acme, &client), "for acme")).await.unwrap();
    soon("its reply", replies.next()).await.unwrap().ack().await.unwrap();
    let worker = WorkerId::boot("w");
    let calls = QueueSpec::calls(&worker);
    fleet.declare_queue(&calls).await.unwrap();
    publish(&acme_bus, message(names::CALLS, &names::calls_key(&acme, &worker), "answer")).await.unwrap();

    // Another tenant's: everything is denied.
    let denied = [
        publish(&acme_bus, message(names::SUBMIT, "globex.normal.default", "x")).await,
        publish(&acme_bus, message(names::CALLS, &names::calls_key(&globex, &worker), "x")).await,
        publish(&acme_bus, message(names::WORK, "pool.default", "x")).await,
        publish(&acme_bus, message(names::RESOLVE, "x", "x")).await,
        publish(&acme_bus, message(names::REPLIES, &names::reply_key(&globex, &client), "x")).await,
        publish(&acme_bus, message("", names::RESOLVE_QUEUE, "x")).await,
        acme_bus.declare_queue(&QueueSpec::replies(&globex, &client)).await,
        acme_bus
            .declare_queue(&QueueSpec { bindings: vec![(names::REPLIES.into(), "globex.c".into())], ..own.clone() })
            .await,
        acme_bus.declare_queue(&QueueSpec { bindings: vec![(names::REPLIES.into(), "#".into())], ..own.clone() }).await,
        acme_bus.consume(names::RESOLVE_QUEUE, 1).await.map(drop),
        other_bus.consume(&own.name, 1).await.map(drop),
        other_bus.delete_queue(&own.name).await,
    ];
    for (n, answer) in denied.iter().enumerate() {
        assert!(matches!(answer, Err(Error::Denied(_))), "attempt {n}: {answer:?}");
    }
    // After all that, its own still works.
    publish(&acme_bus, message(names::CALLS, &names::calls_key(&acme, &worker), "answer")).await.unwrap();
    fleet.delete_queue(&calls.name).await.unwrap();
    fleet.delete_queue(&own.name).await.unwrap();
}

#[tokio::test]
async fn wrong_credentials_are_denied_at_once_and_not_repeated() {
    let wrong = url().replacen("fleet:fleet@", "fleet:not-the-password@", 1);
    let answer = soon("an answer", Rabbit::connect(RabbitOptions::new(wrong, "contract suite"))).await;
    let error = answer.err().unwrap();
    assert!(matches!(error, Error::Denied(_)), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("fleet") && !text.contains("not-the-password"), "{text}");
    let options = RabbitOptions::new("amqp://u:not-the-password@h:1/%2f", "x");
    assert!(!format!("{options:?}").contains("not-the-password"));
}

#[tokio::test]
async fn a_missing_vhost_is_denied_and_a_url_that_is_none_too() {
    let missing = url().replace("%2f", "no-such-vhost");
    for bad in [missing.as_str(), "not a url"] {
        let error = Rabbit::connect(RabbitOptions::new(bad, "contract suite")).await.err().unwrap();
        assert!(matches!(error, Error::Denied(_)), "{error:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_is_absent_is_waited_for() {
    let proxy = Proxy::to(&url()).await;
    proxy.set_open(false);
    let through = proxy.through(&url());
    let options = RabbitOptions { deadline: Some(Duration::from_millis(500)), ..RabbitOptions::new(&through, "x") };
    assert!(matches!(Rabbit::connect(options).await.err(), Some(Error::Disconnected(_))));
    let waiting = tokio::spawn(async move { Rabbit::connect(RabbitOptions::new(through, "x")).await });
    tokio::task::yield_now().await;
    proxy.set_open(true);
    let bus = soon("the connection", waiting).await.unwrap().unwrap();
    assert!(bus.is_connected());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_connection_heals_and_loses_nothing() {
    let proxy = Proxy::to(&url()).await;
    let bus = rabbit(&proxy.through(&url())).await.unwrap();
    let steady = rabbit(&url()).await.unwrap();
    declare_fleet(&bus).await.unwrap();
    let to = queue(&bus, QueueKind::Quorum).await;
    let mut consumer = bus.consume(&to.name, 2).await.unwrap();
    for round in 0..5 {
        publish(&steady, message("work", &to.name, &round.to_string())).await.unwrap();
        let stale = soon("a delivery", consumer.next()).await.unwrap();
        proxy.cut();
        // The consumer subscribes again without help, and the delivery comes again, marked as redelivered.
        let again = soon("it again", consumer.next()).await.unwrap();
        assert!(again.redelivered, "round {round}");
        assert_eq!(&again.message.body[..], round.to_string().as_bytes());
        assert!(matches!(stale.ack().await, Err(Error::Disconnected(_))));
        again.ack().await.unwrap();
        publish(&bus, message("work", &to.name, "through the new connection")).await.unwrap();
        soon("it", consumer.next()).await.unwrap().ack().await.unwrap();
    }
    bus.delete_queue(&to.name).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_whose_caller_is_impatient_subscribes_again_once() {
    let proxy = Proxy::to(&url()).await;
    let bus = rabbit(&proxy.through(&url())).await.unwrap();
    let steady = rabbit(&url()).await.unwrap();
    declare_fleet(&steady).await.unwrap();
    let to = queue(&steady, QueueKind::Quorum).await;
    let mut consumer = bus.consume(&to.name, 1).await.unwrap();
    for round in 0..5 {
        proxy.cut();
        publish(&steady, message("work", &to.name, &round.to_string())).await.unwrap();
        loop {
            // Each call is given up soon, as in a loop that also waits for other events.
            let found = soon("the message", async {
                loop {
                    if let Ok(next) = tokio::time::timeout(Duration::from_micros(500), consumer.next()).await {
                        return next.unwrap();
                    }
                }
            });
            match found.await.ack().await {
                Ok(()) => break,
                // The message came before the cut took effect. The broker delivers it again.
                Err(Error::Disconnected(_)) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
        until("one consumer", || async { steady.queue_consumers(&to.name).await.unwrap() == Some(1) }).await;
    }
    steady.delete_queue(&to.name).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_publish_whose_confirm_is_lost_says_so() {
    let proxy = Proxy::to(&url()).await;
    let bus = rabbit(&proxy.through(&url())).await.unwrap();
    let steady = rabbit(&url()).await.unwrap();
    declare_fleet(&bus).await.unwrap();
    let to = queue(&bus, QueueKind::Quorum).await;
    let mut lost = 0;
    for round in 0..20 {
        let mut confirms = Vec::new();
        for n in 0..20 {
            match bus.publish(message("work", &to.name, &format!("{round}.{n}"))).await {
                Ok(confirm) => confirms.push(confirm),
                Err(error) => assert!(matches!(error, Error::Disconnected(_)), "{error:?}"),
            }
        }
        proxy.cut();
        for confirm in confirms {
            match soon("an answer", confirm.wait()).await {
                Ok(()) => {}
                Err(Error::Disconnected(_)) => lost += 1,
                Err(other) => panic!("{other:?}"),
            }
        }
        until("the next connection", || async { bus.is_connected() }).await;
    }
    assert!(lost > 0, "no confirm was ever lost: the test proves nothing");
    // The test uses another connection here, because the bus may not have noticed the last cut yet.
    steady.delete_queue(&to.name).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_ends_every_publish_and_waits_for_none() {
    const MESSAGES: usize = 256;
    let (bus, steady) = (rabbit(&url()).await.unwrap(), rabbit(&url()).await.unwrap());
    declare_fleet(&bus).await.unwrap();
    let to = queue(&bus, QueueKind::Quorum).await;
    // Opens a channel for each of the later messages, so that none of them has to wait for one.
    let mut small = Vec::new();
    for _ in 0..MESSAGES {
        small.push(bus.publish(message("work", &to.name, "small")).await.unwrap());
    }
    for confirm in small {
        confirm.wait().await.unwrap();
    }
    // More bytes than the connection has written when it is closed. Nothing waits for the confirm of every second
    // message.
    let large = Message { body: vec![b'x'; 1 << 20].into(), ..message("work", &to.name, "") };
    let mut waiting = Vec::new();
    for n in 0..MESSAGES {
        let confirm = bus.publish(large.clone()).await.unwrap();
        if n % 2 == 0 {
            waiting.push(tokio::spawn(confirm.wait()));
        }
    }
    let began = Instant::now();
    soon("the end", bus.close()).await;
    println!("closed with {MESSAGES} MiB to write: {:?}", began.elapsed());
    for confirm in waiting {
        let answer = soon("an answer", confirm).await.unwrap();
        assert!(matches!(answer, Ok(()) | Err(Error::Disconnected(_))), "{answer:?}");
    }
    steady.delete_queue(&to.name).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_ends_every_request_that_waits() {
    const REQUESTS: usize = 200;
    let proxy = Proxy::to(&url()).await;
    let bus = Arc::new(rabbit(&proxy.through(&url())).await.unwrap());
    let steady = rabbit(&url()).await.unwrap();
    declare_fleet(&*bus).await.unwrap();
    let to = queue(&*bus, QueueKind::Quorum).await;
    let mut lost = 0;
    for round in 0..20 {
        // When the connection is cut, some requests have their answer, some wait for it, and some are still being
        // written.
        let mut requests = JoinSet::new();
        for n in 0..REQUESTS {
            let (bus, to) = (Arc::clone(&bus), to.clone());
            requests.spawn(async move {
                match n % 4 {
                    0 => bus.declare_queue(&to).await,
                    1 => bus.queue_depth(&to.name).await.map(drop),
                    2 => bus.queue_consumers(&to.name).await.map(drop),
                    _ => bus.consume(&to.name, 1).await.map(drop),
                }
            });
        }
        for _ in 0..round * REQUESTS / 20 {
            let done = soon("an answer", requests.join_next()).await.unwrap().unwrap();
            assert!(matches!(done, Ok(()) | Err(Error::Disconnected(_))), "round {round}: {done:?}");
        }
        proxy.cut();
        while let Some(done) = soon("an answer", requests.join_next()).await {
            match done.unwrap() {
                Ok(()) => {}
                Err(Error::Disconnected(_)) => lost += 1,
                Err(other) => panic!("round {round}: {other:?}"),
            }
        }
        until("the next connection", || async { bus.is_connected() }).await;
    }
    assert!(lost > 0, "no answer was ever lost: the test proves nothing");
    // The test uses another connection here, because the bus may not have noticed the last cut yet.
    steady.delete_queue(&to.name).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_restarts_keeps_messages_and_consumers() {
    let set = crate::support::Set::up("rabbitmq");
    let url = set.variable("THERMAE_TEST_AMQP");
    let bus = rabbit(&url).await.unwrap();
    declare_fleet(&bus).await.unwrap();
    let to = queue(&bus, QueueKind::Quorum).await;
    let mut consumer = bus.consume(&to.name, 1).await.unwrap();
    publish(&bus, message("work", &to.name, "before")).await.unwrap();
    let held = soon("a delivery", consumer.next()).await.unwrap();
    for how in ["stop", "kill"] {
        set.control("rabbitmq", how);
        until("the loss to be seen", || async { !bus.is_connected() }).await;
        assert!(matches!(bus.publish(message("work", &to.name, "x")).await, Err(Error::Disconnected(_))));
        set.control("rabbitmq", "start");
        until("the next connection", || async { bus.is_connected() }).await;
    }
    assert!(held.ack().await.is_err());
    let again = tokio::time::timeout(Duration::from_secs(60), consumer.next()).await.expect("it again").unwrap();
    assert!(again.redelivered);
    again.ack().await.unwrap();
    publish(&bus, message("work", &to.name, "after")).await.unwrap();
    let after = soon("a delivery", consumer.next()).await.unwrap();
    assert_eq!(&after.message.body[..], b"after");
    after.ack().await.unwrap();
    bus.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_made_just_before_a_crash_keeps_its_messages() {
    let set = Set::up("rabbitmq");
    let bus = rabbit(&set.variable("THERMAE_TEST_AMQP")).await.unwrap();
    declare_fleet(&bus).await.unwrap();
    let to = queue(&bus, QueueKind::Quorum).await;
    publish(&bus, message("work", &to.name, "confirmed")).await.unwrap();
    set.control("rabbitmq", "kill");
    until("the loss to be seen", || async { !bus.is_connected() }).await;
    set.control("rabbitmq", "start");
    until("the next connection", || async { bus.is_connected() }).await;
    let mut consumer = soon("a consumer", bus.consume(&to.name, 1)).await.unwrap();
    let found = soon("what was confirmed", consumer.next()).await.unwrap();
    assert_eq!(found.message.body, "confirmed");
    found.ack().await.unwrap();
    bus.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backlog_that_raised_an_alarm_can_drain() {
    let set = tokio::task::spawn_blocking(|| Set::up("rabbitmq")).await.unwrap();
    let bus = rabbit(&set.variable("THERMAE_TEST_AMQP")).await.unwrap();
    declare_fleet(&bus).await.unwrap();
    let to = queue(&bus, QueueKind::Quorum).await;
    for n in 0..10 {
        publish(&bus, message("work", &to.name, &n.to_string())).await.unwrap();
    }
    let mut consumer = bus.consume(&to.name, 1).await.unwrap();
    let set = tokio::task::spawn_blocking(move || {
        set.control("rabbitmq", "alarm");
        set
    })
    .await
    .unwrap();
    // Under the alarm, a publish waits for its confirm, and RabbitMQ no longer reads from the connection that
    // publishes.
    let waiting = bus.publish(message("work", &to.name, "published under the alarm")).await.unwrap();
    let mut waiting = tokio::spawn(waiting.wait());
    // One unsettled delivery at a time: the next one comes only if the acknowledgement has arrived.
    for n in 0..10 {
        let found = soon("a delivery under the alarm", consumer.next()).await.unwrap();
        assert_eq!(found.message.body, n.to_string());
        found.ack().await.unwrap();
    }
    never("the confirm under the alarm", &mut waiting).await;
    let _set = tokio::task::spawn_blocking(move || {
        set.control("rabbitmq", "calm");
        set
    })
    .await
    .unwrap();
    soon("the confirm", waiting).await.unwrap().unwrap();
    assert_eq!(soon("it", consumer.next()).await.unwrap().message.body, "published under the alarm");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_loss_of_one_connection_is_the_loss_of_all() {
    let proxy = Proxy::to(&url()).await;
    let bus = rabbit(&proxy.through(&url())).await.unwrap();
    declare_fleet(&bus).await.unwrap();
    let to = queue(&bus, QueueKind::Quorum).await;
    publish(&bus, message("work", &to.name, "held")).await.unwrap();
    let mut consumer = bus.consume(&to.name, 1).await.unwrap();
    let held = soon("a delivery", consumer.next()).await.unwrap();
    // The connection that publishes is the second one that the link opens.
    proxy.cut_one(1);
    let again = soon("it again, from a new link", consumer.next()).await.unwrap();
    assert!(again.redelivered);
    assert!(matches!(held.ack().await, Err(Error::Disconnected(_))), "its own connection stood, and was given up");
    again.ack().await.unwrap();
    bus.delete_queue(&to.name).await.unwrap();
}
