//! Containers that are kept ready for one tenant each: how many are kept, which ones go, and that no other tenant gets
//! them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use thermae_schemas::TenantName;
use thermae_service::units::ByteSize;
use thermae_worker::{Options, Reuse};

use crate::fake::{Fake, Script};
use crate::harness::{Fleet, Worker, options, pool_name, python, within};

const EVICTED: &str = "thermae_worker_containers_evicted_total";
const BOUND: &str = "thermae_worker_containers_bound";
const IDLE: &str = "idle";

/// Memory that a scripted container reports, and an upper bound of what the worker counts for it.
const HOLDS: u64 = 84 << 20;
const WEIGHS: u64 = 100 << 20;

/// One slot, and memory for this many idle containers of tenants.
fn room_for(containers: u64) -> Options {
    let mut options = options();
    let pool = options.pools.get_mut(&pool_name()).unwrap();
    (pool.slots, pool.warm, pool.reuse) = (Some(1), Some(1), Reuse::Tenant);
    pool.bound_memory = Some(ByteSize(containers * WEIGHS));
    options
}

async fn start(fleet: &Fleet, options: Options) -> (Worker, Arc<Script>) {
    let script = Script::new();
    script.weight.store(HOLDS, Ordering::SeqCst);
    let backend = Arc::new(Fake(Arc::clone(&script)));
    (fleet.start(options, fleet.registry.clone(), Some(backend)).await, script)
}

/// Runs a job of this tenant, and returns the name of its container.
async fn run(fleet: &mut Fleet, script: &Script, tenant: &str) -> String {
    let job = python(&format!("print {tenant}"));
    fleet.submit_as(&TenantName::new(tenant).unwrap(), &job).await;
    assert_eq!(fleet.outcome(&job).await.stdout, tenant);
    let places = script.places.lock().unwrap();
    places.last().map(|(_, container)| container.clone()).unwrap()
}

async fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let waits = async {
        while !reached() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    within(what, waits).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_than_slots_are_kept_and_the_least_recently_used_goes_first() {
    let mut fleet = Fleet::new().await;
    let (worker, script) = start(&fleet, room_for(3)).await;
    let mut of = BTreeMap::new();
    for tenant in ["a", "b", "c"] {
        of.insert(tenant, run(&mut fleet, &script, tenant).await);
    }
    until("three idle ones of tenants", || worker.count(BOUND, "") == 3.0).await;
    for tenant in ["b", "a"] {
        assert_eq!(run(&mut fleet, &script, tenant).await, of[tenant], "the tenant's own was kept");
    }
    until("three idle ones of tenants", || worker.count(BOUND, "") == 3.0).await;
    assert_eq!(worker.count(EVICTED, ""), 0.0);
    run(&mut fleet, &script, "d").await;
    until("the eviction", || worker.count(EVICTED, "") == 1.0).await;
    run(&mut fleet, &script, "e").await;
    until("the next eviction", || worker.count(EVICTED, "") == 2.0).await;
    until("their end", || script.destroyed.load(Ordering::SeqCst) == 2).await;
    assert_eq!(*script.removed.lock().unwrap(), [of["c"].clone(), of["b"].clone()], "in the order of their last use");
    assert_eq!(run(&mut fleet, &script, "a").await, of["a"]);
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_container_ever_serves_two_tenants() {
    for room in [0, 2, 10] {
        let mut fleet = Fleet::new().await;
        let (worker, script) = start(&fleet, room_for(room)).await;
        for turn in 0..3 {
            for tenant in ["a", "b", "c", "d", "e"].into_iter().skip(turn % 2) {
                run(&mut fleet, &script, tenant).await;
            }
        }
        let mut tenants: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (program, container) in script.places.lock().unwrap().iter() {
            tenants.entry(container.clone()).or_default().push(program.clone());
        }
        for (container, programs) in tenants {
            assert!(programs.iter().all(|program| *program == programs[0]), "{container}: {programs:?}");
        }
        worker.end().await;
        let (made, destroyed) = (script.made.load(Ordering::SeqCst), script.destroyed.load(Ordering::SeqCst));
        assert_eq!(made, destroyed, "a drain leaves none, whoever's");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_ones_of_tenants_take_no_place_of_those_kept_for_whoever_comes() {
    let mut fleet = Fleet::new().await;
    let mut options = room_for(0);
    options.pools.get_mut(&pool_name()).unwrap().warm = Some(2);
    let (worker, script) = start(&fleet, options).await;
    for tenant in ["a", "b", "c", "d"] {
        run(&mut fleet, &script, tenant).await;
    }
    // One slot and two warm containers: the tenants' containers get what these leave.
    until("the warm ones beside the tenants'", || {
        let bound = worker.count(BOUND, "");
        bound <= 1.0 && worker.count("thermae_worker_containers", IDLE) - bound == 2.0
    })
    .await;
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_heavier_they_say_they_are_the_fewer_are_kept() {
    let mut fleet = Fleet::new().await;
    let (worker, script) = start(&fleet, room_for(4)).await;
    for tenant in ["a", "b", "c"] {
        run(&mut fleet, &script, tenant).await;
    }
    until("three idle ones of tenants", || worker.count(BOUND, "") == 3.0).await;
    // The next proofs report the new value.
    script.weight.store(4 * HOLDS, Ordering::SeqCst);
    for tenant in ["a", "b", "c"] {
        run(&mut fleet, &script, tenant).await;
    }
    until("fewer", || worker.count(EVICTED, "") >= 2.0).await;
    worker.end().await;
}
