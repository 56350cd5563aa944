//! The contract of the registry.

mod failover;
mod faults;
mod histories;
mod lost_counts;
mod suite;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use thermae_backplane::registry::{
    self, Admit, Admitted, Budget, Claim, EndUnstartedRequest, Epoch, FinishRequest, JobKey, Keep, ResolveRequest,
    SharedRegistry, ShelveRequest, StartRequest,
};
use thermae_redis::{Redis, RedisOptions};
use thermae_schemas::{
    Heartbeat, JobId, Language, PoolCapacity, PoolName, RunningJob, SessionHeld, SessionName, Status, TenantName,
    WorkerId, WorkerState,
};

use crate::support::{server, unique};

/// How long records are kept in these tests.
pub const TTL: Duration = Duration::from_secs(60);

/// How long, and within which budget, outcomes are kept in these tests.
pub const KEEP: Keep = Keep { outcome: TTL, record: TTL, budget: Budget { tenant: 1 << 30, all: 1 << 30 } };

/// A registry with a prefix of its own, whose epoch begins now. New sessions may be created at once.
pub async fn redis(url: &str) -> Redis {
    let options = RedisOptions {
        prefix: unique("test:") + ":",
        deadline: Some(Duration::from_secs(60)),
        announce_grace: Duration::ZERO,
        ..RedisOptions::new(url)
    };
    Redis::connect(options).await.unwrap()
}

pub async fn real() -> SharedRegistry {
    Arc::new(redis(&server("THERMAE_TEST_REDIS")).await)
}

pub fn tenant(name: &str) -> TenantName {
    TenantName::new(name).unwrap()
}

pub fn pool() -> PoolName {
    PoolName::new("default").unwrap()
}

pub fn session(name: &str) -> SessionName {
    SessionName::new(name).unwrap()
}

pub fn worker(name: &str) -> WorkerId {
    WorkerId::new(name).unwrap()
}

pub fn job(name: &str) -> JobKey {
    JobKey::new(tenant("acme"), JobId::new(name).unwrap())
}

pub fn claim(attempt: u32, owner: &str, nonce: &str) -> Claim {
    Claim { attempt, owner: worker(owner), nonce: nonce.to_owned() }
}

pub fn admit(name: &str) -> Admit {
    Admit {
        job: job(name),
        pool: pool(),
        credit: 100,
        tenant_limit: None,
        tenant_share: None,
        max_attempts: 1,
        reply_key: Some("acme.c".to_owned()),
        correlation_id: Some("mark".to_owned()),
        digest: "d".to_owned(),
        idempotency_key: None,
        session: None,
        repeat: None,
        credit_ttl: TTL,
        ttl: TTL,
    }
}

pub fn start(name: &str, claim: Claim, epoch: &Epoch) -> StartRequest {
    StartRequest {
        job: job(name),
        pool: pool(),
        claim,
        epoch: epoch.clone(),
        only_copy: true,
        max_attempts: 1,
        reply_key: Some("acme.c".to_owned()),
        correlation_id: None,
        lease: TTL,
        ttl: TTL,
    }
}

pub fn finish(name: &str, claim: Claim, outcome: &str) -> FinishRequest {
    let (outcome, status) = (outcome.to_owned().into(), Status::Succeeded);
    FinishRequest { job: job(name), pool: pool(), claim, outcome, status, keep: KEEP }
}

pub fn resolve(name: &str, attempt: u32, max_attempts: u32) -> ResolveRequest {
    let (lost, cancelled, grace) = ("lost".into(), "cancelled".into(), Duration::ZERO);
    ResolveRequest { job: job(name), pool: pool(), attempt, max_attempts, lost, cancelled, grace, keep: KEEP }
}

pub fn end_unstarted(name: &str, outcome: &str) -> EndUnstartedRequest {
    let (outcome, status) = (outcome.to_owned().into(), Status::Cancelled);
    EndUnstartedRequest { job: job(name), pool: Some(pool()), outcome, status, digest: None, cancel: false, keep: KEEP }
}

pub fn shelve(name: &str, outcome: &str) -> ShelveRequest {
    let digest = thermae_backplane::record::digest(outcome.as_bytes());
    ShelveRequest { job: job(name), digest, bytes: outcome.len(), keep: KEEP }
}

