//! Faults, with scripted runners: every job gets one outcome, whatever dies, and code runs once.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use thermae_backplane::bus::Message;
use thermae_backplane::record::Resolve;
use thermae_backplane::registry::{Budget, Keep, Registry, ResolveRequest};
use thermae_schemas::{ErrorCode, Status, WorkerState, names};
use thermae_service::units::Millis;
use thermae_worker::backend::Backend;
use thermae_worker::{Options, Parts, Reuse};

use crate::fake::{Fake, Script};
use crate::harness::{Fleet, Worker, options, pool_name, python, within};
use crate::outages::Cut;

/// How long the registry keeps outcomes and records.
pub const KEEP: Keep = Keep {
    outcome: Duration::from_secs(600),
    record: Duration::from_secs(600),
    budget: Budget { tenant: 1 << 20, all: 1 << 20 },
};

pub async fn scripted(fleet: &Fleet, options: Options, script: &Arc<Script>) -> Worker {
    fleet.start(options, fleet.registry.clone(), Some(Arc::new(Fake(Arc::clone(script))))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn two_deliveries_of_one_job_run_it_once() {
    let mut fleet = Fleet::new().await;
    let script = Script::new();
    let job = python("print once");
    let mut message = fleet.assign(&fleet.tenant.clone(), &job, None).await;
    message.headers.set_flag(names::H_MAYBE_DUPLICATE, true);
    // Both copies are published one after the other, while the worker runs.
    let worker = scripted(&fleet, options(), &script).await;
    for _ in 0..2 {
        fleet.bus.publish(message.clone()).await.unwrap().wait().await.unwrap();
    }
    let outcome = fleet.outcome(&job).await;
    assert_eq!((outcome.status, outcome.stdout.as_str()), (Status::Succeeded, "once"));
    // The second copy is answered from the record. If it came while the first one ran, it went to `resolve`.
    let mut resolve = fleet.bus.consume(names::RESOLVE_QUEUE, 1).await.unwrap();
    tokio::select! {
        again = fleet.outcome(&job) => assert_eq!(again, outcome),
        copy = resolve.next() => assert_eq!(copy.unwrap().message.message_id.as_deref(), Some(job.id.as_str())),
    }
    worker.end().await;
    assert_eq!(script.starts("print once"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_started_elsewhere_is_left_to_resolve() {
    let fleet = Fleet::new().await;
    let script = Script::new();
    let worker = scripted(&fleet, options(), &script).await;
    let job = python("print x");
    let message = fleet.assign(&fleet.tenant.clone(), &job, None).await;
    fleet.start_elsewhere(&job, &message).await;
    fleet.bus.publish(message.clone()).await.unwrap().wait().await.unwrap();
    let resolved = fleet.resolved().await;
    assert_eq!(
        *resolved.message,
        Message { exchange: names::RESOLVE.into(), key: String::new(), mandatory: false, ..message }
    );
    assert_eq!(script.starts("print x"), 0);
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whether_a_delivery_is_the_only_copy_is_judged_at_its_start() {
    let fleet = Fleet::new().await;
    let script = Script::new();
    // The second job is delivered, and waits for a container.
    script.room.send_replace(1);
    let backend = Some(Arc::new(Fake(Arc::clone(&script))) as Arc<_>);
    let parts = Parts { backend, early: true, ..Parts::default() };
    let worker = fleet.start_with(options(), fleet.registry.clone(), parts);
    fleet.until_state(&worker.id, WorkerState::Ready).await;
    let (first, second) = (python("hang"), python("print twice"));
    fleet.submit(&first).await;
    script.until_started("hang", 1).await;
    fleet.submit(&second).await;
    let queue = names::pool_queue(&pool_name(), 1);
    within("the second delivery", async {
        while fleet.depth(&queue).await > 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    // The broker takes back the delivery that is not settled, and the registry forgets the job.
    fleet.bus.delete_queue(&queue).await.unwrap();
    fleet.registry.empty();
    script.room.send_replace(0);
    let resolved = fleet.resolved_of(&second).await;
    assert_eq!(resolved.message.message_id.as_deref(), Some(second.id.as_str()));
    assert_eq!(script.starts("print twice"), 0, "another worker may run it at this moment");
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_dies_under_the_code_is_lost_once_and_replaced() {
    let mut fleet = Fleet::new().await;
    let script = Script::new();
    let worker = scripted(&fleet, options(), &script).await;
    let outcome = fleet.run(&python("die")).await;
    let error = outcome.error.unwrap();
    assert_eq!((outcome.status, error.code, error.safe_to_retry), (Status::Lost, ErrorCode::SandboxLost, false));
    for n in 0..6 {
        assert_eq!(
            fleet.run(&python(&format!("print {n}"))).await.status,
            Status::Succeeded,
            "the dead one is not lent again"
        );
    }
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_attempts_left_it_is_given_up_at_once_and_goes_to_resolve() {
    let fleet = Fleet::new().await;
    let script = Script::new();
    let worker = scripted(&fleet, options(), &script).await;
    let mut job = python("die");
    job.max_attempts = 2;
    fleet.submit(&job).await;
    let resolved = fleet.resolved().await;
    assert_eq!(resolved.message.headers.int(names::H_ATTEMPT), Some(1));
    let request = ResolveRequest {
        job: fleet.key(&job),
        pool: job.pool.clone(),
        attempt: 1,
        max_attempts: 2,
        lost: Default::default(),
        grace: Duration::ZERO,
        cancelled: b"cancelled".as_slice().into(),
        keep: KEEP,
    };
    assert_eq!(fleet.registry.resolve(&request).await.unwrap(), Resolve::Reassign(2));
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_never_ran_is_tried_in_another_container_under_the_same_claim() {
    let mut fleet = Fleet::new().await;
    let script = Script::new();
    script.sick.store(2, Ordering::SeqCst);
    let worker = scripted(&fleet, options(), &script).await;
    let outcome = fleet.run(&python("print well")).await;
    assert_eq!((outcome.status, outcome.stdout.as_str()), (Status::Succeeded, "well"));
    let outcome = fleet.run(&python("nostart")).await;
    let error = outcome.error.unwrap();
    assert_eq!((outcome.status, error.code, error.safe_to_retry), (Status::Rejected, ErrorCode::SandboxFailed, true));
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_that_does_not_answer_a_kill_dies_with_its_container() {
    let mut fleet = Fleet::new().await;
    let script = Script::new();
    let mut options = options();
    let pool = options.pools.get_mut(&pool_name()).unwrap();
    (pool.ping_every, pool.ping_within) = (Millis::from_millis(50), Millis::from_millis(50));
    let worker = scripted(&fleet, options, &script).await;
    let outcome = fleet.run(&python("deaf")).await;
    let error = outcome.error.unwrap();
    assert_eq!((outcome.status, error.code), (Status::Lost, ErrorCode::SandboxLost));
    assert!(error.message.contains("hangs"), "{}", error.message);
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_engine_loses_nothing_and_shows() {
    let mut fleet = Fleet::new().await;
    let script = Script::new();
    script.broken.send_replace(true);
    let backend = Arc::new(Fake(Arc::clone(&script)));
    let worker = fleet.start_unready(options(), fleet.registry.clone(), Some(backend));
    fleet.until_state(&worker.id, WorkerState::Unhealthy).await;
    assert!(worker.health.states()["pools"].detail.contains("the engine is down"));
    let job = python("print patient");
    fleet.submit(&job).await;
    assert_eq!(fleet.depth(&names::pool_queue(&job.pool, 1)).await, 1, "nobody takes it");
    script.broken.send_replace(false);
    assert_eq!(fleet.outcome(&job).await.stdout, "patient");
    fleet.until_state(&worker.id, WorkerState::Ready).await;
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_gives_back_what_has_not_started_and_lets_the_rest_end() {
    let mut fleet = Fleet::new().await;
    let script = Script::new();
    let mut options = options();
    let pool = options.pools.get_mut(&pool_name()).unwrap();
    (pool.slots, pool.warm) = (Some(1), Some(1));
    let worker = scripted(&fleet, options.clone(), &script).await;
    let (running, waiting) = (python("hang"), python("print later"));
    fleet.submit(&running).await;
    script.until_started("hang", 1).await;
    fleet.submit(&waiting).await;
    worker.drain.cancel();
    fleet.until_state(&worker.id, WorkerState::Draining).await;
    assert_eq!(script.starts("print later"), 0);
    // It still receives cancels.
    fleet.cancel(&worker.id, &running).await;
    assert_eq!(fleet.outcome(&running).await.status, Status::Cancelled);
    worker.end().await;
    assert_eq!(script.made.load(Ordering::SeqCst), script.destroyed.load(Ordering::SeqCst), "no container is left");
    let next = scripted(&fleet, options, &script).await;
    assert_eq!(fleet.outcome(&waiting).await.stdout, "later");
    next.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_grace_what_still_runs_is_lost_with_the_reason_or_tried_elsewhere() {
    let mut fleet = Fleet::new().await;
    let script = Script::new();
    let mut options = options();
    options.drain_grace = Millis::from_millis(50);
    let worker = scripted(&fleet, options, &script).await;
    let (once, twice) = (python("hang once"), {
        let mut job = python("hang twice");
        job.max_attempts = 2;
        job
    });
    fleet.submit(&once).await;
    fleet.submit(&twice).await;
    script.until_started("hang once", 1).await;
    script.until_started("hang twice", 1).await;
    worker.end().await;
    let outcome = fleet.outcome(&once).await;
    assert_eq!((outcome.status, outcome.error.unwrap().code), (Status::Lost, ErrorCode::WorkerStopped));
    assert_eq!(fleet.resolved().await.message.message_id.as_deref(), Some(twice.id.as_str()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_key_that_nobody_binds_costs_nothing_but_the_reply() {
    let fleet = Fleet::new().await;
    let script = Script::new();
    let worker = scripted(&fleet, options(), &script).await;
    let job = python("print unheard");
    let mut message = fleet.assign(&fleet.tenant.clone(), &job, None).await;
    message.reply_to = Some("acme.gone".into());
    fleet.bus.publish(message).await.unwrap().wait().await.unwrap();
    let recorded = fleet.until_recorded(&job).await;
    assert!(recorded.contains("unheard"), "{recorded}");
    worker.end().await;
    assert_eq!(fleet.depth(&names::pool_queue(&job.pool, 1)).await, 0, "it was acknowledged");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_panics_leaves_its_delivery_to_resolve_and_its_slot_to_others() {
    let mut fleet = Fleet::new().await;
    let (script, registry) = (Script::new(), Cut::new(&fleet.registry));
    let worker = fleet.start(options(), registry.clone(), Some(Arc::new(Fake(Arc::clone(&script))))).await;
    registry.finishes_panic.store(true, Ordering::SeqCst);
    let job = python("print started");
    fleet.submit(&job).await;
    let copy = fleet.resolved().await;
    assert_eq!(copy.message.message_id.as_deref(), Some(job.id.as_str()));
    assert_eq!(worker.count("thermae_worker_deliveries_returned_total", "panicked"), 1.0);
    // As many jobs as there are slots still run.
    let next = [python("print a"), python("print b")];
    for job in &next {
        fleet.submit(job).await;
    }
    for job in &next {
        assert_eq!(fleet.outcome(job).await.status, Status::Succeeded);
    }
    worker.end().await;
    assert_eq!(fleet.depth(&names::pool_queue(&job.pool, 1)).await, 0, "it was acknowledged");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_heart_panics_ends_with_an_error() {
    let fleet = Fleet::new().await;
    let (script, registry) = (Script::new(), Cut::new(&fleet.registry));
    let worker = fleet.start(options(), registry.clone(), Some(Arc::new(Fake(Arc::clone(&script))))).await;
    registry.heartbeats_panic.store(true, Ordering::SeqCst);
    let ended = within("the worker's end", worker.run).await.unwrap();
    assert!(matches!(&ended, Err(thermae_worker::Error::Panicked(_))), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_was_buried_declares_its_queues_again_and_only_then_takes_jobs() {
    let mut fleet = Fleet::new().await;
    let script = Script::new();
    let worker = scripted(&fleet, options(), &script).await;
    let own = [names::worker_queue(&worker.id), names::control_queue(&worker.id), names::calls_queue(&worker.id)];
    while fleet.bus.queue_depth(names::WORKERS_QUEUE).await.unwrap() != Some(0) {
        // The entry that the worker made when it started.
        let mut journal = fleet.bus.consume(names::WORKERS_QUEUE, 1).await.unwrap();
        within("the entry", journal.next()).await.unwrap().ack().await.unwrap();
    }
    for queue in &own {
        fleet.bus.delete_queue(queue).await.unwrap();
    }
    for queue in &own {
        within("the queue", async {
            while fleet.bus.queue_depth(queue).await.unwrap().is_none() {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        })
        .await;
    }
    assert_eq!(fleet.depth(names::WORKERS_QUEUE).await, 1, "it is written down again");
    fleet.until_state(&worker.id, WorkerState::Ready).await;
    // The worker receives cancels, and jobs for it alone.
    let job = python("hang");
    fleet.submit(&job).await;
    script.until_started("hang", 1).await;
    fleet.cancel(&worker.id, &job).await;
    assert_eq!(fleet.outcome(&job).await.status, Status::Cancelled);
    let mut message = fleet.assign(&fleet.tenant.clone(), &python("print here"), None).await;
    message.key = names::worker_key(&worker.id);
    fleet.bus.publish(message).await.unwrap().wait().await.unwrap();
    script.until_started("print here", 1).await;
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_inner_wall_a_worker_starts_only_where_that_was_asked_for() {
    let mut fleet = Fleet::new().await;
    let script = Script::new();
    script.unwalled.store(true, Ordering::SeqCst);
    let backend = || Some(Arc::new(Fake(Arc::clone(&script))) as Arc<dyn Backend>);
    for reuse in [Reuse::Tenant, Reuse::Shared] {
        let mut options = options();
        options.pools.values_mut().for_each(|pool| pool.reuse = reuse);
        let error = fleet.start_unready(options, fleet.registry.clone(), backend()).refusal().await;
        assert!(
            matches!(&error, thermae_worker::Error::NoInnerWall { why, .. } if why.contains("scripted")),
            "{error}"
        );
        assert!(error.to_string().contains("reuse = \"job\""), "{error}");
    }
    assert_eq!(script.started.lock().unwrap().len(), 0);
    let mut options = options();
    options.pools.values_mut().for_each(|pool| pool.reuse = Reuse::Job);
    let worker = fleet.start(options, fleet.registry.clone(), backend()).await;
    let pools = &worker.health.states()["pools"];
    assert!(pools.ready && pools.detail.contains("no inner wall"), "{pools:?}");
    assert_eq!(worker.count("thermae_worker_containers_unwalled", ""), 1.0);
    let job = python("print behind one wall");
    fleet.submit(&job).await;
    assert_eq!(fleet.outcome(&job).await.stdout, "behind one wall");
    worker.end().await;
}
