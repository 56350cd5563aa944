//! What every registry does.

use std::time::Duration;

use bytes::Bytes;
use thermae_backplane::record::{Ended, Finish, Resolve, Settle, Start, Tombstone};
use thermae_backplane::registry::{
    Admit, Admitted, Budget, Gone, Notice, Repeat, SessionAdmit, SharedRegistry, Target,
};
use thermae_schemas::{IfGone, JobId, PoolName, Status, WorkerState};

use super::{
    TTL, admit, attempt, beat, claim, finish, held, job, pool, resolve, running, session, settle, shelve, start,
    tenant, worker,
};
use crate::support::{soon, until};

const BRIEF: Duration = Duration::from_millis(60);

pub async fn a_job_runs_once_and_its_outcome_stays(registry: SharedRegistry) {
    let epoch = registry.epoch().await.unwrap();
    let assigned = Admitted::Assigned { attempt: 1, epoch: epoch.clone(), to: Target::Pool, repeat: false };
    assert_eq!(registry.admit(&admit("a/1")).await.unwrap(), assigned);
    let mine = claim(1, "w", "n");
    assert_eq!(registry.start(&start("a/1", mine.clone(), &epoch)).await.unwrap(), Start::Go);
    let other = registry.start(&start("a/1", claim(1, "v", "o"), &epoch)).await.unwrap();
    assert_eq!(other, Start::Resolve);
    assert_eq!(registry.admit(&admit("a/1")).await.unwrap(), Admitted::UnderWay);
    let record = registry.lookup(&job("a/1")).await.unwrap().unwrap();
    assert_eq!((record.reply_key.as_deref(), record.correlation_id.as_deref()), (Some("acme.c"), Some("mark")));
    // Bytes that are no text come back as they were.
    let outcome = Bytes::from_static(b"\xff\x00result");
    let mut end = finish("a/1", mine, "");
    end.outcome = outcome.clone();
    assert_eq!(registry.finish(&end).await.unwrap(), Finish::Won);
    assert_eq!(
        registry.finish(&finish("a/1", claim(1, "v", "o"), "x")).await.unwrap(),
        Finish::Terminal(outcome.clone().into())
    );
    assert_eq!(registry.admit(&admit("a/1")).await.unwrap(), Admitted::Terminal(outcome.clone().into()));
    let late = registry.start(&start("a/1", claim(1, "v", "o"), &epoch)).await.unwrap();
    assert_eq!(late, Start::Terminal(outcome.clone().into()));
    assert_eq!(registry.resolve(&resolve("a/1", 1, 1)).await.unwrap(), Resolve::Terminal(outcome.clone().into()));
    assert_eq!(registry.settle(&settle("a/1", "x")).await.unwrap(), Settle::Terminal(outcome.clone().into()));
    let record = registry.lookup(&job("a/1")).await.unwrap().unwrap();
    assert_eq!(record.ended(), Some(outcome.into()));
    assert_eq!((record.reply_key, record.correlation_id), (None, None), "nobody asks for them any more");
    assert_eq!(registry.lookup(&job("none")).await.unwrap(), None);
}

pub async fn a_repeated_call_gets_the_same_answer(registry: SharedRegistry) {
    let epoch = registry.epoch().await.unwrap();
    let first = registry.admit(&admit("a")).await.unwrap();
    let again = registry.admit(&admit("a")).await.unwrap();
    assert_eq!((attempt(&first), attempt(&again)), (Some(1), Some(1)));
    assert!(matches!(again, Admitted::Assigned { repeat: true, .. }));
    for _ in 0..2 {
        assert_eq!(registry.start(&start("a", claim(1, "w", "n"), &epoch)).await.unwrap(), Start::Go);
    }
    for _ in 0..2 {
        assert_eq!(registry.finish(&finish("a", claim(1, "w", "n"), "done")).await.unwrap(), Finish::Won);
    }
    for _ in 0..2 {
        assert_eq!(registry.settle(&settle("b", "rejected")).await.unwrap(), Settle::Won);
    }
}

