//! Lanes: how many jobs they hold, and when they are deleted.

use std::time::Duration;

use thermae_scheduler::Options;
use thermae_schemas::{Class, ErrorCode};
use thermae_service::units::{ByteSize, Millis};

use crate::fleet::{Servers, depth, job, options, soon};

#[tokio::test]
async fn lanes_share_the_memory_for_what_waits() {
    let servers = Servers::new();
    let options = Options { lane_memory: ByteSize::mib(4), ..options() };
    let scheduler = servers.scheduler(options.clone()).await;
    let (acme, globex) = (servers.client("acme").await, servers.client("globex").await);
    for n in 0..10 {
        acme.submit(job(&format!("a{n}")), None).await.unwrap();
    }
    depth(&servers, "submit.acme.normal.default", |d| d == Some(6)).await;
    for n in 0..10 {
        globex.submit(job(&format!("g{n}")), None).await.unwrap();
    }
    depth(&servers, "submit.globex.normal.default", |d| d == Some(8)).await;
    scheduler.stop().await;
    // A scheduler that knows both lanes from the beginning.
    let next = servers.scheduler(options).await;
    for queue in ["submit.acme.normal.default", "submit.globex.normal.default"] {
        depth(&servers, queue, |d| d == Some(8)).await;
    }
    next.stop().await;
}

#[tokio::test]
async fn a_tenant_that_is_refused_too_much_waits_alone() {
    let servers = Servers::new();
    // With this option, it takes more than an hour to pay for a refusal. 16 seconds' worth are free.
    let options = Options { refused_bytes: ByteSize::bytes(1), max_job_bytes: ByteSize::kib(16), ..options() };
    let scheduler = servers.scheduler(options).await;
    let _order = servers.worker("w1", 4).await.work("").await;
    let (acme, globex) = (servers.client("acme").await, servers.client("globex").await);
    let first = acme.submit(job("first"), None).await.unwrap();
    soon(first.result()).await.unwrap();
    let mut handles = Vec::new();
    for n in 0..3 {
        let mut large = job(&format!("large{n}"));
        large.code = "x".repeat(20 << 10);
        handles.push(acme.submit(large, None).await.unwrap());
    }
    let code = soon(handles[0].result()).await.unwrap().error.unwrap().code;
    assert_eq!(code, ErrorCode::JobTooLarge);
    depth(&servers, "submit.acme.normal.default", |d| d == Some(2)).await;
    // A job of another class of the same tenant, and one of another tenant.
    let mut urgent = job("urgent");
    urgent.class = Class::High;
    let urgent = acme.submit(urgent, None).await.unwrap();
    soon(urgent.result()).await.unwrap();
    let other = globex.submit(job("other"), None).await.unwrap();
    soon(other.result()).await.unwrap();
    depth(&servers, "submit.acme.normal.default", |d| d == Some(2)).await;
    // The waiting jobs are there for the next scheduler, whose allowances are new.
    scheduler.stop().await;
    let options = Options { max_job_bytes: ByteSize::kib(16), ..crate::fleet::options() };
    let scheduler = servers.scheduler(options).await;
    for handle in &handles[1..] {
        assert_eq!(soon(handle.result()).await.unwrap().error.unwrap().code, ErrorCode::JobTooLarge);
    }
    scheduler.stop().await;
}

#[tokio::test]
async fn a_job_in_hand_stays_in_hand_while_its_lane_waits() {
    let servers = Servers::new();
    let options = Options { refused_bytes: ByteSize::bytes(1), max_job_bytes: ByteSize::kib(16), ..options() };
    let scheduler = servers.scheduler(options).await;
    let client = servers.client("acme").await;
    let early = client.submit(job("early"), None).await.unwrap();
    // The first job of a lane finds no queue, and so doesn't come through the lane.
    depth(&servers, "submit.acme.normal.default", |d| d.is_some()).await;
    let mut large = job("large");
    large.code = "x".repeat(20 << 10);
    let large = client.submit(large, None).await.unwrap();
    soon(large.result()).await.unwrap();
    let _late = client.submit(job("late"), None).await.unwrap();
    // The lane takes nothing for more than an hour. The job that it had taken waits for a worker.
    let mut order = servers.worker("w1", 1).await.work("ran\n").await;
    assert_eq!(soon(early.result()).await.unwrap().stdout, "ran\n");
    assert_eq!(soon(order.recv()).await.unwrap().1, "early");
    depth(&servers, "submit.acme.normal.default", |d| d == Some(1)).await;
    scheduler.stop().await;
    assert!(order.try_recv().is_err(), "nothing ran twice, and nothing was taken");
}

