//! Workers that die, and copies whose fate is unknown.

use std::time::Duration;

use thermae_backplane::bus::Message;
use thermae_backplane::record::Start;
use thermae_schemas::{
    ErrorCode, PoolName, SessionHeld, SessionName, SessionRequest, Status, TenantName, WorkerState, names,
};

use crate::fleet::{LONG, Servers, depth, job, options, soon};

fn in_session(id: &str, session: &str) -> thermae_schemas::Job {
    let mut job = job(id);
    job.session = Some(SessionRequest::new(SessionName::new(session).unwrap()));
    job
}

#[tokio::test]
async fn started_code_of_a_dead_worker_is_lost_and_not_started_again() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let dying = servers.worker("dying", 1).await;
    let client = servers.client("acme").await;
    let mut jobs = dying.take().await;
    let handle = client.submit(job("j"), None).await.unwrap();
    let running = soon(jobs.recv()).await.unwrap();
    assert_eq!(dying.start(&running).await, Start::Go);
    // Its connection breaks, and the broker gives the job to another worker, marked as redelivered.
    drop((running, jobs));
    dying.bus.close().await;
    let mut order = servers.worker("other", 1).await.work("again\n").await;
    let outcome = soon(handle.result()).await.unwrap();
    assert_eq!(outcome.status, Status::Lost);
    let error = outcome.error.unwrap();
    assert_eq!(error.code, ErrorCode::WorkerLost);
    assert!(error.message.contains("dying") && !error.safe_to_retry, "{error:?}");
    assert!(order.try_recv().is_err(), "it ran again");
    scheduler.stop().await;
}

#[tokio::test]
async fn code_that_may_run_twice_is_started_again() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let dying = servers.worker("dying", 1).await;
    let client = servers.client("acme").await;
    let mut jobs = dying.take().await;
    let mut twice = job("j");
    twice.max_attempts = 2;
    let handle = client.submit(twice, None).await.unwrap();
    let running = soon(jobs.recv()).await.unwrap();
    assert_eq!(dying.start(&running).await, Start::Go);
    drop((running, jobs));
    dying.bus.close().await;
    let mut order = servers.worker("other", 1).await.work("again\n").await;
    let outcome = soon(handle.result()).await.unwrap();
    assert_eq!((outcome.status, outcome.stdout.as_str()), (Status::Succeeded, "again\n"));
    assert_eq!(order.recv().await.unwrap().1, "j");
    scheduler.stop().await;
}

#[tokio::test]
async fn what_waits_for_a_session_of_a_dead_worker_is_told_that_it_is_lost() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let mut dying = servers.worker("dying", 1).await;
    dying.sessions = vec![SessionHeld {
        tenant: TenantName::new("acme").unwrap(),
        session: SessionName::new("s").unwrap(),
        pool: PoolName::new("default").unwrap(),
        expires_in_ms: 1000,
        evictable: false,
    }];
    dying.beat(WorkerState::Ready, LONG).await;
    let client = servers.client("acme").await;
    // A session's job goes to the queue of the one worker, which never takes it.
    let handle = client.submit(in_session("j", "s"), None).await.unwrap();
    let queue = names::worker_queue(&dying.id);
    depth(&servers, &queue, |d| d == Some(1)).await;
    dying.beat(WorkerState::Ready, Duration::from_millis(20)).await;
    let outcome = soon(handle.result()).await.unwrap();
    assert_eq!(outcome.status, Status::Rejected);
    let error = outcome.error.unwrap();
    assert_eq!(error.code, ErrorCode::SessionLost);
    assert!(error.safe_to_retry, "nothing of it ran");
    scheduler.stop().await;
}

#[tokio::test]
async fn what_waits_for_a_dead_worker_is_not_forgotten() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let dying = servers.worker("dying", 1).await;
    let client = servers.client("acme").await;
    // A session's job goes to the queue of the one worker, which never takes it.
    let handle = client.submit(in_session("j", "s"), None).await.unwrap();
    let queue = names::worker_queue(&dying.id);
    depth(&servers, &queue, |d| d == Some(1)).await;
    dying.beat(WorkerState::Ready, Duration::from_millis(20)).await;
    depth(&servers, &queue, |d| d.is_none()).await;
    // The job that was to create it has not started, so the next worker does.
    let next = servers.worker("next", 1).await;
    let mut jobs = next.take().await;
    let again = soon(jobs.recv()).await.unwrap();
    assert_eq!((again.id(), again.delivery.message.headers.flag(names::H_SESSION_CREATE)), ("j", true));
    assert_eq!(next.start(&again).await, Start::Go);
    next.finish(&again, "made\n").await;
    assert_eq!(soon(handle.result()).await.unwrap().stdout, "made\n");
    soon(async {
        while !servers.registry.dead_workers().await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    assert!(scheduler.metric("thermae_scheduler_drained_total", "") >= 1.0);
    scheduler.stop().await;
}

#[tokio::test]
async fn a_job_that_kills_every_worker_before_it_starts_is_given_up() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let worker = servers.worker("w1", 1).await;
    let client = servers.client("acme").await;
    let handle = client.submit(job("poison"), None).await.unwrap();
    let mut jobs = worker.take().await;
    let given_up = async {
        // Like the delivery limit.
        while let Some(job) = jobs.recv().await {
            job.delivery.dead_letter().await.unwrap();
        }
    };
    let outcome = tokio::select! {
        outcome = soon(handle.result()) => outcome.unwrap(),
        () = given_up => panic!("the queue is gone"),
    };
    assert_eq!(outcome.status, Status::Rejected);
    assert_eq!(outcome.error.unwrap().code, ErrorCode::DeliveryLimit);
    scheduler.stop().await;
}

