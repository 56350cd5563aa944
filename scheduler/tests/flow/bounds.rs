//! Limits that are reached: a tenant's jobs that wait for another job's outcome, and the registry's memory.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use thermae_schemas::ErrorCode;

use crate::faulty::Faulty;
use crate::fleet::{Servers, job, options, soon};

#[tokio::test]
async fn followers_of_one_tenant_hold_nobody_else_up() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let worker = servers.worker("w1", 8).await;
    let mut jobs = worker.take().await;
    let keyed = |id: String| {
        let mut job = job(&id);
        job.idempotency_key = Some("order".to_owned());
        job
    };
    let mut leaders = Vec::new();
    let (acme, globex) = (servers.client("acme").await, servers.client("globex").await);
    for client in [&acme, &globex] {
        let leader = client.submit(keyed("leader".to_owned()), None).await.unwrap();
        leaders.push((soon(jobs.recv()).await.unwrap(), leader));
    }
    let mut followers = tokio::task::JoinSet::new();
    for n in 0..65 {
        let handle = acme.submit(keyed(format!("f{n}")), None).await.unwrap();
        followers.spawn(async move { handle.result().await.unwrap() });
    }
    let refused = soon(followers.join_next()).await.unwrap().unwrap();
    assert_eq!(refused.error.unwrap().code, ErrorCode::QuotaExceeded, "64 may wait");
    // Meanwhile, another tenant's follower is answered.
    let other = globex.submit(keyed("other".to_owned()), None).await.unwrap();
    let (leader, _) = leaders.pop().unwrap();
    worker.start(&leader).await;
    worker.finish(&leader, "globex\n").await;
    assert_eq!(soon(other.result()).await.unwrap().stdout, "globex\n");
    let (leader, _) = leaders.pop().unwrap();
    worker.start(&leader).await;
    worker.finish(&leader, "acme\n").await;
    for _ in 0..64 {
        let outcome = soon(followers.join_next()).await.unwrap().unwrap();
        assert_eq!((outcome.stdout.as_str(), outcome.duplicate_of.as_deref()), ("acme\n", Some("leader")));
    }
    scheduler.stop().await;
}

#[tokio::test]
async fn a_full_registry_refuses_new_jobs() {
    let registry = Arc::new(Faulty::default());
    let servers = Servers::on(registry.clone());
    let scheduler = servers.scheduler(options()).await;
    let worker = servers.worker("w1", 1).await;
    let mut jobs = worker.take().await;
    let client = servers.client("acme").await;
    let before = client.submit(job("before"), None).await.unwrap();
    let before_it = soon(jobs.recv()).await.unwrap();
    registry.full.store(true, Ordering::SeqCst);
    let refused = client.submit(job("refused"), None).await.unwrap();
    let error = soon(refused.result()).await.unwrap().error.unwrap();
    assert_eq!((error.code, error.safe_to_retry), (ErrorCode::RegistryFull, true));
    worker.start(&before_it).await;
    worker.finish(&before_it, "ran\n").await;
    assert_eq!(soon(before.result()).await.unwrap().stdout, "ran\n", "what was admitted goes on");
    // A second copy of a job that is on its way has to wait, but no job behind it does.
    registry.full.store(false, Ordering::SeqCst);
    let waits = client.submit(job("waits"), None).await.unwrap();
    let waits_it = soon(jobs.recv()).await.unwrap();
    registry.full.store(true, Ordering::SeqCst);
    let twin = servers.client("acme").await;
    let _copy = twin.submit(job("waits"), None).await.unwrap();
    let asked = registry.asked.load(Ordering::SeqCst);
    soon(async {
        while registry.asked.load(Ordering::SeqCst) < asked + 7 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let globex = servers.client("globex").await;
    let other = globex.submit(job("refused"), None).await.unwrap();
    let refused = soon(other.result()).await.unwrap();
    assert_eq!(refused.error.unwrap().code, ErrorCode::RegistryFull);
    worker.start(&waits_it).await;
    worker.finish(&waits_it, "ran\n").await;
    assert_eq!(soon(waits.result()).await.unwrap().stdout, "ran\n");
    registry.full.store(false, Ordering::SeqCst);
    let after = client.submit(job("after"), None).await.unwrap();
    let after_it = soon(jobs.recv()).await.unwrap();
    worker.start(&after_it).await;
    worker.finish(&after_it, "too\n").await;
    assert_eq!(soon(after.result()).await.unwrap().stdout, "too\n");
    assert!(jobs.try_recv().is_err());
    scheduler.stop().await;
}