#[tokio::test]
async fn three_hundred_lanes_are_served_and_given_up_when_idle() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let _order = servers.worker("w1", 16).await.work("").await;
    let mut handles = Vec::new();
    let mut clients = Vec::new();
    for tenant in 0..100 {
        let client = servers.client(&format!("t{tenant}")).await;
        for class in thermae_schemas::Class::ALL {
            let mut job = job(class.as_str());
            job.class = class;
            handles.push(client.submit(job, None).await.unwrap());
        }
        clients.push(client);
    }
    for handle in &handles {
        soon(handle.result()).await.unwrap();
    }
    assert_eq!(scheduler.metric("thermae_scheduler_lanes", ""), 300.0);
    scheduler.stop().await;

    let options = Options { lane_idle: Millis::from_millis(100), ..options() };
    let scheduler = servers.scheduler(options.clone()).await;
    depth(&servers, "submit.t7.high.default", |d| d.is_none()).await;
    depth(&servers, "submit.t99.low.default", |d| d.is_none()).await;
    soon(async {
        while scheduler.metric("thermae_scheduler_lanes", "") > 0.0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    // The next job of a tenant makes its lane again.
    scheduler.stop().await;
    let scheduler = servers.scheduler(Options { lane_idle: Millis::from_secs(60), ..options }).await;
    let again = clients[7].submit(job("again"), None).await.unwrap();
    soon(again.result()).await.unwrap();
    scheduler.stop().await;
}

#[tokio::test]
async fn lanes_that_come_and_go_under_publishers_lose_nothing() {
    let servers = Servers::new();
    // So short that a lane is deleted whenever it is empty.
    let scheduler = servers.scheduler(Options { lane_idle: Millis::from_millis(1), ..options() }).await;
    let _order = servers.worker("w1", 16).await.work("").await;
    let mut tenants = tokio::task::JoinSet::new();
    for tenant in 0..20u64 {
        let client = servers.client(&format!("t{tenant}")).await;
        tenants.spawn(async move {
            for round in 0..4u64 {
                let handle = client.submit(job(&format!("{round}")), None).await.unwrap();
                soon(handle.result()).await.unwrap();
                // About a second, which is when the unbound lane is deleted.
                tokio::time::sleep(Duration::from_millis(980 + tenant * 2 + round)).await;
            }
        });
    }
    while let Some(done) = tenants.join_next().await {
        done.unwrap();
    }
    scheduler.stop().await;
}

#[tokio::test]
async fn outcomes_that_are_asked_for_again_and_again_are_at_the_tenants_expense() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(Options { refused_bytes: ByteSize::bytes(1), ..options() }).await;
    let _order = servers.worker("w1", 4).await.work("ran\n").await;
    let (acme, globex) = (servers.client("acme").await, servers.client("globex").await);
    let first = acme.submit(job("first"), None).await.unwrap();
    assert_eq!(soon(first.result()).await.unwrap().stdout, "ran\n");
    // This costs more than an hour's worth. The next job is still taken, and the lane waits after it.
    let again = servers.client("acme").await;
    assert_eq!(soon(again.submit(job("first"), None).await.unwrap().result()).await.unwrap().stdout, "ran\n");
    let next = acme.submit(job("next"), None).await.unwrap();
    assert_eq!(soon(next.result()).await.unwrap().stdout, "ran\n");
    let _last = acme.submit(job("last"), None).await.unwrap();
    depth(&servers, "submit.acme.normal.default", |d| d == Some(1)).await;
    let other = globex.submit(job("other"), None).await.unwrap();
    assert_eq!(soon(other.result()).await.unwrap().stdout, "ran\n");
    assert_eq!(servers.bus.queue_depth("submit.acme.normal.default").await.unwrap(), Some(1), "it waits on");
    scheduler.stop().await;
}
