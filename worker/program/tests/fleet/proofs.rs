//! A container is proven clean after each job. One that is not clean is removed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use thermae_schemas::{Status, TenantName};
use thermae_worker::{Options, Reuse};

use crate::fake::{Fake, Script};
use crate::harness::{Fleet, Worker, options, pool_name, python, within};

const VERIFIED: &str = "thermae_worker_containers_verified_total";
const QUARANTINED: &str = "thermae_worker_containers_quarantined_total";

/// One slot and one container.
fn one(reuse: Reuse) -> Options {
    let mut options = options();
    let pool = options.pools.get_mut(&pool_name()).unwrap();
    (pool.slots, pool.warm, pool.reuse) = (Some(1), Some(1), reuse);
    options
}

async fn start(fleet: &Fleet, options: Options, script: &Arc<Script>) -> Worker {
    fleet.start(options, fleet.registry.clone(), Some(Arc::new(Fake(Arc::clone(script))))).await
}

/// Waits until a counter has at least this value.
async fn until_count(worker: &Worker, name: &str, label: &str, count: f64) {
    let reached = async {
        while worker.count(name, label) < count {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    within("a counter", reached).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_a_job_has_littered_goes_and_the_next_job_runs_in_another() {
    for reuse in [Reuse::Tenant, Reuse::Shared] {
        let mut fleet = Fleet::new().await;
        let script = Script::new();
        let worker = start(&fleet, one(reuse), &script).await;
        assert_eq!(fleet.run(&python("litter")).await.status, Status::Succeeded, "the job itself did nothing wrong");
        until_count(&worker, QUARANTINED, "", 1.0).await;
        // The container may be removed before its finding is counted.
        until_count(&worker, VERIFIED, "unclean", 1.0).await;
        assert_eq!(fleet.run(&python("print on")).await.stdout, "on");
        until_count(&worker, VERIFIED, "clean", 1.0).await;
        worker.end().await;
        assert_eq!(script.destroyed.load(Ordering::SeqCst), script.made.load(Ordering::SeqCst));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_tenants_job_waits_for_the_proof() {
    let mut fleet = Fleet::new().await;
    let script = Script::new();
    let worker = start(&fleet, one(Reuse::Shared), &script).await;
    script.proofs_held.send_replace(true);
    assert_eq!(fleet.run(&python("print first")).await.stdout, "first");
    let other = python("print other");
    fleet.submit_as(&TenantName::new("globex").unwrap(), &other).await;
    assert!(tokio::time::timeout(Duration::from_millis(150), fleet.outcome(&other)).await.is_err());
    assert_eq!(script.starts("print other"), 0, "the container is not proven clean");
    script.proofs_held.send_replace(false);
    assert_eq!(fleet.outcome(&other).await.stdout, "other");
    worker.end().await;
    assert_eq!(script.made.load(Ordering::SeqCst), 1, "it was the same container");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_tenants_next_job_does_not() {
    let mut fleet = Fleet::new().await;
    let script = Script::new();
    let worker = start(&fleet, one(Reuse::Tenant), &script).await;
    script.proofs_held.send_replace(true);
    for text in ["one", "two", "three"] {
        assert_eq!(fleet.run(&python(&format!("print {text}"))).await.stdout, text);
    }
    assert_eq!(worker.count(VERIFIED, "clean"), 0.0);
    script.proofs_held.send_replace(false);
    until_count(&worker, VERIFIED, "clean", 1.0).await;
    // The tenant's own, and one for any tenant.
    until_count(&worker, "thermae_worker_containers", "idle", 2.0).await;
    worker.end().await;
    assert_eq!(script.made.load(Ordering::SeqCst), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_container_proves_itself_clean() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    assert_eq!(
        fleet.run(&python("import os\nif os.fork() == 0: os.setsid(); __import__('time').sleep(99)")).await.status,
        Status::Succeeded
    );
    until_count(&worker, VERIFIED, "clean", 1.0).await;
    assert_eq!(worker.count(VERIFIED, "unclean") + worker.count(QUARANTINED, ""), 0.0);
    worker.end().await;
}
