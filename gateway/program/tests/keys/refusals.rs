//! Who is let in, and what others are told.

use std::time::{Duration, Instant};

use crate::program::{Program, SOON};

#[test]
fn each_key_opens_what_it_may_and_each_refusal_has_its_code() {
    let program = Program::new();
    let running = program.start();
    running.await_condition("keys", true);
    running.await_condition("gateway", true);
    let good = program.key("acme", &["--scope", "read"]);
    // The key is good: now RabbitMQ is asked, which is not there.
    assert_eq!(running.get(&good, "/v1/runs").code(), (503, "broker_unreachable"));
    let refused = running.post(&good, "/v1/runs", "{}");
    assert_eq!((refused.code(), refused.body["scope"].as_str()), ((403, "missing_scope"), Some("run")));
    assert_eq!(running.get(&good, "/metrics").code(), (403, "missing_scope"));

    let mut forged = good.clone();
    forged.replace_range(24..28, if &good[24..28] == "0000" { "1111" } else { "0000" });
    for (secret, code) in [("", "unauthorized"), ("x", "key_malformed"), (&*forged, "key_unknown")] {
        assert_eq!(running.get(secret, "/v1/runs").code(), (401, code));
    }
    program.told(&["key", "revoke", &good[4..20]]);
    let begun = Instant::now();
    while running.get(&good, "/v1/runs").code() != (401, "key_revoked") {
        assert!(begun.elapsed() < SOON);
        std::thread::sleep(Duration::from_millis(100));
    }
    let short = program.key("acme", &["--scope", "read", "--expires", "1s"]);
    while running.get(&short, "/v1/runs").code() != (401, "key_expired") {
        assert!(begun.elapsed() < SOON);
        std::thread::sleep(Duration::from_millis(100));
    }
    let slow = program.key("acme", &["--scope", "run", "--rate", "1"]);
    assert_eq!(running.get(&slow, "/v1/runs").code(), (403, "missing_scope"));
    let limited = running.get(&slow, "/v1/runs");
    assert_eq!(limited.code(), (429, "rate_limited"));
    let after = limited.head.lines().find_map(|line| line.strip_prefix("retry-after: ")).unwrap();
    assert!((50..=60).contains(&after.parse::<u32>().unwrap()), "{after}");

    // Metrics are for those who run the gateway, and say what was refused.
    let metrics = running.health("/metrics").body.as_str().unwrap_or_default().to_owned();
    for line in
        ["thermae_gateway_refused_total{reason=\"rate\"} 1", "thermae_gateway_refused_total{reason=\"token\"} 1"]
    {
        assert!(metrics.contains(line), "{metrics}");
    }
    let log = running.logged();
    for secret in [&good, &short, &slow, "hunter2"] {
        assert!(!log.contains(secret), "{log}");
    }
}

#[test]
fn a_tenant_without_usable_credentials_is_told_so() {
    let program = Program::new();
    let running = program.start();
    running.await_condition("keys", true);
    let [globex, initech] = ["globex", "initech"].map(|tenant| program.key(tenant, &["--scope", "read"]));
    assert_eq!(running.get(&initech, "/v1/runs").code(), (503, "tenant_unavailable"));
    let file = program.path().join("tenants/globex");
    std::fs::write(&file, "amqp://fleet:hunter2@127.0.0.1:1").unwrap();
    assert_eq!(running.get(&globex, "/v1/runs").code(), (503, "tenant_unavailable"));
    // Once they are right, they are used.
    std::fs::write(&file, "amqp://globex:hunter2@127.0.0.1:1").unwrap();
    let begun = Instant::now();
    while running.get(&globex, "/v1/runs").code() != (503, "broker_unreachable") {
        assert!(begun.elapsed() < SOON, "{}", running.logged());
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(!running.logged().contains("hunter2"));
}
