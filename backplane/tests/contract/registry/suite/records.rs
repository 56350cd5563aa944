//! A job's record, from its first assignment to its end.

use std::time::Duration;

use bytes::Bytes;
use thermae_backplane::record::{EndUnstarted, Finish, Resolve, Start};
use thermae_backplane::registry::{Admitted, Repeat, SharedRegistry, Target};

use super::super::{admit, attempt, claim, end_unstarted, finish, job, pool, resolve, start, worker};
use super::BRIEF;
use super::outcomes::left_of;
use crate::support::until;

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
    // Bytes that are not UTF-8 come back unchanged.
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
    assert_eq!(
        registry.end_unstarted(&end_unstarted("a/1", "x")).await.unwrap(),
        EndUnstarted::Terminal(outcome.clone().into())
    );
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
        assert_eq!(registry.end_unstarted(&end_unstarted("b", "rejected")).await.unwrap(), EndUnstarted::Won);
    }
}

pub async fn a_copy_of_a_running_job_is_held_and_then_lost(registry: SharedRegistry) {
    let epoch = registry.epoch().await.unwrap();
    registry.admit(&admit("a")).await.unwrap();
    let mut begin = start("a", claim(1, "w", "n"), &epoch);
    begin.lease = BRIEF;
    registry.start(&begin).await.unwrap();
    let Resolve::Hold(wait) = registry.resolve(&resolve("a", 1, 1)).await.unwrap().what else { panic!("not held") };
    assert!(wait <= BRIEF);
    until("the lease to pass", || async { registry.resolve(&resolve("a", 1, 1)).await.unwrap() == Resolve::Lost })
        .await;
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
        !matches!(registry.resolve(&resolve("a", 1, 2)).await.unwrap().what, Resolve::Hold(_))
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
        let mut end = end_unstarted(name, "ended");
        end.cancel = cancelled;
        assert!(matches!(registry.end_unstarted(&end).await.unwrap().what, EndUnstarted::Started { attempt: 1, .. }));
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
    let mut other = end_unstarted("a", "rejected");
    other.digest = Some("another".to_owned());
    assert_eq!(attempt(&registry.admit(&with("one")).await.unwrap()), Some(1));
    assert_eq!(registry.admit(&with("another")).await.unwrap(), Admitted::IdConflict);
    assert_eq!(registry.end_unstarted(&other).await.unwrap(), EndUnstarted::Conflict);
    let epoch = registry.epoch().await.unwrap();
    registry.start(&start("a", claim(1, "w", "n"), &epoch)).await.unwrap();
    assert_eq!(registry.admit(&with("another")).await.unwrap(), Admitted::IdConflict);
    let mut end = finish("a", claim(1, "w", "n"), "done");
    end.keep.outcome = Duration::ZERO;
    registry.finish(&end).await.unwrap();
    assert_eq!(registry.admit(&with("another")).await.unwrap(), Admitted::IdConflict);
    assert_eq!(registry.end_unstarted(&other).await.unwrap(), EndUnstarted::Conflict);
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
    assert_eq!(registry.end_unstarted(&end_unstarted("a", "cancelled")).await.unwrap(), EndUnstarted::Won);
    assert_eq!(registry.credit_used(&pool()).await.unwrap(), 0);
    let answer = registry.start(&start("a", claim(1, "w", "n"), &epoch)).await.unwrap();
    assert_eq!(answer, Start::Terminal(Bytes::from("cancelled").into()));
    registry.admit(&admit("b")).await.unwrap();
    registry.start(&start("b", claim(1, "w", "n"), &epoch)).await.unwrap();
    let started = EndUnstarted::Started { owner: worker("w"), attempt: 1 };
    assert_eq!(registry.end_unstarted(&end_unstarted("b", "cancelled")).await.unwrap(), started);
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
    let answer = registry.resolve(&early).await.unwrap().what;
    // The epoch of the in-process registry began at 0, so there the job is lost at once.
    assert!(matches!(answer, Resolve::Hold(_) | Resolve::Lost), "{answer:?}");
    assert!(matches!(registry.resolve(&resolve("c", 1, 1)).await.unwrap().what, Resolve::Lost | Resolve::Terminal(_)));
    assert_eq!(registry.resolve(&resolve("d", 1, 2)).await.unwrap(), Resolve::Reassign(2));
}

pub async fn a_doubtful_record_starts_only_from_a_sole_copy(registry: SharedRegistry) {
    let epoch = registry.epoch().await.unwrap();
    // A time before every epoch, except before one that began at 0.
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
