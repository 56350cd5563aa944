//! Credit that jobs took in hand-outs that then failed. If such jobs have all of a pool's credit, or all that their
//! tenant may have, only their own second hand-outs can go on.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use thermae_backplane::bus::Message;
use thermae_backplane::registry::Registry;
use thermae_scheduler::{Options, TenantOptions};
use thermae_schemas::{Class, names};
use thermae_service::units::Millis;

use crate::faulty::Faulty;
use crate::faulty_bus::FaultyBus;
use crate::fleet::{Servers, depth, job, options, pool, soon, tenant};

/// Jobs of each test.
const JOBS: u32 = 6;

/// Runs jobs on servers that let the first two hand-outs fail.
async fn all_run(options: Options, servers: &Servers) {
    let client = servers.client("acme").await;
    let scheduler = servers.scheduler(options).await;
    let mut handles = Vec::new();
    for n in 0..JOBS {
        handles.push(client.submit(job(&n.to_string()), None).await.unwrap());
    }
    depth(servers, "submit.acme.normal.default", |d| d == Some(0)).await;
    // One slot: the pool's credit is 2.
    let worker = servers.worker("w1", 1).await;
    let mut order = worker.work("").await;
    for handle in &handles {
        soon(handle.result()).await.unwrap();
    }
    let mut ran: Vec<String> = std::iter::from_fn(|| order.try_recv().ok()).map(|(_, id)| id).collect();
    ran.sort();
    assert_eq!(ran, (0..JOBS).map(|n| n.to_string()).collect::<Vec<_>>());
    scheduler.stop().await;
}

/// A tenant that may have only two jobs handed out.
fn bounded() -> Options {
    let mut options = options();
    options.tenants.insert(tenant("acme"), TenantOptions { weight: 1, max_in_flight: Some(2) });
    options
}

#[tokio::test]
async fn jobs_that_were_not_published_use_the_credit_that_they_have() {
    for options in [options(), Options { credit_factor: 100.0, ..bounded() }] {
        let servers = Servers::new();
        let bus = Arc::new(FaultyBus::new(&servers).await);
        bus.unsent.store(2, Ordering::SeqCst);
        all_run(options, &bus.in_place_of(&servers)).await;
        assert_eq!(bus.unsent.load(Ordering::SeqCst), 0);
    }
}

#[tokio::test]
async fn jobs_whose_admission_was_not_answered_use_the_credit_that_they_have() {
    for options in [options(), Options { credit_factor: 100.0, ..bounded() }] {
        let registry = Arc::new(Faulty::default());
        registry.unanswered.store(2, Ordering::SeqCst);
        all_run(options, &Servers::on(registry.clone())).await;
        assert_eq!(registry.unanswered.load(Ordering::SeqCst), 0);
    }
}

#[tokio::test]
async fn the_next_scheduler_hands_out_what_the_last_one_admitted() {
    let registry = Arc::new(Faulty::default());
    let servers = Servers::on(registry.clone());
    let client = servers.client("acme").await;
    let mut order = servers.worker("w1", 1).await.work("").await;
    // It counts the pool's credit once, before there are jobs. Then it hands out two, though the first gets no answer.
    let first = servers.scheduler(Options { tick: Millis::from_millis(3_600_000), ..options() }).await;
    soon(first.health.wait_ready()).await;
    // The scheduler is killed before it learns that its jobs were admitted.
    registry.unanswered.store(u32::MAX, Ordering::SeqCst);
    let mut handles = Vec::new();
    for n in 0..JOBS {
        handles.push(client.submit(job(&n.to_string()), None).await.unwrap());
    }
    soon(async {
        while registry.credit_used(&pool()).await.unwrap() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    first.kill().await;
    registry.unanswered.store(0, Ordering::SeqCst);
    let second = servers.scheduler(options()).await;
    for handle in &handles {
        soon(handle.result()).await.unwrap();
    }
    let ran = std::iter::from_fn(|| order.try_recv().ok()).count();
    assert_eq!(ran, JOBS as usize);
    second.stop().await;
}

#[tokio::test]
async fn a_job_that_only_seems_to_have_credit_overtakes_nobody() {
    let registry = Arc::new(Faulty::default());
    let servers = Servers::on(registry.clone());
    let (scheduler, client) = (servers.scheduler(options()).await, servers.client("acme").await);
    let worker = servers.worker("w1", 1).await;
    let mut jobs = worker.take().await;
    let mut taken = Vec::new();
    for id in ["a", "b"] {
        client.submit(job(id), None).await.unwrap();
        taken.push(soon(jobs.recv()).await.unwrap());
    }
    // The credit is used up: "first" waits. "second" says that it was sent before, so the registry is asked about it.
    let gate = registry.gate.lock().await;
    let asked = registry.asked.load(Ordering::SeqCst);
    client.submit(job("first"), None).await.unwrap();
    let second = job("second");
    let mut message = Message {
        exchange: names::SUBMIT.to_owned(),
        key: names::submit_key(&tenant("acme"), Class::Normal, &pool()),
        body: serde_json::to_vec(&second).unwrap().into(),
        message_id: Some(second.id.to_string()),
        mandatory: true,
        persistent: true,
        ..Message::default()
    };
    message.headers.set_flag(names::H_RESEND, true);
    message.sign(servers.bus.as_ref(), &tenant("acme"));
    servers.bus.publish(message).await.unwrap().wait().await.unwrap();
    soon(async {
        while registry.asked.load(Ordering::SeqCst) == asked {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    // Credit comes back before the registry has answered.
    worker.start(&taken[0]).await;
    worker.finish(&taken[0], "").await;
    drop(gate);
    assert_eq!(soon(jobs.recv()).await.unwrap().id(), "first");
    worker.start(&taken[1]).await;
    worker.finish(&taken[1], "").await;
    assert_eq!(soon(jobs.recv()).await.unwrap().id(), "second");
    scheduler.stop().await;
}
