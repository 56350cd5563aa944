//! Shares of tenants, credit, limits and backlogs.

use std::collections::HashMap;

use thermae_backplane::record::Start;
use thermae_scheduler::{Options, TenantOptions};
use thermae_schemas::Class;
use thermae_service::units::Millis;

use crate::fleet::{self, Servers, depth, job, pool, soon, tenant};

/// Options of a scheduler that leads as long as its test lasts: the next one wouldn't know which tenants use a pool.
fn options() -> Options {
    Options { lead_ttl: Millis::from_secs(60), ..fleet::options() }
}

#[tokio::test]
async fn a_busy_pool_is_shared_one_to_three() {
    // A single slot can't be left to another tenant. Of four slots, each tenant leaves some.
    for slots in [1, 4] {
        let servers = Servers::new();
        let mut options = options();
        options.tenants.insert(tenant("large"), TenantOptions { weight: 3, max_in_flight: None });
        let scheduler = servers.scheduler(options).await;
        let (small, large) = (servers.client("small").await, servers.client("large").await);
        for n in 0..80 {
            small.submit(job(&format!("s{n}")), None).await.unwrap();
            large.submit(job(&format!("l{n}")), None).await.unwrap();
        }
        for lane in ["submit.small.normal.default", "submit.large.normal.default"] {
            depth(&servers, lane, |d| d == Some(80 - 32)).await;
        }
        let mut order = servers.worker("w1", slots).await.work("").await;
        let mut counts: HashMap<String, usize> = HashMap::new();
        for _ in 0..80 {
            let (tenant, _) = soon(order.recv()).await.unwrap();
            *counts.entry(tenant.to_string()).or_default() += 1;
        }
        assert!((58..=62).contains(&counts["large"]), "{slots} slots: {counts:?}");
        scheduler.stop().await;
    }
}

#[tokio::test]
async fn urgent_jobs_go_before_the_others_of_their_tenant() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let client = servers.client("acme").await;
    for (n, class) in [(0, Class::Low), (1, Class::Low), (2, Class::Normal), (3, Class::High)] {
        let mut job = job(&n.to_string());
        job.class = class;
        client.submit(job, None).await.unwrap();
    }
    for class in Class::ALL {
        depth(&servers, &format!("submit.acme.{}.default", class.as_str()), |d| d == Some(0)).await;
    }
    let mut order = servers.worker("w1", 1).await.work("").await;
    for wanted in ["3", "2", "0", "1"] {
        assert_eq!(soon(order.recv()).await.unwrap().1, wanted);
    }
    scheduler.stop().await;
}

#[tokio::test]
async fn credit_is_never_exceeded_and_never_lost() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let worker = servers.worker("w1", 3).await;
    let client = servers.client("acme").await;
    let mut handles = Vec::new();
    for n in 0..60 {
        handles.push(client.submit(job(&n.to_string()), None).await.unwrap());
    }
    let mut jobs = worker.take().await;
    for _ in 0..60 {
        let assigned = soon(jobs.recv()).await.unwrap();
        // Three slots, with a credit factor of two.
        assert!(servers.registry.credit_used(&pool()).await.unwrap() <= 6);
        assert!(jobs.len() < 6, "{} more are in the worker's hands", jobs.len());
        assert_eq!(worker.start(&assigned).await, Start::Go);
        worker.finish(&assigned, "").await;
    }
    for handle in handles {
        soon(handle.result()).await.unwrap();
    }
    assert_eq!(servers.registry.credit_used(&pool()).await.unwrap(), 0);
    scheduler.stop().await;
}

#[tokio::test]
async fn a_bounded_tenant_holds_nobody_else_up() {
    let servers = Servers::new();
    let mut options = options();
    options.tenants.insert(tenant("bounded"), TenantOptions { weight: 100, max_in_flight: Some(2) });
    let scheduler = servers.scheduler(options).await;
    let worker = servers.worker("w1", 8).await;
    let (bounded, free) = (servers.client("bounded").await, servers.client("free").await);
    for n in 0..10 {
        bounded.submit(job(&format!("b{n}")), None).await.unwrap();
    }
    let mut jobs = worker.take().await;
    let held = [soon(jobs.recv()).await.unwrap(), soon(jobs.recv()).await.unwrap()];
    for n in 0..5 {
        free.submit(job(&format!("f{n}")), None).await.unwrap();
    }
    for _ in 0..5 {
        let next = soon(jobs.recv()).await.unwrap();
        assert_eq!(next.key.tenant, tenant("free"), "the bound was exceeded");
    }
    // When one job ends, the next one follows.
    for (at, job) in held.into_iter().enumerate() {
        worker.start(&job).await;
        worker.finish(&job, "").await;
        let next = soon(jobs.recv()).await.unwrap();
        assert_eq!(next.id(), format!("b{}", at + 2));
    }
    assert!(jobs.try_recv().is_err());
    scheduler.stop().await;
}

#[tokio::test]
async fn a_tenant_leaves_a_slot_to_the_others_of_its_pool() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let worker = servers.worker("w1", 4).await;
    let (greedy, light) = (servers.client("greedy").await, servers.client("light").await);
    let mut jobs = worker.take().await;
    light.submit(job("l0"), None).await.unwrap();
    let first = soon(jobs.recv()).await.unwrap();
    worker.start(&first).await;
    worker.finish(&first, "").await;
    for n in 0..10 {
        greedy.submit(job(&format!("g{n}")), None).await.unwrap();
    }
    // None of these jobs ends.
    for n in 0..3 {
        let next = soon(jobs.recv()).await.unwrap();
        assert_eq!(next.id(), format!("g{n}"));
        worker.start(&next).await;
    }
    for n in 1..20 {
        light.submit(job(&format!("l{n}")), None).await.unwrap();
        let next = soon(jobs.recv()).await.unwrap();
        assert_eq!(next.id(), format!("l{n}"), "the other tenant's jobs took the slot that was left");
        worker.start(&next).await;
        worker.finish(&next, "").await;
    }
    scheduler.stop().await;
}

#[tokio::test]
async fn a_backlog_stays_in_its_queue() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let client = servers.client("acme").await;
    let mut handles = Vec::new();
    for n in 0..10_000 {
        handles.push(client.submit(job(&n.to_string()), None).await.unwrap());
    }
    // All jobs except those in the window wait in RabbitMQ.
    depth(&servers, "submit.acme.normal.default", |d| d == Some(10_000 - 32)).await;
    assert_eq!(servers.bus.queue_depth("submit.unrouted").await.unwrap(), Some(0));
    let mut order = servers.worker("w1", 64).await.work("").await;
    for handle in handles {
        soon(handle.result()).await.unwrap();
    }
    let mut ran = 0;
    while order.try_recv().is_ok() {
        ran += 1;
    }
    assert_eq!(ran, 10_000);
    scheduler.stop().await;
}
