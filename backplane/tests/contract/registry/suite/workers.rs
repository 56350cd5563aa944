//! Workers, their heartbeats, and the choice of a leader.

use thermae_backplane::record::{Finish, Resolve, Start};
use thermae_backplane::registry::{Notice, SharedRegistry};
use thermae_schemas::{IfGone, WorkerState};

use super::super::{TTL, admit, beat, claim, finish, held, job, pool, resolve, running, start, worker};
use super::BRIEF;
use super::sessions::{in_session, on, target};
use crate::support::{soon, until};

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
    // Another lease, just as short, is taken later and not renewed. When it has passed, the first one would have, too.
    registry.admit(&admit("b")).await.unwrap();
    let mut other = start("b", claim(1, "v", "o"), &epoch);
    other.lease = BRIEF;
    registry.start(&other).await.unwrap();
    until("the other lease to pass", || async {
        registry.resolve(&resolve("b", 1, 1)).await.unwrap() == Resolve::Lost
    })
    .await;
    assert!(matches!(registry.resolve(&resolve("a", 1, 1)).await.unwrap().what, Resolve::Hold(_)));
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

pub async fn changes_are_told(registry: SharedRegistry) {
    let epoch = registry.epoch().await.unwrap();
    let mut news = registry.notices();
    registry.heartbeat(&beat("w"), TTL).await.unwrap();
    assert_eq!(soon("news of a worker", news.recv()).await.unwrap(), Notice::Workers);
    // Nothing has changed, so there is no notice. The next notice is about the next change.
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
    // A worker returns with the same heartbeat as before.
    registry.leave(&worker("b")).await.unwrap();
    assert_eq!(registry.workers().await.unwrap(), [a.clone()]);
    registry.heartbeat(&b, TTL).await.unwrap();
    assert_eq!(registry.workers().await.unwrap(), [a.clone(), b.clone()]);
    // A worker left and was buried between two looks, and another one came.
    registry.leave(&worker("b")).await.unwrap();
    registry.bury(&worker("b")).await.unwrap();
    registry.heartbeat(&beat("c"), TTL).await.unwrap();
    assert_eq!(registry.workers().await.unwrap(), [a.clone(), beat("c")]);
    registry.heartbeat(&b, BRIEF).await.unwrap();
    until("the end of b", || async { registry.workers().await.unwrap() == [a.clone(), beat("c")] }).await;
    assert!(registry.unreadable_workers().is_empty());
}
