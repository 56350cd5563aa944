//! A worker is ready when its warm containers are.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use thermae_backplane::registry::Registry;
use thermae_schemas::{Status, WorkerState, names};
use thermae_worker::Parts;

use crate::fake::{Fake, Script};
use crate::harness::{Fleet, Worker, options, pool_name, python, within};

/// A worker that should have three containers, and can make only two at first.
async fn half_made(fleet: &Fleet, script: &Arc<Script>, early: bool) -> Worker {
    let mut options = options();
    options.pools.get_mut(&pool_name()).unwrap().warm = Some(3);
    script.room.send_replace(2);
    let backend = Some(Arc::new(Fake(Arc::clone(script))) as Arc<_>);
    let worker = fleet.start_with(options, fleet.registry.clone(), Parts { backend, early, ..Parts::default() });
    // The third one is requested once one of the first two is ready.
    within("the third container", async {
        while script.made.load(Ordering::SeqCst) < 3 || worker.count("thermae_worker_containers", "idle") < 2.0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    worker
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_is_ready_and_takes_jobs_when_its_warm_containers_stand() {
    let mut fleet = Fleet::new().await;
    let script = Script::new();
    let worker = half_made(&fleet, &script, false).await;
    fleet.until_state(&worker.id, WorkerState::Starting).await;
    let known = fleet.registry.workers().await.unwrap();
    assert_eq!(known[0].pools[&pool_name()].slots, 0, "no capacity is announced");
    assert!(!worker.health.is_ready());
    assert!(worker.health.states()["pools"].detail.contains("first containers"));
    let job = python("print warm");
    fleet.submit(&job).await;
    assert_eq!(fleet.depth(&names::pool_queue(&pool_name(), 1)).await, 1, "nobody takes it yet");
    script.room.send_replace(0);
    within("readiness", worker.health.wait_ready()).await;
    assert_eq!(fleet.outcome(&job).await.stdout, "warm");
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_early_runs_jobs_before_it_is_ready() {
    let mut fleet = Fleet::new().await;
    let script = Script::new();
    let worker = half_made(&fleet, &script, true).await;
    assert_eq!(fleet.run(&python("print early")).await.stdout, "early");
    assert!(!worker.health.is_ready());
    script.room.send_replace(0);
    within("readiness", worker.health.wait_ready()).await;
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_can_make_no_more_containers_works_with_those_that_stand() {
    let mut fleet = Fleet::new().await;
    let script = Script::new();
    let worker = half_made(&fleet, &script, false).await;
    script.full.send_replace(true);
    script.room.send_replace(0);
    within("readiness", worker.health.wait_ready()).await;
    assert_eq!(fleet.run(&python("print few")).await.stdout, "few");
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_jobs_after_readiness_find_all_made_by_the_real_runner() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    let jobs: Vec<_> = (0..2).map(|n| python(&format!("print({n})"))).collect();
    for job in &jobs {
        fleet.submit(job).await;
    }
    for job in &jobs {
        assert_eq!(fleet.outcome(job).await.status, Status::Succeeded);
    }
    for warmth in ["thermae_worker_containers_acquired_total", "thermae_worker_sandboxes_total"] {
        assert_eq!((worker.count(warmth, "warm"), worker.count(warmth, "cold")), (2.0, 0.0), "{warmth}");
    }
    worker.end().await;
}
