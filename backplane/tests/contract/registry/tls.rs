//! `rediss://`, and passwords that are not in the URL.

use std::time::Duration;

use thermae_backplane::registry::{Error, Registry};
use thermae_redis::{Redis, RedisOptions};
use thermae_service::tls::Tls;

use super::admit;
use crate::support::{authority, eavesdropper, identity, server, soon, unique};

fn options(url: &str, tls: Tls) -> RedisOptions {
    let deadline = Some(Duration::from_secs(15));
    RedisOptions { prefix: unique("test:") + ":", deadline, tls, ..RedisOptions::new(url) }
}

async fn unfit(options: RedisOptions) -> String {
    match soon("a refusal", Redis::connect(options)).await.err() {
        Some(Error::Unfit(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_registry_over_tls_works() {
    let registry = Redis::connect(options(&server("THERMAE_TEST_REDISS"), identity())).await.unwrap();
    registry.check().await.unwrap();
    registry.admit(&admit("a")).await.unwrap();
    registry.close().await;
}

#[tokio::test]
async fn a_password_need_not_stand_in_the_url() {
    let url = server("THERMAE_TEST_REDISS").replacen("fleet:fleet@", "fleet@", 1);
    let with = |password: &str| RedisOptions { password: Some(password.into()), ..options(&url, identity()) };
    Redis::connect(with("fleet")).await.unwrap().check().await.unwrap();
    let why = unfit(with("hunter2")).await;
    assert!(!why.contains("hunter2"), "{why}");
}

#[tokio::test]
async fn a_redis_that_is_not_to_be_trusted_is_refused_at_once() {
    let url = server("THERMAE_TEST_REDISS");
    let unknown = unfit(options(&url, Tls::default())).await;
    assert!(unknown.contains("tls_ca") || unknown.contains("root certificates"), "{unknown}");
    let without = unfit(options(&url, authority())).await;
    assert!(without.contains("tls_cert"), "{without}");
}

#[tokio::test]
async fn rediss_at_a_plain_port_is_no_connection() {
    let url = server("THERMAE_TEST_REDIS").replacen("redis://", "rediss://", 1);
    let deadline = Some(Duration::from_millis(100));
    // Redis waits for the rest of what it takes for a command, or answers that it doesn't know the command.
    let error = soon("an error", Redis::connect(RedisOptions { deadline, ..options(&url, authority()) })).await.err();
    match error {
        Some(Error::Disconnected(why) | Error::Unfit(why)) => assert!(why.contains("TLS"), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn whoever_listens_in_its_place_hears_no_password() {
    let (port, heard) = eavesdropper().await;
    let options = options(&format!("rediss://fleet:hunter2@127.0.0.1:{port}/"), authority());
    let (_, heard) = tokio::join!(tokio::time::timeout(Duration::from_secs(2), Redis::connect(options)), heard);
    let heard = heard.unwrap();
    assert_eq!(heard.first(), Some(&22), "the handshake of TLS: {heard:?}");
    assert!(!heard.windows(7).any(|part| part == b"hunter2"));
}
