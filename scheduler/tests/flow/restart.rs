//! Schedulers that stop or are killed, and the ones that follow them.

use std::collections::HashSet;

use crate::fleet::{Servers, depth, job, options, soon};

async fn followed(kill: bool) {
    let servers = Servers::new();
    let mut scheduler = servers.scheduler(options()).await;
    let client = servers.client("acme").await;
    let mut order = servers.worker("w1", 2).await.work("").await;
    let mut handles = Vec::new();
    for n in 0..300 {
        handles.push(client.submit(job(&n.to_string()), None).await.unwrap());
        if n % 60 == 30 {
            let next = servers.scheduler(options()).await;
            if kill {
                scheduler.kill().await
            } else {
                scheduler.stop().await
            }
            scheduler = next;
        }
    }
    let mut ran = HashSet::new();
    for handle in handles {
        soon(handle.result()).await.unwrap();
    }
    while let Ok((_, id)) = order.try_recv() {
        assert!(ran.insert(id.clone()), "{id} ran twice");
    }
    assert_eq!(ran.len(), 300);
    scheduler.stop().await;
}

#[tokio::test]
async fn a_stopped_scheduler_leaves_nothing_undone() {
    followed(false).await;
}

#[tokio::test]
async fn a_killed_scheduler_loses_nothing_and_doubles_nothing() {
    followed(true).await;
}

#[tokio::test]
async fn the_next_scheduler_finds_the_backlog_of_tenants_that_it_never_met() {
    let servers = Servers::new();
    let first = servers.scheduler(options()).await;
    let client = servers.client("acme").await;
    let handle = client.submit(job("waits"), None).await.unwrap();
    depth(&servers, "submit.acme.normal.default", |d| d == Some(0)).await;
    first.kill().await;
    depth(&servers, "submit.acme.normal.default", |d| d == Some(1)).await;
    let second = servers.scheduler(options()).await;
    let _order = servers.worker("w1", 1).await.work("found\n").await;
    assert_eq!(soon(handle.result()).await.unwrap().stdout, "found\n");
    second.stop().await;
    assert_eq!(servers.bus.queue_depth("submit.lanes").await.unwrap(), Some(1), "one snapshot is all there is");
}

#[tokio::test]
async fn one_leads_and_the_other_is_ready_to() {
    let servers = Servers::new();
    let (a, b) = (servers.scheduler(options()).await, servers.scheduler(options()).await);
    soon(a.health.wait_ready()).await;
    soon(b.health.wait_ready()).await;
    let leads = |s: &crate::fleet::Scheduler| s.metric("thermae_scheduler_leader", "");
    assert_eq!(leads(&a) + leads(&b), 1.0);
    a.stop().await;
    b.stop().await;
}
