//! Credit: how many jobs of a pool and of a tenant may be handed out at once.

use thermae_backplane::record::{EndUnstarted, Finish, Resolve};
use thermae_backplane::registry::{Admit, Admitted, Notice, SharedRegistry};
use thermae_schemas::{Heartbeat, JobId, PoolName, RunningJob};

use super::super::{
    TTL, admit, attempt, beat, claim, end_unstarted, finish, in_order, job, pool, resolve, running, start, tenant,
};
use super::BRIEF;
use crate::support::{soon, until};

pub async fn credit_is_taken_and_given_back(registry: SharedRegistry) {
    let epoch = registry.epoch().await.unwrap();
    let mut request = admit("a");
    request.credit = 1;
    assert_eq!(attempt(&registry.admit(&request).await.unwrap()), Some(1));
    let mut second = admit("b");
    second.credit = 1;
    assert_eq!(registry.admit(&second).await.unwrap(), Admitted::NoCredit);
    assert_eq!(registry.lookup(&job("b")).await.unwrap(), None);
    // A repeat of the first job takes no more credit.
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
    registry.end_unstarted(&end_unstarted("a", "cancelled")).await.unwrap();
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

pub async fn a_cancel_that_knows_no_pool_gives_the_credit_back(registry: SharedRegistry) {
    registry.admit(&admit("a")).await.unwrap();
    assert_eq!(registry.credit_used(&pool()).await.unwrap(), 1);
    let mut cancel = end_unstarted("a", "cancelled");
    cancel.pool = None;
    assert_eq!(registry.end_unstarted(&cancel).await.unwrap(), EndUnstarted::Won);
    assert_eq!(registry.credit_used(&pool()).await.unwrap(), 0);
}

/// A heartbeat of the worker `w` that runs these jobs, each paused or not.
fn runs(jobs: &[(&str, u32, bool)]) -> Heartbeat {
    let one =
        |(name, attempt, paused): &(&str, u32, bool)| RunningJob { paused: *paused, ..running(name, *attempt, "n") };
    Heartbeat { running: jobs.iter().map(one).collect(), ..beat("w") }
}

pub async fn a_paused_job_holds_no_credit(registry: SharedRegistry) {
    let used = || async { registry.credit_used(&pool()).await.unwrap() };
    let epoch = registry.epoch().await.unwrap();
    let one = |name: &str| Admit { credit: 1, tenant_limit: Some(1), ..admit(name) };
    registry.heartbeat(&beat("w"), TTL).await.unwrap();
    registry.admit(&one("a")).await.unwrap();
    registry.start(&start("a", claim(1, "w", "n"), &epoch)).await.unwrap();
    let mut news = registry.notices();
    registry.heartbeat(&runs(&[("a", 1, false)]), TTL).await.unwrap();
    assert_eq!((used().await, registry.admit(&one("b")).await.unwrap()), (1, Admitted::NoCredit));
    // It stays its worker's, and its credit goes to the next.
    let answer = registry.heartbeat(&runs(&[("a", 1, true)]), TTL).await.unwrap();
    assert_eq!((answer.revoked, used().await), (vec![], 0));
    soon("its credit", in_order(&mut news, Notice::Credit(pool()))).await;
    assert_eq!(registry.admit(&one("a")).await.unwrap(), Admitted::UnderWay);
    assert_eq!(attempt(&registry.admit(&one("b")).await.unwrap()), Some(1));
    registry.start(&start("b", claim(1, "w", "n"), &epoch)).await.unwrap();
    assert!(matches!(registry.resolve(&resolve("a", 1, 1)).await.unwrap().what, Resolve::Hold(_)));
    // It goes on, even if that is more than the credit.
    registry.heartbeat(&runs(&[("a", 1, false), ("b", 1, false)]), TTL).await.unwrap();
    assert_eq!((used().await, registry.admit(&one("c")).await.unwrap()), (2, Admitted::NoCredit));
    registry.heartbeat(&runs(&[("a", 1, true), ("b", 1, false)]), TTL).await.unwrap();
    assert_eq!(used().await, 1);
    // Its end gives nothing back that another one holds.
    assert_eq!(registry.finish(&finish("a", claim(1, "w", "n"), "done")).await.unwrap(), Finish::Won);
    assert_eq!(used().await, 1);
    let late = registry.heartbeat(&runs(&[("a", 1, true), ("b", 1, false)]), TTL).await.unwrap();
    assert_eq!((late.revoked, used().await), (vec![job("a")], 1));
    // A job that is announced as paused to a registry that does not know it: its record is made, and takes no credit.
    let new = registry.heartbeat(&runs(&[("d", 1, true), ("b", 1, true)]), TTL).await.unwrap();
    assert_eq!((new.revoked, used().await), (vec![], 0));
    assert_eq!(registry.lookup(&job("d")).await.unwrap().unwrap().attempt, 1);
    registry.heartbeat(&runs(&[("d", 1, false), ("b", 1, true)]), TTL).await.unwrap();
    assert_eq!(used().await, 1);
    // A further attempt takes credit like any other.
    registry.abandon(&job("b"), &claim(1, "w", "n")).await.unwrap();
    assert_eq!(registry.resolve(&resolve("b", 1, 2)).await.unwrap(), Resolve::Reassign(2));
    assert_eq!(used().await, 2);
}