pub async fn a_copy_of_a_running_job_is_held_and_then_lost(registry: SharedRegistry) {
    let epoch = registry.epoch().await.unwrap();
    registry.admit(&admit("a")).await.unwrap();
    let mut begin = start("a", claim(1, "w", "n"), &epoch);
    begin.lease = BRIEF;
    registry.start(&begin).await.unwrap();
    let Resolve::Hold(wait) = registry.resolve(&resolve("a", 1, 1)).await.unwrap() else { panic!("not held") };
    assert!(wait <= BRIEF);
    tokio::time::sleep(wait + Duration::from_millis(5)).await;
    assert_eq!(registry.resolve(&resolve("a", 1, 1)).await.unwrap(), Resolve::Lost);
    assert_eq!(registry.credit_used(&pool()).await.unwrap(), 0);
    let late = registry.finish(&finish("a", claim(1, "w", "n"), "done")).await.unwrap();
    assert_eq!(late, Finish::Terminal(Bytes::from("lost").into()));
}

pub async fn a_job_that_may_run_again_is_assigned_anew(registry: SharedRegistry) {
    let epoch = registry.epoch().await.unwrap();
    let mut request = admit("a");
    request.max_attempts = 2;
    registry.admit(&request).await.unwrap();
    let mut begin = start("a", claim(1, "w", "n"), &epoch);
    begin.lease = Duration::from_millis(1);
    registry.start(&begin).await.unwrap();
    until("its lease to pass", || async {
        !matches!(registry.resolve(&resolve("a", 1, 2)).await.unwrap(), Resolve::Hold(_))
    })
    .await;
    for _ in 0..2 {
        assert_eq!(registry.resolve(&resolve("a", 1, 2)).await.unwrap(), Resolve::Reassign(2));
    }
    assert_eq!(registry.start(&start("a", claim(1, "v", "o"), &epoch)).await.unwrap(), Start::Stale);
    assert_eq!(registry.start(&start("a", claim(2, "v", "o"), &epoch)).await.unwrap(), Start::Go);
    assert_eq!(registry.resolve(&resolve("a", 1, 2)).await.unwrap(), Resolve::Stale);
    assert_eq!(registry.finish(&finish("a", claim(2, "v", "o"), "done")).await.unwrap(), Finish::Won);
}

pub async fn an_abandoned_attempt_is_decided_at_once(registry: SharedRegistry) {
    let epoch = registry.epoch().await.unwrap();
    registry.admit(&admit("a")).await.unwrap();
    registry.start(&start("a", claim(1, "w", "n"), &epoch)).await.unwrap();
    assert!(!registry.abandon(&job("a"), &claim(1, "w", "other")).await.unwrap());
    for _ in 0..2 {
        assert!(registry.abandon(&job("a"), &claim(1, "w", "n")).await.unwrap());
    }
    assert_eq!(registry.resolve(&resolve("a", 1, 1)).await.unwrap(), Resolve::Lost);
    assert!(!registry.abandon(&job("a"), &claim(1, "w", "n")).await.unwrap());
}

/// Runs a job to its end.
async fn run(registry: &SharedRegistry, name: &str, end: &thermae_backplane::registry::FinishRequest) {
    let epoch = registry.epoch().await.unwrap();
    registry.admit(&admit(name)).await.unwrap();
    assert_eq!(registry.start(&start(name, claim(1, "w", "n"), &epoch)).await.unwrap(), Start::Go);
    assert_eq!(registry.finish(end).await.unwrap(), Finish::Won);
}

async fn left_of(registry: &SharedRegistry, name: &str) -> Ended {
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
    assert_eq!(registry.settle(&settle("a", "cancelled")).await.unwrap(), Settle::Terminal(left.clone()));
    let other = registry.finish(&finish("a", claim(1, "v", "o"), "other")).await.unwrap();
    assert_eq!(other, Finish::Terminal(left));
    assert_eq!(registry.finish(&end).await.unwrap(), Finish::Won, "whoever won still holds the outcome");
}

