//! A store that goes away, and comes back.

use std::net::SocketAddr;
use std::time::Instant;

use crate::program::{Program, SOON};
use crate::proxy::{Proxy, Way};

/// The tests' Postgres.
fn postgres() -> (String, SocketAddr, String) {
    let url = std::env::var("THERMAE_TEST_POSTGRES");
    let url = url.expect("THERMAE_TEST_POSTGRES names no server; `cargo xtask test` starts one");
    let (before, rest) = url.split_once('@').unwrap();
    let (server, after) = rest.split_once('/').unwrap();
    (format!("{before}@"), server.parse().unwrap(), format!("/{after}"))
}

#[test]
fn while_the_store_is_away_nothing_is_allowed() {
    let (before, server, after) = postgres();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let proxy = runtime.block_on(Proxy::to(server));
    proxy.set(Way::Cut);
    let program = Program::with_store(&format!("{before}127.0.0.1:{}{after}", proxy.port));
    // It starts without the store, and lets nobody in.
    let running = program.start();
    let some = format!("thm_{}_{}", "0".repeat(16), "0".repeat(64));
    assert_eq!(running.get(&some, "/v1/runs").code(), (503, "keys_unavailable"));
    assert_eq!(running.health("/readyz").status, 503);
    assert_eq!(running.get("", "/healthz").status, 200);

    proxy.set(Way::Open);
    running.await_condition("keys", true);
    assert_eq!(running.get(&some, "/v1/runs").code(), (401, "key_unknown"));
    let [used, unused] = [(); 2].map(|()| program.key("acme", &["--scope", "read"]));
    assert_eq!(running.get(&used, "/v1/runs").code(), (503, "broker_unreachable"));

    for way in [Way::Cut, Way::Silent] {
        proxy.set(way);
        let away = running.get(&unused, "/v1/runs");
        assert_eq!(away.code(), (503, "keys_unavailable"), "{way:?}");
        assert!(away.head.contains("retry-after: "), "{away:?}");
        // What the store said about a key is used for some seconds, and no longer.
        let begun = Instant::now();
        while running.get(&used, "/v1/runs").code() != (503, "keys_unavailable") {
            assert!(begun.elapsed() < SOON, "{way:?}");
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        running.await_condition("keys", false);
        proxy.set(Way::Open);
        running.await_condition("keys", true);
        assert_eq!(running.get(&used, "/v1/runs").code(), (503, "broker_unreachable"), "{way:?}");
    }
    for id in [&used, &unused].map(|key| &key[4..20]) {
        program.told(&["key", "revoke", id]);
    }
}

#[test]
fn a_file_of_keys_that_is_replaced_is_noticed_and_opened_anew() {
    let program = Program::new();
    let [file, backup] = ["keys.db", "backup"].map(|name| program.path().join(name));
    let key = program.key("acme", &["--scope", "read"]);
    std::fs::copy(&file, &backup).unwrap();
    let newer = program.key("acme", &["--scope", "read"]);
    let running = program.start();
    running.await_condition("keys", true);

    std::fs::remove_file(&file).unwrap();
    assert_eq!(running.get(&newer, "/v1/runs").code(), (503, "keys_unavailable"));
    running.await_condition("keys", false);
    assert!(!file.exists(), "an empty store was made");
    std::fs::rename(&backup, &file).unwrap();
    running.await_condition("keys", true);
    assert_eq!(running.get(&newer, "/v1/runs").code(), (401, "key_unknown"));
    program.told(&["key", "revoke", &key[4..20]]);
    assert_eq!(running.get(&key, "/v1/runs").code(), (401, "key_revoked"));
}