pub fn beat(name: &str) -> Heartbeat {
    let capacity = PoolCapacity { slots: 2, busy: 0, max_sessions: 4, languages: vec![Language::python()] };
    Heartbeat {
        protocol: 1,
        worker: worker(name),
        state: WorkerState::Ready,
        pools: [(pool(), capacity)].into(),
        running: Vec::new(),
        sessions: Vec::new(),
        version: "0".to_owned(),
    }
}

pub fn running(name: &str, attempt: u32, nonce: &str) -> RunningJob {
    let JobKey { tenant, job } = job(name);
    RunningJob { tenant, job, attempt, nonce: nonce.to_owned(), pool: pool(), paused: false }
}

pub fn held(name: &str) -> SessionHeld {
    SessionHeld { tenant: tenant("acme"), session: session(name), pool: pool(), expires_in_ms: 1000, evictable: false }
}

/// The attempt that a job was assigned as, if it was assigned.
pub fn attempt(admitted: &Admitted) -> Option<u32> {
    match admitted {
        Admitted::Assigned { attempt, .. } => Some(*attempt),
        _ => None,
    }
}

macro_rules! suite {
    ($($test:ident,)+) => {
        mod local {
            $(#[tokio::test]
            async fn $test() {
                super::suite::$test(std::sync::Arc::new(thermae_backplane::registry::Local::new())).await;
            })+
        }
        mod redis {
            $(#[tokio::test]
            async fn $test() {
                super::suite::$test(super::real().await).await;
            })+
        }
    };
}

suite! {
    a_job_runs_once_and_its_outcome_stays,
    a_repeated_call_gets_the_same_answer,
    a_copy_of_a_running_job_is_held_and_then_lost,
    a_job_that_may_run_again_is_assigned_anew,
    an_abandoned_attempt_is_decided_at_once,
    a_superseded_attempt_does_not_count,
    a_job_that_has_not_started_can_be_ended,
    an_outcome_shrinks_to_a_tombstone_that_is_never_run_again,
    an_outcome_beyond_the_budget_is_a_tombstone_at_once,
    an_outcome_in_the_store_is_named_for_as_long_as_it_would_have_been_kept,
    what_runs_past_its_lease_is_told,
    a_cancel_of_a_running_job_is_remembered,
    an_id_names_one_job,
    a_cancel_that_knows_no_pool_gives_the_credit_back,
    a_record_that_is_missing_starts_only_from_a_sole_copy,
    a_doubtful_record_starts_only_from_a_sole_copy,
    a_run_belongs_to_the_client_that_took_it_over_last,
    an_outcome_goes_to_whoever_took_the_run_over,
    a_run_that_is_taken_over_stays_so_through_further_attempts,
    what_has_ended_or_is_not_known_is_not_taken_over,
    all_counts_are_taken_or_none,
    counts_at_once_are_not_more_than_allowed,
    a_count_whose_time_is_over_is_lost_and_never_begins_anew,
    a_tenant_has_no_more_than_so_many_counts,
    credit_is_taken_and_given_back,
    a_paused_job_holds_no_credit,
    credit_of_a_dead_worker_comes_back_with_its_lease,
    a_tenant_has_no_more_than_its_limit,
    a_tenant_has_no_more_of_a_pool_than_its_share,
    an_idempotency_key_names_one_job,
    an_idempotency_key_is_free_once_its_job_is_forgotten,
    a_session_stays_with_its_worker,
    a_session_that_is_gone_is_never_silently_made_anew,
    the_end_of_a_session_leaves_a_later_one_of_its_name,
    a_session_whose_worker_left_is_lost,
    a_session_of_a_job_that_started_is_lost_with_its_worker,
    the_next_job_may_make_a_session_that_was_never_made,
    whoever_asks_for_a_session_learns_who_holds_it,
    a_worker_that_falls_silent_is_dead_until_it_is_buried,
    a_heartbeat_renews_leases_and_revokes_what_does_not_stand,
    a_heartbeat_writes_anew_what_is_missing,
    one_leads_at_a_time,
    records_are_forgotten_after_their_time,
    changes_are_told,
    a_look_at_the_workers_sees_every_change,
    it_is_fit,
}

/// Waits for this notice, and ignores others that come before it.
pub async fn in_order(
    news: &mut tokio::sync::broadcast::Receiver<registry::Notice>,
    wanted: registry::Notice,
) -> registry::Notice {
    loop {
        let notice = news.recv().await.unwrap();
        if notice == wanted {
            return notice;
        }
    }
}