pub async fn an_outcome_beyond_the_budget_is_a_tombstone_at_once(registry: SharedRegistry) {
    // Two of a tenant fit into half its budget, and three of all.
    let outcome = "x".repeat(300);
    let kept = async |name: &str, tenant_name: &str| {
        let mut end = settle(name, &outcome);
        end.job.tenant = tenant(tenant_name);
        end.keep.budget = Budget { tenant: 2200, all: 3200 };
        assert_eq!(registry.settle(&end).await.unwrap(), Settle::Won);
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
    assert_eq!(registry.settle(&settle("a", "cancelled")).await.unwrap(), Settle::Terminal(left));
    assert_eq!(registry.finish(&end("a")).await.unwrap(), Finish::Won);
    run(&registry, "c", &end("c")).await;
    assert!(matches!(left_of(&registry, "c").await, Ended::Outcome(_)), "another one has its place");
    // What the budget did not take can be kept there, too.
    assert!(registry.shelve(&shelve("b", &large)).await.unwrap());
    let mut brief = shelve("b", &large);
    brief.keep.outcome = BRIEF;
    registry.shelve(&brief).await.unwrap();
    until("its end", || async { matches!(left_of(&registry, "b").await, Ended::Tombstone(_)) }).await;
    assert!(!registry.shelve(&brief).await.unwrap(), "its time is over");
}

pub async fn what_runs_past_its_lease_is_told(registry: SharedRegistry) {
    let epoch = registry.epoch().await.unwrap();
    registry.admit(&admit("a")).await.unwrap();
    let mut begin = start("a", claim(1, "w", "n"), &epoch);
    begin.lease = Duration::ZERO;
    registry.start(&begin).await.unwrap();
    assert_eq!(registry.admit(&admit("a")).await.unwrap(), Admitted::Lapsed(1));
}

pub async fn a_cancel_of_a_running_job_is_remembered(registry: SharedRegistry) {
    let epoch = registry.epoch().await.unwrap();
    for (name, cancelled) in [("a", true), ("b", false)] {
        let mut request = admit(name);
        request.max_attempts = 3;
        registry.admit(&request).await.unwrap();
        registry.start(&start(name, claim(1, "w", "n"), &epoch)).await.unwrap();
        let mut end = settle(name, "ended");
        end.cancel = cancelled;
        assert!(matches!(registry.settle(&end).await.unwrap(), Settle::Started { attempt: 1, .. }));
        registry.abandon(&job(name), &claim(1, "w", "n")).await.unwrap();
        let decided = registry.resolve(&resolve(name, 1, 3)).await.unwrap();
        assert_eq!(decided, if cancelled { Resolve::Cancelled } else { Resolve::Reassign(2) });
    }
    assert_eq!(left_of(&registry, "a").await, Bytes::from("cancelled").into());
    assert_eq!(registry.credit_used(&pool()).await.unwrap(), 1);
}

pub async fn an_id_names_one_job(registry: SharedRegistry) {
    let with = |digest: &str| {
        let mut request = admit("a");
        request.digest = digest.to_owned();
        request
    };
    let mut other = settle("a", "rejected");
    other.digest = Some("another".to_owned());
    assert_eq!(attempt(&registry.admit(&with("one")).await.unwrap()), Some(1));
    assert_eq!(registry.admit(&with("another")).await.unwrap(), Admitted::IdConflict);
    assert_eq!(registry.settle(&other).await.unwrap(), Settle::Conflict);
    let epoch = registry.epoch().await.unwrap();
    registry.start(&start("a", claim(1, "w", "n"), &epoch)).await.unwrap();
    assert_eq!(registry.admit(&with("another")).await.unwrap(), Admitted::IdConflict);
    let mut end = finish("a", claim(1, "w", "n"), "done");
    end.keep.outcome = Duration::ZERO;
    registry.finish(&end).await.unwrap();
    assert_eq!(registry.admit(&with("another")).await.unwrap(), Admitted::IdConflict);
    assert_eq!(registry.settle(&other).await.unwrap(), Settle::Conflict);
    for same in ["one", ""] {
        assert!(matches!(registry.admit(&with(same)).await.unwrap(), Admitted::Terminal(_)));
    }
}

pub async fn a_superseded_attempt_does_not_count(registry: SharedRegistry) {
    let epoch = registry.epoch().await.unwrap();
    let mut request = admit("a");
    request.max_attempts = 3;
    registry.admit(&request).await.unwrap();
    registry.start(&start("a", claim(1, "w", "n"), &epoch)).await.unwrap();
    registry.abandon(&job("a"), &claim(1, "w", "n")).await.unwrap();
    assert_eq!(registry.resolve(&resolve("a", 1, 3)).await.unwrap(), Resolve::Reassign(2));
    assert_eq!(registry.finish(&finish("a", claim(1, "w", "n"), "late")).await.unwrap(), Finish::Superseded);
    registry.start(&start("a", claim(2, "v", "o"), &epoch)).await.unwrap();
    assert_eq!(registry.finish(&finish("a", claim(1, "w", "n"), "late")).await.unwrap(), Finish::Superseded);
    assert_eq!(registry.finish(&finish("a", claim(2, "v", "o"), "done")).await.unwrap(), Finish::Won);
}

pub async fn a_job_that_has_not_started_can_be_ended(registry: SharedRegistry) {
    let epoch = registry.epoch().await.unwrap();
    registry.admit(&admit("a")).await.unwrap();
    assert_eq!(registry.settle(&settle("a", "cancelled")).await.unwrap(), Settle::Won);
    assert_eq!(registry.credit_used(&pool()).await.unwrap(), 0);
    let answer = registry.start(&start("a", claim(1, "w", "n"), &epoch)).await.unwrap();
    assert_eq!(answer, Start::Terminal(Bytes::from("cancelled").into()));
    registry.admit(&admit("b")).await.unwrap();
    registry.start(&start("b", claim(1, "w", "n"), &epoch)).await.unwrap();
    let started = Settle::Started { owner: worker("w"), attempt: 1 };
    assert_eq!(registry.settle(&settle("b", "cancelled")).await.unwrap(), started);
}

pub async fn a_cancel_that_knows_no_pool_gives_the_credit_back(registry: SharedRegistry) {
    registry.admit(&admit("a")).await.unwrap();
    assert_eq!(registry.credit_used(&pool()).await.unwrap(), 1);
    let mut cancel = settle("a", "cancelled");
    cancel.pool = None;
    assert_eq!(registry.settle(&cancel).await.unwrap(), Settle::Won);
    assert_eq!(registry.credit_used(&pool()).await.unwrap(), 0);
}

pub async fn a_record_that_is_missing_starts_only_from_a_sole_copy(registry: SharedRegistry) {
    let epoch = registry.epoch().await.unwrap();
    let mut copy = start("a", claim(1, "w", "n"), &epoch);
    copy.only_copy = false;
    assert_eq!(registry.start(&copy).await.unwrap(), Start::Resolve);
    assert_eq!(registry.lookup(&job("a")).await.unwrap(), None);
    assert_eq!(registry.start(&start("a", claim(1, "w", "n"), &epoch)).await.unwrap(), Start::Go);
    assert_eq!(registry.finish(&finish("b", claim(1, "w", "n"), "done")).await.unwrap(), Finish::Won);
    let mut early = resolve("c", 1, 1);
    early.grace = Duration::from_secs(1_000_000_000);
    let answer = registry.resolve(&early).await.unwrap();
    // The epoch of the one in the process began with time itself; then it is lost at once.
    assert!(matches!(answer, Resolve::Hold(_) | Resolve::Lost), "{answer:?}");
    assert!(matches!(registry.resolve(&resolve("c", 1, 1)).await.unwrap(), Resolve::Lost | Resolve::Terminal(_)));
    assert_eq!(registry.resolve(&resolve("d", 1, 2)).await.unwrap(), Resolve::Reassign(2));
}

pub async fn a_doubtful_record_starts_only_from_a_sole_copy(registry: SharedRegistry) {
    let epoch = registry.epoch().await.unwrap();
    // A time before every epoch, except the one that began with time itself.
    let mut request = admit("a");
    request.repeat = Some(Repeat { earliest: 1, said: None, first_epoch: None });
    registry.admit(&request).await.unwrap();
    let record = registry.lookup(&job("a")).await.unwrap().unwrap();
    let mut copy = start("a", claim(1, "w", "n"), &epoch);
    copy.only_copy = false;
    let expected = if record.doubtful { Start::Resolve } else { Start::Go };
    assert_eq!(registry.start(&copy).await.unwrap(), expected);
    if record.doubtful {
        assert_eq!(registry.resolve(&resolve("a", 1, 1)).await.unwrap(), Resolve::Lost);
    }
}

pub async fn credit_is_taken_and_given_back(registry: SharedRegistry) {
    let epoch = registry.epoch().await.unwrap();
    let mut request = admit("a");
    request.credit = 1;
    assert_eq!(attempt(&registry.admit(&request).await.unwrap()), Some(1));
    let mut second = admit("b");
    second.credit = 1;
    assert_eq!(registry.admit(&second).await.unwrap(), Admitted::NoCredit);
    assert_eq!(registry.lookup(&job("b")).await.unwrap(), None);
    // A repeat of the first takes no more.
    assert_eq!(attempt(&registry.admit(&request).await.unwrap()), Some(1));
    assert_eq!(registry.credit_used(&pool()).await.unwrap(), 1);
    registry.start(&start("a", claim(1, "w", "n"), &epoch)).await.unwrap();
    assert_eq!(registry.credit_used(&pool()).await.unwrap(), 1);
    registry.finish(&finish("a", claim(1, "w", "n"), "done")).await.unwrap();
    assert_eq!(registry.credit_used(&pool()).await.unwrap(), 0);
    assert_eq!(attempt(&registry.admit(&second).await.unwrap()), Some(1));
}

pub async fn credit_of_a_dead_worker_comes_back_with_its_lease(registry: SharedRegistry) {
    let epoch = registry.epoch().await.unwrap();
    let mut request = admit("a");
    request.credit_ttl = BRIEF;
    registry.admit(&request).await.unwrap();
    until("credit of a job that never started", || async { registry.credit_used(&pool()).await.unwrap() == 0 }).await;
    registry.admit(&admit("b")).await.unwrap();
    let mut begin = start("b", claim(1, "w", "n"), &epoch);
    begin.lease = BRIEF;
    registry.start(&begin).await.unwrap();
    until("credit of a job whose lease passed", || async { registry.credit_used(&pool()).await.unwrap() == 0 }).await;
}

pub async fn a_tenant_has_no_more_than_its_limit(registry: SharedRegistry) {
    let mut request = admit("a");
    request.tenant_limit = Some(1);
    assert_eq!(attempt(&registry.admit(&request).await.unwrap()), Some(1));
    request.job.job = JobId::new("b").unwrap();
    assert_eq!(registry.admit(&request).await.unwrap(), Admitted::TenantBusy);
    let mut other = request.clone();
    other.job.tenant = tenant("globex");
    assert_eq!(attempt(&registry.admit(&other).await.unwrap()), Some(1));
    registry.settle(&settle("a", "cancelled")).await.unwrap();
    assert_eq!(attempt(&registry.admit(&request).await.unwrap()), Some(1));
}

pub async fn a_tenant_has_no_more_of_a_pool_than_its_share(registry: SharedRegistry) {
    let one = |name: &str, share: u32| Admit { tenant_share: Some(share), ..admit(name) };
    assert_eq!(attempt(&registry.admit(&one("a", 1)).await.unwrap()), Some(1));
    assert_eq!(registry.admit(&one("b", 1)).await.unwrap(), Admitted::TenantBusy);
    assert_eq!(attempt(&registry.admit(&one("a", 1)).await.unwrap()), Some(1), "a repeat takes no more of it");
    let elsewhere = Admit { pool: PoolName::new("elsewhere").unwrap(), ..one("b", 1) };
    assert_eq!(attempt(&registry.admit(&elsewhere).await.unwrap()), Some(1), "another pool");
    let mut other = one("b", 1);
    other.job.tenant = tenant("globex");
    assert_eq!(attempt(&registry.admit(&other).await.unwrap()), Some(1), "another tenant");
    assert_eq!(registry.admit(&one("c", 1)).await.unwrap(), Admitted::TenantBusy);
    assert_eq!(attempt(&registry.admit(&one("c", 2)).await.unwrap()), Some(1), "one here, one elsewhere");
    assert_eq!(registry.admit(&one("d", 2)).await.unwrap(), Admitted::TenantBusy);
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
    let mut settled = settle("a", "lost");
    settled.keep.record = BRIEF;
    registry.settle(&settled).await.unwrap();
    until("the record's end", || async { registry.lookup(&settled.job).await.unwrap().is_none() }).await;
    assert_eq!(attempt(&registry.admit(&with_key("b")).await.unwrap()), Some(1));
    assert_eq!(registry.admit(&with_key("c")).await.unwrap(), Admitted::DuplicateOf(JobId::new("b").unwrap()));
}

fn in_session(name: &str, candidate: Option<&str>, if_gone: IfGone) -> thermae_backplane::registry::Admit {
    let mut request = admit(name);
    request.session = Some(SessionAdmit { session: session("s"), if_gone, candidate: candidate.map(worker) });
    request
}

fn target(admitted: Admitted) -> Target {
    match admitted {
        Admitted::Assigned { to, .. } => to,
        other => panic!("not assigned: {other:?}"),
    }
}

fn on(name: &str, create: bool) -> Target {
    Target::Worker { worker: worker(name), create }
}

pub async fn a_session_stays_with_its_worker(registry: SharedRegistry) {
    let nobody = registry.admit(&in_session("a", None, IfGone::Fail)).await.unwrap();
    assert_eq!(nobody, Admitted::NoSessionWorker);
    registry.heartbeat(&beat("w"), TTL).await.unwrap();
    registry.heartbeat(&beat("v"), TTL).await.unwrap();
    let first = in_session("a", Some("w"), IfGone::Fail);
    assert_eq!(target(registry.admit(&first).await.unwrap()), on("w", true));
    assert_eq!(target(registry.admit(&first).await.unwrap()), on("w", true));
    let second = in_session("b", Some("v"), IfGone::Fail);
    assert_eq!(target(registry.admit(&second).await.unwrap()), on("w", false));
    let mut announced = beat("w");
    announced.sessions = vec![held("s")];
    registry.heartbeat(&announced, TTL).await.unwrap();
    assert_eq!(target(registry.admit(&first).await.unwrap()), on("w", false));
    // Another tenant's session of that name is another one.
    let mut other = in_session("c", Some("v"), IfGone::Fail);
    other.job.tenant = tenant("globex");
    assert_eq!(target(registry.admit(&other).await.unwrap()), on("v", true));
}

pub async fn a_session_that_is_gone_is_never_silently_made_anew(registry: SharedRegistry) {
    registry.heartbeat(&beat("w"), TTL).await.unwrap();
    registry.admit(&in_session("a", Some("w"), IfGone::Fail)).await.unwrap();
    let end = |gone| registry.end_session(tenant_ref(), session_ref(), worker_ref("v"), gone);
    end(Gone::Expired).await.unwrap();
    let still = registry.admit(&in_session("b", Some("w"), IfGone::Fail)).await.unwrap();
    assert_eq!(target(still), on("w", false), "somebody else's word about it counts for nothing");
    let end = |gone| registry.end_session(tenant_ref(), session_ref(), worker_ref("w"), gone);
    end(Gone::Expired).await.unwrap();
    end(Gone::Lost).await.unwrap();
    let gone = registry.admit(&in_session("c", Some("w"), IfGone::Fail)).await.unwrap();
    assert_eq!(gone, Admitted::SessionGone(Gone::Expired));
    let anew = registry.admit(&in_session("d", Some("w"), IfGone::New)).await.unwrap();
    assert_eq!(target(anew), on("w", true));
    end(Gone::Closed).await.unwrap();
    let free = registry.admit(&in_session("e", Some("w"), IfGone::Fail)).await.unwrap();
    assert_eq!(target(free), on("w", true));
}

fn tenant_ref() -> &'static thermae_schemas::TenantName {
    Box::leak(Box::new(tenant("acme")))
}

