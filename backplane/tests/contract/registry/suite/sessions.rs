//! Sessions, and the workers that hold them.

use thermae_backplane::record::{Resolve, Start};
use thermae_backplane::registry::{Admitted, Gone, Holder, SessionAdmit, SharedRegistry, Target};
use thermae_schemas::{IfGone, SessionHeld};

use super::super::{TTL, admit, beat, claim, end_unstarted, held, job, resolve, session, start, tenant, worker};
use super::BRIEF;
use crate::support::until;

pub(super) fn in_session(name: &str, candidate: Option<&str>, if_gone: IfGone) -> thermae_backplane::registry::Admit {
    let mut request = admit(name);
    request.session = Some(SessionAdmit { session: session("s"), if_gone, candidate: candidate.map(worker) });
    request
}

pub(super) fn target(admitted: Admitted) -> Target {
    match admitted {
        Admitted::Assigned { to, .. } => to,
        other => panic!("not assigned: {other:?}"),
    }
}

pub(super) fn on(name: &str, create: bool) -> Target {
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
    // A session of another tenant with the same name is another session.
    let mut other = in_session("c", Some("v"), IfGone::Fail);
    other.job.tenant = tenant("globex");
    assert_eq!(target(registry.admit(&other).await.unwrap()), on("v", true));
}

pub async fn a_session_that_is_gone_is_never_silently_made_anew(registry: SharedRegistry) {
    registry.heartbeat(&beat("w"), TTL).await.unwrap();
    registry.admit(&in_session("a", Some("w"), IfGone::Fail)).await.unwrap();
    let end = |gone| registry.end_session(tenant_ref(), session_ref(), worker_ref("v"), None, gone);
    end(Gone::Expired).await.unwrap();
    let still = registry.admit(&in_session("b", Some("w"), IfGone::Fail)).await.unwrap();
    assert_eq!(target(still), on("w", false), "somebody else's word about it counts for nothing");
    let end = |gone| registry.end_session(tenant_ref(), session_ref(), worker_ref("w"), None, gone);
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

pub async fn the_end_of_a_session_leaves_a_later_one_of_its_name(registry: SharedRegistry) {
    registry.heartbeat(&beat("w"), TTL).await.unwrap();
    let end = async |creator: &str, gone| {
        let creator = job(creator).job;
        registry.end_session(tenant_ref(), session_ref(), worker_ref("w"), Some(&creator), gone).await.unwrap();
        registry.session_holder(tenant_ref(), session_ref()).await.unwrap()
    };
    registry.admit(&in_session("a", Some("w"), IfGone::Fail)).await.unwrap();
    assert_eq!(end("a", Gone::Closed).await, Holder::Nobody);
    registry.admit(&in_session("b", Some("w"), IfGone::Fail)).await.unwrap();
    assert_eq!(end("a", Gone::Closed).await, Holder::Worker(worker("w")), "the first one's end, told twice");
    assert_eq!(end("a", Gone::Lost).await, Holder::Worker(worker("w")));
    assert_eq!(end("b", Gone::Lost).await, Holder::Gone(Gone::Lost));
    // Of one that only a heartbeat has named, nobody knows who made it.
    let mut announced = beat("w");
    announced.sessions = vec![held("s")];
    assert_eq!(target(registry.admit(&in_session("c", Some("w"), IfGone::New)).await.unwrap()), on("w", true));
    assert_eq!(end("c", Gone::Closed).await, Holder::Nobody);
    registry.heartbeat(&announced, TTL).await.unwrap();
    assert_eq!(end("c", Gone::Closed).await, Holder::Nobody);
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
        let request = |job: &str, candidate: &str| {
            let mut request = in_session(job, Some(candidate), IfGone::Fail);
            request.session.as_mut().unwrap().session = session(how);
            request
        };
        let creator = request(how, name);
        registry.heartbeat(&beat(name), if how == "leave" { TTL } else { BRIEF }).await.unwrap();
        assert_eq!(target(registry.admit(&creator).await.unwrap()), on(name, true));
        if how == "leave" {
            registry.leave(&worker(name)).await.unwrap();
        } else {
            until("its death", || async { registry.workers().await.unwrap().is_empty() }).await;
        }
        let other = request(&format!("{how}-other"), "x");
        assert_eq!(registry.admit(&other).await.unwrap(), Admitted::SessionGone(Gone::Lost));
        // The job that was to create it has not started, so nothing is lost.
        registry.heartbeat(&beat("x"), TTL).await.unwrap();
        assert_eq!(target(registry.admit(&request(how, "x")).await.unwrap()), on("x", true));
        assert_eq!(target(registry.admit(&other).await.unwrap()), on("x", false));
        let mut announced = beat("x");
        announced.sessions = vec![SessionHeld { session: session(how), ..held("s") }];
        registry.heartbeat(&announced, TTL).await.unwrap();
        registry.leave(&worker("x")).await.unwrap();
        assert_eq!(registry.admit(&creator).await.unwrap(), Admitted::SessionGone(Gone::Lost));
    }
}

