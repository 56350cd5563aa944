//! `amqps://`, and URLs with several hosts.

use std::time::Duration;

use thermae_backplane::bus::{Bus, Error, QueueKind, Rabbit, RabbitOptions};
use thermae_backplane::declare_fleet;
use thermae_service::tls::Tls;

use super::{message, publish, queue, rabbit};
use crate::support::{Proxy, authority, eavesdropper, identity, server, soon, until};

fn port(url: &str) -> &str {
    url.rsplit_once(':').unwrap().1.split('/').next().unwrap()
}

async fn connect(url: &str, tls: Tls) -> Result<Rabbit, Error> {
    let deadline = Some(Duration::from_secs(15));
    Rabbit::connect(RabbitOptions { deadline, tls, ..RabbitOptions::new(url, "contract suite") }).await
}

async fn denied(url: &str, tls: Tls) -> String {
    match soon("a refusal", connect(url, tls)).await.err() {
        Some(Error::Denied(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bus_over_tls_carries_messages() {
    let url = server("THERMAE_TEST_AMQPS");
    let bus = connect(&url, identity()).await.unwrap();
    declare_fleet(&bus).await.unwrap();
    let to = queue(&bus, QueueKind::Quorum).await;
    let mut consumer = bus.consume(&to.name, 1).await.unwrap();
    let body = "x".repeat(300_000);
    publish(&bus, message("work", &to.name, &body)).await.unwrap();
    let delivery = soon("it", consumer.next()).await.unwrap();
    assert_eq!(&delivery.message.body[..], body.as_bytes());
    delivery.ack().await.unwrap();
    bus.delete_queue(&to.name).await.unwrap();
    bus.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_is_not_to_be_trusted_is_denied_at_once() {
    let url = server("THERMAE_TEST_AMQPS");
    let unknown = denied(&url, Tls::default()).await;
    assert!(unknown.contains("tls_ca") || unknown.contains("root certificates"), "{unknown}");
    let without = denied(&url, authority()).await;
    assert!(without.contains("tls_cert"), "{without}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn amqps_at_a_plain_port_is_denied() {
    let plain = server("THERMAE_TEST_AMQP");
    let url = format!("amqps://fleet:fleet@127.0.0.1:{}/%2f", port(&plain));
    let why = denied(&url, authority()).await;
    assert!(why.contains("does not answer in TLS"), "{why}");
}

#[tokio::test]
async fn whoever_listens_in_the_brokers_place_hears_no_credentials() {
    let (port, heard) = eavesdropper().await;
    let options = RabbitOptions {
        deadline: Some(Duration::from_millis(100)),
        tls: authority(),
        ..RabbitOptions::new(format!("amqps://acme:hunter2@127.0.0.1:{port}/%2f"), "contract suite")
    };
    let connecting = Rabbit::connect(options);
    let (_, heard) = tokio::join!(tokio::time::timeout(Duration::from_secs(2), connecting), heard);
    let heard = heard.unwrap();
    assert_eq!(heard.first(), Some(&22), "the handshake of TLS: {heard:?}");
    let has = |word: &[u8]| heard.windows(word.len()).any(|part| part == word);
    assert!(!has(b"hunter2") && !has(b"acme") && !has(b"AMQP"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_host_is_passed_over_at_first_and_later() {
    let url = server("THERMAE_TEST_AMQP");
    let proxy = Proxy::to(&url).await;
    let hosts = format!("amqp://fleet:fleet@127.0.0.1:1,{},127.0.0.1:{}/%2f", proxy.address, port(&url));
    let bus = rabbit(&hosts).await.unwrap();
    declare_fleet(&bus).await.unwrap();
    let to = queue(&bus, QueueKind::Quorum).await;
    let mut consumer = bus.consume(&to.name, 1).await.unwrap();
    // The host in use goes away for good. The third one is left.
    proxy.set_open(false);
    proxy.cut();
    until("the loss to be seen and mended", || async {
        publish(&bus, message("work", &to.name, "through the other host")).await.is_ok()
    })
    .await;
    soon("it", consumer.next()).await.unwrap().ack().await.unwrap();
    bus.delete_queue(&to.name).await.unwrap();
}