fn session_ref() -> &'static thermae_schemas::SessionName {
    Box::leak(Box::new(session("s")))
}

fn worker_ref(name: &str) -> &'static thermae_schemas::WorkerId {
    Box::leak(Box::new(worker(name)))
}

pub async fn a_session_whose_worker_left_is_lost(registry: SharedRegistry) {
    for (how, name) in ["leave", "silence"].into_iter().zip(["w", "v"]) {
        let mut request = in_session(how, Some(name), IfGone::Fail);
        request.session.as_mut().unwrap().session = session(how);
        registry.heartbeat(&beat(name), if how == "leave" { TTL } else { BRIEF }).await.unwrap();
        assert_eq!(target(registry.admit(&request).await.unwrap()), on(name, true));
        if how == "leave" {
            registry.leave(&worker(name)).await.unwrap();
        } else {
            until("its death", || async { registry.workers().await.unwrap().is_empty() }).await;
        }
        assert_eq!(registry.admit(&request).await.unwrap(), Admitted::SessionGone(Gone::Lost));
    }
}

pub async fn the_next_job_may_make_a_session_that_was_never_made(registry: SharedRegistry) {
    registry.heartbeat(&beat("w"), TTL).await.unwrap();
    registry.admit(&in_session("a", Some("w"), IfGone::Fail)).await.unwrap();
    registry.settle(&settle("a", "cancelled")).await.unwrap();
    let next = registry.admit(&in_session("b", Some("w"), IfGone::Fail)).await.unwrap();
    assert_eq!(target(next), on("w", true));
}