#[tokio::test]
async fn a_dead_submit_message_is_submitted_again() {
    let servers = Servers::new();
    let client = servers.client("acme").await;
    // RabbitMQ does this with a submit message that schedulers dropped too often.
    let mut dead = Message {
        exchange: names::RESOLVE.to_owned(),
        key: "acme.normal.default".to_owned(),
        body: br#"{"id": "unlucky", "code": ""}"#.to_vec().into(),
        message_id: Some("unlucky".to_owned()),
        reply_to: Some(names::reply_key(client.tenant(), client.id())),
        ..Message::default()
    };
    dead.sign(servers.bus.as_ref(), client.tenant());
    dead.headers.set_text(names::H_DEAD_REASON, "delivery_limit");
    dead.headers.set_text(names::H_DEAD_QUEUE, "submit.acme.normal.default");
    servers.bus.publish(dead).await.unwrap().wait().await.unwrap();
    let mut order = servers.worker("w1", 1).await.work("").await;
    let scheduler = servers.scheduler(options()).await;
    assert_eq!(soon(order.recv()).await.unwrap().1, "unlucky");
    scheduler.stop().await;
}

#[tokio::test]
async fn an_emptied_registry_makes_nothing_run_twice() {
    let registry = std::sync::Arc::new(thermae_backplane::registry::Local::new());
    let servers = Servers::on(registry.clone());
    let scheduler = servers.scheduler(options()).await;
    let worker = servers.worker("w1", 1).await;
    let client = servers.client("acme").await;
    let mut jobs = worker.take().await;
    let handle = client.submit(job("j"), None).await.unwrap();
    let running = soon(jobs.recv()).await.unwrap();
    assert_eq!(worker.start(&running).await, Start::Go);
    registry.empty();
    // A copy appears, and its worker is silent.
    worker.hand_over(running).await;
    let outcome = soon(handle.result()).await.unwrap();
    assert_eq!((outcome.status, outcome.error.unwrap().code), (Status::Lost, ErrorCode::RecordLost));
    scheduler.stop().await;
}

#[tokio::test]
async fn an_emptied_registry_forgets_no_dead_workers_queue() {
    let registry = std::sync::Arc::new(thermae_backplane::registry::Local::new());
    let servers = Servers::on(registry.clone());
    let scheduler = servers.scheduler(options()).await;
    let dying = servers.worker("dying", 1).await;
    let client = servers.client("acme").await;
    let handle = client.submit(in_session("j", "s"), None).await.unwrap();
    let queue = names::worker_queue(&dying.id);
    depth(&servers, &queue, |d| d == Some(1)).await;
    // Like a reboot of the host: the scheduler, the worker and all of the registry's data are gone at once.
    scheduler.kill().await;
    registry.empty();
    let next = servers.scheduler(options()).await;
    let outcome = soon(handle.result()).await.unwrap();
    assert!(matches!(outcome.status, Status::Lost | Status::Rejected), "{outcome:?}");
    depth(&servers, &queue, |d| d.is_none()).await;
    next.stop().await;
}

#[tokio::test]
async fn a_burial_under_way_survives_an_emptied_registry() {
    let registry = std::sync::Arc::new(thermae_backplane::registry::Local::new());
    let servers = Servers::on(registry.clone());
    let mut options = options();
    options.worker_grace = Duration::from_millis(400).into();
    let scheduler = servers.scheduler(options).await;
    let dying = servers.worker("dying", 1).await;
    let client = servers.client("acme").await;
    let first = client.submit(in_session("j", "s"), None).await.unwrap();
    let queue = names::worker_queue(&dying.id);
    depth(&servers, &queue, |d| d == Some(1)).await;
    let held = dying.take().await.recv().await.unwrap();
    dying.beat(WorkerState::Ready, Duration::from_millis(20)).await;
    depth(&servers, &queue, |d| d == Some(0)).await;
    registry.empty();
    // The messages that the dead worker held come back only now.
    drop(held);
    dying.bus.close().await;
    soon(first.result()).await.unwrap();
    depth(&servers, &queue, |d| d.is_none()).await;
    scheduler.stop().await;
}

#[tokio::test]
async fn the_queue_of_a_worker_that_is_only_cut_off_from_the_registry_stays() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let cut_off = servers.worker("cut-off", 1).await;
    let dead = servers.worker("dead", 1).await;
    let mut jobs = cut_off.take().await;
    for worker in [&cut_off, &dead] {
        worker.beat(WorkerState::Ready, Duration::from_millis(20)).await;
    }
    depth(&servers, &names::worker_queue(&dead.id), |d| d.is_none()).await;
    let queue = names::worker_queue(&cut_off.id);
    assert_eq!(servers.bus.queue_depth(&queue).await.unwrap(), Some(0), "it is consumed");
    // The worker sends heartbeats again, and its session's jobs reach it.
    cut_off.beat(WorkerState::Ready, crate::fleet::LONG).await;
    servers.client("acme").await.submit(in_session("j", "s"), None).await.unwrap();
    assert_eq!(soon(jobs.recv()).await.unwrap().id(), "j");
    scheduler.stop().await;
}
