//! How long outcomes, records and idempotency keys are kept.

use thermae_backplane::record::{EndUnstarted, Ended, Finish, Resolve, Start, Tombstone};
use thermae_backplane::registry::{Admitted, Budget, SharedRegistry};
use thermae_schemas::{JobId, Status};

use super::super::{admit, attempt, claim, end_unstarted, finish, job, resolve, shelve, start, tenant};
use super::BRIEF;
use crate::support::until;

/// Runs a job to its end.
async fn run(registry: &SharedRegistry, name: &str, end: &thermae_backplane::registry::FinishRequest) {
    let epoch = registry.epoch().await.unwrap();
    registry.admit(&admit(name)).await.unwrap();
    assert_eq!(registry.start(&start(name, claim(1, "w", "n"), &epoch)).await.unwrap(), Start::Go);
    assert_eq!(registry.finish(end).await.unwrap(), Finish::Won);
}

pub(super) async fn left_of(registry: &SharedRegistry, name: &str) -> Ended {
    registry.lookup(&job(name)).await.unwrap().unwrap().ended().unwrap()
}

pub async fn an_outcome_shrinks_to_a_tombstone_that_is_never_run_again(registry: SharedRegistry) {
    let mut end = finish("a", claim(1, "w", "n"), "done");
    end.keep.outcome = BRIEF;
    run(&registry, "a", &end).await;
    until("its outcome's end", || async { matches!(left_of(&registry, "a").await, Ended::Tombstone(_)) }).await;
    let left = left_of(&registry, "a").await;
    assert!(matches!(&left, Ended::Tombstone(Tombstone { status: Status::Succeeded, at }) if *at > 0), "{left:?}");
    let epoch = registry.epoch().await.unwrap();
    assert_eq!(registry.admit(&admit("a")).await.unwrap(), Admitted::Terminal(left.clone()));
    let copy = registry.start(&start("a", claim(1, "v", "o"), &epoch)).await.unwrap();
    assert_eq!(copy, Start::Terminal(left.clone()));
    assert_eq!(registry.resolve(&resolve("a", 1, 3)).await.unwrap(), Resolve::Terminal(left.clone()));
    assert_eq!(
        registry.end_unstarted(&end_unstarted("a", "cancelled")).await.unwrap(),
        EndUnstarted::Terminal(left.clone())
    );
    let other = registry.finish(&finish("a", claim(1, "v", "o"), "other")).await.unwrap();
    assert_eq!(other, Finish::Terminal(left));
    assert_eq!(registry.finish(&end).await.unwrap(), Finish::Won, "whoever won still holds the outcome");
}

pub async fn an_outcome_beyond_the_budget_is_a_tombstone_at_once(registry: SharedRegistry) {
    // Half of the budget is enough for two outcomes of one tenant, and for three of all tenants.
    let outcome = "x".repeat(300);
    let kept = async |name: &str, tenant_name: &str| {
        let mut end = end_unstarted(name, &outcome);
        end.job.tenant = tenant(tenant_name);
        end.keep.budget = Budget { tenant: 2200, all: 3200 };
        assert_eq!(registry.end_unstarted(&end).await.unwrap(), EndUnstarted::Won);
        let left = registry.lookup(&end.job).await.unwrap().unwrap().ended().unwrap();
        matches!(left, Ended::Outcome(_))
    };
    assert!(kept("a", "acme").await && kept("b", "acme").await);
    assert!(!kept("c", "acme").await, "the tenant's part is used up");
    assert!(kept("a", "globex").await, "another tenant has its own");
    assert!(!kept("a", "initech").await, "the whole is used up");
}