pub async fn a_worker_that_falls_silent_is_dead_until_it_is_buried(registry: SharedRegistry) {
    registry.heartbeat(&beat("w"), BRIEF).await.unwrap();
    registry.heartbeat(&beat("v"), TTL).await.unwrap();
    assert_eq!(registry.workers().await.unwrap(), [beat("v"), beat("w")]);
    registry.bury(&worker("w")).await.unwrap();
    until("its death", || async { registry.workers().await.unwrap() == [beat("v")] }).await;
    assert_eq!(registry.dead_workers().await.unwrap(), [worker("w")]);
    registry.leave(&worker("v")).await.unwrap();
    assert_eq!(registry.workers().await.unwrap(), []);
    assert_eq!(registry.dead_workers().await.unwrap(), [worker("v"), worker("w")]);
    registry.bury(&worker("w")).await.unwrap();
    registry.bury(&worker("v")).await.unwrap();
    assert_eq!(registry.dead_workers().await.unwrap(), []);
    registry.leave(&worker("unknown")).await.unwrap();
    assert_eq!(registry.dead_workers().await.unwrap(), []);
}

pub async fn a_heartbeat_renews_leases_and_revokes_what_does_not_stand(registry: SharedRegistry) {
    let epoch = registry.epoch().await.unwrap();
    registry.admit(&admit("a")).await.unwrap();
    let mut begin = start("a", claim(1, "w", "n"), &epoch);
    begin.lease = BRIEF;
    registry.start(&begin).await.unwrap();
    let mut word = beat("w");
    word.running = vec![running("a", 1, "n"), running("a", 1, "other")];
    let answer = registry.heartbeat(&word, TTL).await.unwrap();
    assert_eq!((answer.epoch, answer.revoked), (epoch.clone(), vec![job("a")]));
    // A lease as brief, taken later and not renewed, has passed: so the first one would have.
    registry.admit(&admit("b")).await.unwrap();
    let mut other = start("b", claim(1, "v", "o"), &epoch);
    other.lease = BRIEF;
    registry.start(&other).await.unwrap();
    until("the other lease to pass", || async {
        registry.resolve(&resolve("b", 1, 1)).await.unwrap() == Resolve::Lost
    })
    .await;
    assert!(matches!(registry.resolve(&resolve("a", 1, 1)).await.unwrap(), Resolve::Hold(_)));
    assert_eq!(registry.credit_used(&pool()).await.unwrap(), 1);
    registry.abandon(&job("a"), &claim(1, "w", "n")).await.unwrap();
    registry.resolve(&resolve("a", 1, 1)).await.unwrap();
    word.running.truncate(1);
    assert_eq!(registry.heartbeat(&word, TTL).await.unwrap().revoked, [job("a")]);
    assert_eq!(registry.credit_used(&pool()).await.unwrap(), 0);
}