pub async fn a_session_of_a_job_that_started_is_lost_with_its_worker(registry: SharedRegistry) {
    registry.heartbeat(&beat("w"), TTL).await.unwrap();
    let mut creator = in_session("a", Some("w"), IfGone::Fail);
    creator.max_attempts = 2;
    assert_eq!(target(registry.admit(&creator).await.unwrap()), on("w", true));
    let epoch = registry.epoch().await.unwrap();
    assert_eq!(registry.start(&start("a", claim(1, "w", "n"), &epoch)).await.unwrap(), Start::Go);
    registry.leave(&worker("w")).await.unwrap();
    registry.abandon(&job("a"), &claim(1, "w", "n")).await.unwrap();
    assert_eq!(registry.resolve(&resolve("a", 1, 2)).await.unwrap(), Resolve::Reassign(2));
    let again = registry.admit(&in_session("a", Some("v"), IfGone::Fail)).await.unwrap();
    assert_eq!(again, Admitted::SessionGone(Gone::Lost));
}

pub async fn the_next_job_may_make_a_session_that_was_never_made(registry: SharedRegistry) {
    registry.heartbeat(&beat("w"), TTL).await.unwrap();
    registry.admit(&in_session("a", Some("w"), IfGone::Fail)).await.unwrap();
    registry.end_unstarted(&end_unstarted("a", "cancelled")).await.unwrap();
    let next = registry.admit(&in_session("b", Some("w"), IfGone::Fail)).await.unwrap();
    assert_eq!(target(next), on("w", true));
}

pub async fn whoever_asks_for_a_session_learns_who_holds_it(registry: SharedRegistry) {
    let of = async |name: &str| registry.session_holder(tenant_ref(), &session(name)).await.unwrap();
    assert_eq!(of("s").await, Holder::Nobody);
    registry.heartbeat(&beat("w"), TTL).await.unwrap();
    assert_eq!(of("s").await, Holder::Nobody);
    // It has a worker as soon as its first job has one.
    let first = in_session("a", Some("w"), IfGone::Fail);
    registry.admit(&first).await.unwrap();
    assert_eq!(of("s").await, Holder::Worker(worker("w")));
    assert_eq!(registry.session_holder(&tenant("globex"), session_ref()).await.unwrap(), Holder::Nobody);
    // The question changed nothing: the first job may still make the session.
    assert_eq!(target(registry.admit(&first).await.unwrap()), on("w", true));
    registry.end_session(tenant_ref(), session_ref(), worker_ref("w"), None, Gone::Closed).await.unwrap();
    assert_eq!(of("s").await, Holder::Nobody);

    let mut announced = beat("w");
    announced.sessions = vec![held("idle"), held("evicted"), held("lost"), held("left")];
    registry.heartbeat(&announced, TTL).await.unwrap();
    for (name, gone) in [("idle", Gone::Expired), ("evicted", Gone::Evicted), ("lost", Gone::Lost)] {
        assert_eq!(of(name).await, Holder::Worker(worker("w")));
        registry.end_session(tenant_ref(), &session(name), worker_ref("w"), None, gone).await.unwrap();
        assert_eq!(of(name).await, Holder::Gone(gone));
    }
    registry.leave(&worker("w")).await.unwrap();
    assert_eq!(of("left").await, Holder::Gone(Gone::Lost));
    assert_eq!(of("idle").await, Holder::Gone(Gone::Expired), "the first reason stays");

    let mut silent = beat("v");
    silent.sessions = vec![held("silent")];
    registry.heartbeat(&silent, BRIEF).await.unwrap();
    until("its death", || async { of("silent").await == Holder::Gone(Gone::Lost) }).await;
    registry.heartbeat(&silent, TTL).await.unwrap();
    assert_eq!(of("silent").await, Holder::Worker(worker("v")), "it was only late");
}
