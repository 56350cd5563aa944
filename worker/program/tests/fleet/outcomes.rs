//! Large outcomes: they move to the store, and are sent again from there.

use std::path::Path;

use thermae_backplane::record::Ended;
use thermae_backplane::registry::Registry as _;
use thermae_backplane::stored::{Follower, Wanted};
use thermae_schemas::{ErrorCode, Job, JobId, Outcome, Status, names};
use thermae_service::units::Millis;
use thermae_worker::Options;

use crate::harness::{Fleet, options, pool_name, python, within};

const STORED: &str = "thermae_worker_large_outcomes_total";

fn storing(folder: &Path) -> Options {
    let mut options = options();
    options.artifacts.store = Some(format!("file://{}", folder.display()));
    options
}

fn large() -> Job {
    python("print('x' * 100_000)")
}

async fn left_of(fleet: &Fleet, job: &Job) -> Ended {
    fleet.registry.lookup(&fleet.key(job)).await.unwrap().unwrap().ended().unwrap()
}

/// Waits until the registry says that the store has a job's outcome.
async fn until_stored(fleet: &Fleet, job: &Job) -> Wanted {
    let stored = async {
        loop {
            if let Some(wanted) = Wanted::new(&fleet.key(job), &left_of(fleet, job).await) {
                return wanted;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    within("the store", stored).await
}

/// Delivers a copy of a job that has ended. Its outcome is published again.
async fn again(fleet: &mut Fleet, job: &Job) -> Outcome {
    let copy = fleet.assign_again(job).await;
    fleet.bus.publish(copy).await.unwrap().wait().await.unwrap();
    fleet.outcome(job).await
}

fn json(outcome: &Outcome) -> String {
    serde_json::to_string(outcome).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_outcome_moves_to_the_store_and_is_told_from_there() {
    let folder = tempfile::tempdir().unwrap();
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(storing(folder.path())).await;
    let job = large();
    let first = fleet.run(&job).await;
    assert_eq!((first.status, first.stdout.len()), (Status::Succeeded, 100_001));
    let wanted = until_stored(&fleet, &job).await;
    let file = folder.path().join("acme/outcomes").join(&wanted.digest);
    assert!(file.metadata().unwrap().len() > 100_000);
    assert!(fleet.recorded(&job).await.is_none(), "the registry holds it no more");
    assert_eq!(json(&again(&mut fleet, &job).await), json(&first));
    let small = python("print(1)");
    fleet.run(&small).await;
    assert!(matches!(left_of(&fleet, &small).await, Ended::Outcome(_)));
    assert_eq!(worker.count(STORED, "stored"), 1.0);

    std::fs::remove_file(file).unwrap();
    let gone = again(&mut fleet, &job).await;
    assert_eq!((gone.status, gone.error.unwrap().code), (Status::Lost, ErrorCode::OutcomeExpired));
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_equal_job_is_answered_from_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(storing(folder.path())).await;
    let job = large();
    let first = fleet.run(&job).await;
    let wanted = until_stored(&fleet, &job).await;
    let second = Job { id: JobId::random(), ..job.clone() };
    let follower = Follower { job: second.id.clone(), pool: pool_name(), digest: "d".into() };
    let request = Wanted { follower: Some(follower), ..wanted };
    for _ in 0..2 {
        let key = names::reply_key(&fleet.tenant, &fleet.client);
        fleet.bus.publish(request.message(key, None)).await.unwrap().wait().await.unwrap();
        let told = fleet.outcome(&second).await;
        assert_eq!((told.duplicate_of.as_deref(), &told.stdout), (Some(job.id.as_str()), &first.stdout));
        // It is as large as the first one, so it is stored, too.
        until_stored(&fleet, &second).await;
    }
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_fails_costs_no_outcome() {
    let folder = tempfile::tempdir().unwrap();
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(storing(folder.path())).await;
    std::fs::create_dir(folder.path().join("acme")).unwrap();
    let in_the_way = folder.path().join("acme/outcomes");
    std::fs::write(&in_the_way, "").unwrap();
    let job = large();
    let first = fleet.run(&job).await;
    assert!(matches!(left_of(&fleet, &job).await, Ended::Outcome(_)), "the registry keeps it until the store has it");
    assert_eq!(json(&again(&mut fleet, &job).await), json(&first));
    std::fs::remove_file(&in_the_way).unwrap();
    until_stored(&fleet, &job).await;
    assert_eq!(json(&again(&mut fleet, &job).await), json(&first));
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_store_the_registry_keeps_it_for_as_long_as_its_pool_says() {
    let mut fleet = Fleet::new().await;
    let mut options = options();
    options.outcome_ttl = Millis::from_millis(0);
    options.pools.get_mut(&pool_name()).unwrap().outcome_ttl = Some(Millis::from_secs(3600));
    let worker = fleet.worker(options).await;
    let job = large();
    let first = fleet.run(&job).await;
    assert!(matches!(left_of(&fleet, &job).await, Ended::Outcome(_)), "its pool's time counts");
    assert_eq!(json(&again(&mut fleet, &job).await), json(&first));
    assert_eq!(worker.count(STORED, ""), 0.0);
    worker.end().await;
}