pub async fn a_heartbeat_writes_anew_what_is_missing(registry: SharedRegistry) {
    let epoch = registry.epoch().await.unwrap();
    let mut word = beat("w");
    word.running = vec![running("a", 1, "n")];
    word.sessions = vec![held("s")];
    assert_eq!(registry.heartbeat(&word, TTL).await.unwrap().revoked, []);
    assert_eq!(registry.credit_used(&pool()).await.unwrap(), 1);
    let record = registry.lookup(&job("a")).await.unwrap().unwrap();
    assert_eq!(record.owner(), Some(&worker("w")));
    let copy = registry.start(&start("a", claim(1, "v", "o"), &epoch)).await.unwrap();
    assert_eq!(copy, Start::Resolve);
    let there = registry.admit(&in_session("b", Some("v"), IfGone::Fail)).await.unwrap();
    assert_eq!(target(there), on("w", false));
    assert_eq!(registry.finish(&finish("a", claim(1, "w", "n"), "done")).await.unwrap(), Finish::Won);
}

pub async fn one_leads_at_a_time(registry: SharedRegistry) {
    assert!(registry.lead("0", "a", BRIEF).await.unwrap());
    assert!(registry.lead("0", "a", BRIEF).await.unwrap());
    assert!(!registry.lead("0", "b", BRIEF).await.unwrap());
    assert!(registry.lead("1", "b", BRIEF).await.unwrap());
    until("the lease to pass", || async { registry.lead("0", "b", TTL).await.unwrap() }).await;
    assert!(!registry.lead("0", "a", TTL).await.unwrap());
}

