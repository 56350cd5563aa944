//! Sessions: where they are placed, and whether their jobs keep their order.

use std::collections::HashSet;

use thermae_backplane::record::Start;
use thermae_schemas::{Job, SessionName, SessionRequest, names};

use crate::fleet::{Servers, depth, job, options, soon};

fn in_session(id: &str, session: &str) -> Job {
    let mut job = job(id);
    job.session = Some(SessionRequest::new(SessionName::new(session).unwrap()));
    job
}

#[tokio::test]
async fn a_sessions_jobs_go_to_its_worker_in_order_and_the_first_makes_it() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let (a, b) = (servers.worker("a", 4).await, servers.worker("b", 4).await);
    let client = servers.client("acme").await;
    for n in 0..6 {
        client.submit(in_session(&n.to_string(), "s"), None).await.unwrap();
    }
    let (mut at_a, mut at_b) = (a.take().await, b.take().await);
    let mut workers = HashSet::new();
    for n in 0..6 {
        let (name, job) = tokio::select! {
            job = soon(at_a.recv()) => ("a", job.unwrap()),
            job = soon(at_b.recv()) => ("b", job.unwrap()),
        };
        assert_eq!(job.id(), n.to_string());
        assert_eq!(job.delivery.message.headers.flag(names::H_SESSION_CREATE), n == 0, "job {n}");
        workers.insert(name);
    }
    assert_eq!(workers.len(), 1, "one worker holds the session");
    scheduler.stop().await;
}

#[tokio::test]
async fn sessions_spread_over_the_workers() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let (a, b) = (servers.worker("a", 8).await, servers.worker("b", 8).await);
    let client = servers.client("acme").await;
    for n in 0..8 {
        client.submit(in_session(&format!("j{n}"), &format!("s{n}")), None).await.unwrap();
    }
    for worker in [&a, &b] {
        depth(&servers, &names::worker_queue(&worker.id), |d| d == Some(4)).await;
    }
    scheduler.stop().await;
}

#[tokio::test]
async fn a_session_without_a_place_waits_and_holds_up_no_other_job() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let mut worker = servers.worker("w", 8).await;
    worker.max_sessions = 0;
    worker.beat(thermae_schemas::WorkerState::Ready, crate::fleet::LONG).await;
    let client = servers.client("acme").await;
    client.submit(in_session("waits", "s"), None).await.unwrap();
    client.submit(job("plain"), None).await.unwrap();
    let mut jobs = worker.take().await;
    let plain = soon(jobs.recv()).await.unwrap();
    assert_eq!(plain.id(), "plain");
    assert_eq!(worker.start(&plain).await, Start::Go);
    worker.max_sessions = 1;
    worker.beat(thermae_schemas::WorkerState::Ready, crate::fleet::LONG).await;
    assert_eq!(soon(jobs.recv()).await.unwrap().id(), "waits");
    assert_eq!(servers.bus.queue_depth(names::RESOLVE_QUEUE).await.unwrap(), Some(0));
    scheduler.stop().await;
}

#[tokio::test]
async fn a_new_session_goes_to_a_full_worker_rather_than_nowhere() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let (mut full, mut gives) = (servers.worker("a-full", 8).await, servers.worker("b-gives", 8).await);
    let client = servers.client("acme").await;
    for (worker, evictable) in [(&mut full, false), (&mut gives, true)] {
        worker.max_sessions = 1;
        worker.sessions = vec![thermae_schemas::SessionHeld {
            tenant: thermae_schemas::TenantName::new("acme").unwrap(),
            session: SessionName::new(format!("of-{}", worker.id)).unwrap(),
            pool: thermae_schemas::PoolName::new("default").unwrap(),
            expires_in_ms: 1000,
            evictable,
        }];
        worker.beat(thermae_schemas::WorkerState::Ready, crate::fleet::LONG).await;
    }
    // The view of the fleet has both when the tenant sees both sessions.
    soon(async { while client.sessions(crate::fleet::LONG).await.unwrap().len() < 2 {} }).await;
    client.submit(in_session("j0", "new"), None).await.unwrap();
    depth(&servers, &names::worker_queue(&gives.id), |d| d == Some(1)).await;
    // If none can make room, the worker says so at once. The job does not wait for a place.
    gives.sessions[0].evictable = false;
    gives.beat(thermae_schemas::WorkerState::Ready, crate::fleet::LONG).await;
    for n in 1..4 {
        client.submit(in_session(&format!("j{n}"), &format!("new-{n}")), None).await.unwrap();
    }
    soon(async {
        let mut waiting = 0;
        while waiting < 4 {
            waiting = 0;
            for worker in [&full, &gives] {
                let queue = names::worker_queue(&worker.id);
                waiting += servers.bus.queue_depth(&queue).await.unwrap().unwrap_or(0);
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    scheduler.stop().await;
}

#[tokio::test]
async fn a_tenant_hears_of_its_own_sessions_only() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let mut worker = servers.worker("w", 4).await;
    let held = |tenant: &str, session: &str| thermae_schemas::SessionHeld {
        tenant: thermae_schemas::TenantName::new(tenant).unwrap(),
        session: SessionName::new(session).unwrap(),
        pool: thermae_schemas::PoolName::new("default").unwrap(),
        expires_in_ms: 1000,
        evictable: false,
    };
    worker.sessions = vec![held("acme", "b"), held("globex", "other"), held("acme", "a")];
    worker.beat(thermae_schemas::WorkerState::Ready, crate::fleet::LONG).await;
    let client = servers.client("acme").await;
    // The view of the fleet may be from before the last heartbeat.
    let found = soon(async {
        loop {
            let found = client.sessions(crate::fleet::LONG).await.unwrap();
            if !found.is_empty() {
                return found;
            }
        }
    })
    .await;
    let names: Vec<_> = found.iter().map(|s| s.id.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!((found[0].worker.clone(), found[0].expires_in_ms), (worker.id.clone(), 1000));
    scheduler.stop().await;
}

#[tokio::test]
async fn new_sessions_avoid_a_worker_whose_queue_is_gone() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let (back, other) = (servers.worker("a-back", 8).await, servers.worker("b-other", 8).await);
    // The worker was away for so long that its queue was deleted. It sends heartbeats again, but its queue isn't there
    // yet.
    servers.bus.delete_queue(&names::worker_queue(&back.id)).await.unwrap();
    let client = servers.client("acme").await;
    for n in 0..8 {
        client.submit(in_session(&format!("j{n}"), &format!("s{n}")), None).await.unwrap();
    }
    depth(&servers, &names::worker_queue(&other.id), |d| d.is_some_and(|waiting| waiting >= 4)).await;
    // One session was placed on that worker and waits for its queue. No other session does.
    thermae_backplane::declare_worker(&*servers.bus, &back.id).await.unwrap();
    let mut jobs = back.take().await;
    soon(jobs.recv()).await.unwrap();
    scheduler.stop().await;
}