pub async fn an_outcome_in_the_store_is_named_for_as_long_as_it_would_have_been_kept(registry: SharedRegistry) {
    let large = "x".repeat(1000);
    let end = |name: &str| {
        let mut end = finish(name, claim(1, "w", "n"), &large);
        end.keep.budget = Budget { tenant: 2 * 1200, all: 2 * 1200 };
        end
    };
    assert!(!registry.shelve(&shelve("a", &large)).await.unwrap(), "it has not ended");
    run(&registry, "a", &end("a")).await;
    assert!(registry.usage().await.unwrap().outcomes >= 1200);
    run(&registry, "b", &end("b")).await;
    assert!(matches!(left_of(&registry, "b").await, Ended::Tombstone(_)), "the budget is used up");
    assert!(!registry.shelve(&shelve("a", "another")).await.unwrap());
    for _ in 0..2 {
        assert!(registry.shelve(&shelve("a", &large)).await.unwrap());
        let Ended::Stored { digest, tombstone } = left_of(&registry, "a").await else { panic!("it is not named") };
        assert_eq!((digest, tombstone.status), (shelve("a", &large).digest, Status::Succeeded));
    }
    assert_eq!(registry.usage().await.unwrap().outcomes, 0, "the budget has it back, once");
    let left = left_of(&registry, "a").await;
    assert_eq!(registry.admit(&admit("a")).await.unwrap(), Admitted::Terminal(left.clone()));
    assert_eq!(registry.resolve(&resolve("a", 1, 3)).await.unwrap(), Resolve::Terminal(left.clone()));
    assert_eq!(registry.end_unstarted(&end_unstarted("a", "cancelled")).await.unwrap(), EndUnstarted::Terminal(left));
    assert_eq!(registry.finish(&end("a")).await.unwrap(), Finish::Won);
    run(&registry, "c", &end("c")).await;
    assert!(matches!(left_of(&registry, "c").await, Ended::Outcome(_)), "another one has its place");
    // An outcome that the budget refused can be in the store, too.
    assert!(registry.shelve(&shelve("b", &large)).await.unwrap());
    let mut brief = shelve("b", &large);
    brief.keep.outcome = BRIEF;
    registry.shelve(&brief).await.unwrap();
    until("its end", || async { matches!(left_of(&registry, "b").await, Ended::Tombstone(_)) }).await;
    assert!(!registry.shelve(&brief).await.unwrap(), "its time is over");
}

pub async fn an_idempotency_key_names_one_job(registry: SharedRegistry) {
    let with_key = |name: &str, digest: &str| {
        let mut request = admit(name);
        request.idempotency_key = Some("key".to_owned());
        request.digest = digest.to_owned();
        request
    };
    assert_eq!(attempt(&registry.admit(&with_key("a", "d")).await.unwrap()), Some(1));
    assert_eq!(attempt(&registry.admit(&with_key("a", "d")).await.unwrap()), Some(1));
    let first = JobId::new("a").unwrap();
    assert_eq!(registry.admit(&with_key("b", "d")).await.unwrap(), Admitted::DuplicateOf(first.clone()));
    assert_eq!(registry.admit(&with_key("c", "other")).await.unwrap(), Admitted::IdempotencyConflict(first));
    let mut elsewhere = with_key("b", "d");
    elsewhere.job.tenant = tenant("globex");
    assert_eq!(attempt(&registry.admit(&elsewhere).await.unwrap()), Some(1));
}

pub async fn an_idempotency_key_is_free_once_its_job_is_forgotten(registry: SharedRegistry) {
    let with_key = |name: &str| {
        let mut request = admit(name);
        request.idempotency_key = Some("key".to_owned());
        request
    };
    registry.admit(&with_key("a")).await.unwrap();
    let mut ended = end_unstarted("a", "lost");
    ended.keep.record = BRIEF;
    registry.end_unstarted(&ended).await.unwrap();
    until("the record's end", || async { registry.lookup(&ended.job).await.unwrap().is_none() }).await;
    assert_eq!(attempt(&registry.admit(&with_key("b")).await.unwrap()), Some(1));
    assert_eq!(registry.admit(&with_key("c")).await.unwrap(), Admitted::DuplicateOf(JobId::new("b").unwrap()));
}

pub async fn records_are_forgotten_after_their_time(registry: SharedRegistry) {
    let epoch = registry.epoch().await.unwrap();
    let mut request = admit("a");
    request.ttl = BRIEF;
    request.idempotency_key = Some("key".to_owned());
    registry.admit(&request).await.unwrap();
    // A change makes the record last longer.
    registry.start(&start("a", claim(1, "w", "n"), &epoch)).await.unwrap();
    // So does a resolve that hands the job out again, which counts like a new job.
    let mut again = admit("d");
    again.ttl = BRIEF;
    registry.admit(&again).await.unwrap();
    assert_eq!(registry.resolve(&resolve("d", 1, 1)).await.unwrap(), Resolve::Reassign(1));
    // A record with the same short time, made later and not changed, is forgotten.
    let mut other = admit("c");
    other.ttl = BRIEF;
    registry.admit(&other).await.unwrap();
    until("the other's end", || async { registry.lookup(&job("c")).await.unwrap().is_none() }).await;
    for kept in ["a", "d"] {
        assert!(registry.lookup(&job(kept)).await.unwrap().is_some(), "{kept}");
    }
    let mut end = finish("a", claim(1, "w", "n"), "done");
    end.keep.record = BRIEF;
    registry.finish(&end).await.unwrap();
    until("its end", || async { registry.lookup(&job("a")).await.unwrap().is_none() }).await;
    request.job.job = JobId::new("b").unwrap();
    assert_eq!(attempt(&registry.admit(&request).await.unwrap()), Some(1), "its key is free again, too");
}