pub async fn records_are_forgotten_after_their_time(registry: SharedRegistry) {
    let epoch = registry.epoch().await.unwrap();
    let mut request = admit("a");
    request.ttl = BRIEF;
    request.idempotency_key = Some("key".to_owned());
    registry.admit(&request).await.unwrap();
    // A change puts it off.
    registry.start(&start("a", claim(1, "w", "n"), &epoch)).await.unwrap();
    // So does a copy that is handed out again: it counts for as long as a new one.
    let mut again = admit("d");
    again.ttl = BRIEF;
    registry.admit(&again).await.unwrap();
    assert_eq!(registry.resolve(&resolve("d", 1, 1)).await.unwrap(), Resolve::Reassign(1));
    // A record as brief, made later and not changed, is forgotten.
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

pub async fn changes_are_told(registry: SharedRegistry) {
    let epoch = registry.epoch().await.unwrap();
    let mut news = registry.notices();
    registry.heartbeat(&beat("w"), TTL).await.unwrap();
    assert_eq!(soon("news of a worker", news.recv()).await.unwrap(), Notice::Workers);
    // Nothing new: nothing told. So the next news is the next change's.
    registry.heartbeat(&beat("w"), TTL).await.unwrap();
    registry.admit(&admit("a")).await.unwrap();
    registry.start(&start("a", claim(1, "w", "n"), &epoch)).await.unwrap();
    registry.finish(&finish("a", claim(1, "w", "n"), "done")).await.unwrap();
    assert_eq!(soon("news of credit", news.recv()).await.unwrap(), Notice::Credit(pool()));
    let mut draining = beat("w");
    draining.state = WorkerState::Draining;
    registry.heartbeat(&draining, TTL).await.unwrap();
    assert_eq!(soon("news of a drain", news.recv()).await.unwrap(), Notice::Workers);
    registry.leave(&worker("w")).await.unwrap();
    assert_eq!(soon("news of its end", news.recv()).await.unwrap(), Notice::Workers);
}

pub async fn it_is_fit(registry: SharedRegistry) {
    registry.check().await.unwrap();
}

pub async fn a_look_at_the_workers_sees_every_change(registry: SharedRegistry) {
    let (mut a, b) = (beat("a"), beat("b"));
    registry.heartbeat(&a, TTL).await.unwrap();
    assert_eq!(registry.workers().await.unwrap(), [a.clone()]);
    registry.heartbeat(&b, TTL).await.unwrap();
    assert_eq!(registry.workers().await.unwrap(), [a.clone(), b.clone()]);
    a.sessions = vec![held("s")];
    registry.heartbeat(&a, TTL).await.unwrap();
    assert_eq!(registry.workers().await.unwrap(), [a.clone(), b.clone()]);
    // One that comes back and says what it said before.
    registry.leave(&worker("b")).await.unwrap();
    assert_eq!(registry.workers().await.unwrap(), [a.clone()]);
    registry.heartbeat(&b, TTL).await.unwrap();
    assert_eq!(registry.workers().await.unwrap(), [a.clone(), b.clone()]);
    // One that came, left and was buried between two looks; and one that is another by then.
    registry.leave(&worker("b")).await.unwrap();
    registry.bury(&worker("b")).await.unwrap();
    registry.heartbeat(&beat("c"), TTL).await.unwrap();
    assert_eq!(registry.workers().await.unwrap(), [a.clone(), beat("c")]);
    registry.heartbeat(&b, BRIEF).await.unwrap();
    until("the end of b", || async { registry.workers().await.unwrap() == [a.clone(), beat("c")] }).await;
    assert!(registry.unreadable_workers().is_empty());
}
