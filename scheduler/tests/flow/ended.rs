//! What is left of jobs that have ended, and what a second copy of them must not do.

use std::sync::Arc;
use std::time::Duration;

use thermae_backplane::bus::{Message, QueueSpec};
use thermae_backplane::record::{Start, digest};
use thermae_backplane::registry::{Admit, Admitted, Budget, JobKey, Keep, Local, ShelveRequest, outcome_of};
use thermae_backplane::stored::Wanted;
use thermae_schemas::{Cancel, ErrorCode, JobId, Status, TenantName, names};
use thermae_service::units::Millis;

use crate::fleet::{LONG, Servers, depth, job, options, pool, soon};

fn now_ms() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(now.as_millis()).unwrap()
}

/// A submit message of a client that sends only what is required.
fn submit(body: &str, reply_to: String) -> Message {
    Message {
        exchange: names::SUBMIT.to_owned(),
        key: "acme.normal.default".to_owned(),
        body: body.as_bytes().to_vec().into(),
        reply_to: Some(reply_to),
        mandatory: true,
        persistent: true,
        ..Message::default()
    }
}

async fn publish(servers: &Servers, mut message: Message) {
    message.sign(servers.bus.as_ref(), &TenantName::new("acme").unwrap());
    servers.bus.publish(message).await.unwrap().wait().await.unwrap();
}

#[tokio::test]
async fn a_copy_that_is_older_than_records_live_is_not_handed_out_again() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let worker = servers.worker("w1", 1).await;
    let mut jobs = worker.take().await;
    let client = servers.client("acme").await;
    let handle = client.submit(job("old"), None).await.unwrap();
    let mut copy = soon(jobs.recv()).await.unwrap();
    assert!(copy.delivery.message.headers.int(names::H_EXPIRES).is_some(), "every copy says until when it counts");
    Arc::make_mut(&mut copy.delivery.message).headers.set_int(names::H_EXPIRES, 1);
    worker.hand_over(copy).await;
    let outcome = soon(handle.result()).await.unwrap();
    assert_eq!(outcome.error.unwrap().code, ErrorCode::SubmissionExpired);
    assert!(jobs.try_recv().is_err());
    scheduler.stop().await;
}

#[tokio::test]
async fn a_job_whose_outcome_is_forgotten_does_not_run_again() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let mut worker = servers.worker("w1", 1).await;
    worker.keep.outcome = Duration::ZERO;
    let mut order = worker.work("ran\n").await;
    let first = servers.client("acme").await;
    let ran = soon(first.submit(job("j"), None).await.unwrap().result()).await.unwrap();
    assert_eq!(ran.stdout, "ran\n", "what is not kept is told once");
    let second = servers.client("acme").await;
    let outcome = soon(second.submit(job("j"), None).await.unwrap().result()).await.unwrap();
    let error = outcome.error.unwrap();
    assert_eq!((outcome.status, error.code), (Status::Lost, ErrorCode::OutcomeExpired));
    assert!(error.message.contains("succeeded"), "{}", error.message);
    assert_eq!(soon(order.recv()).await.unwrap().1, "j");
    assert!(order.try_recv().is_err(), "it ran again");
    scheduler.stop().await;
}

/// The key of a job that has ended and whose outcome is in the store.
async fn stored(servers: &Servers, id: &str) -> JobKey {
    let key = JobKey::new(TenantName::new("acme").unwrap(), JobId::new(id).unwrap());
    let record = servers.registry.lookup(&key).await.unwrap().unwrap();
    let outcome = outcome_of(&record).unwrap();
    let keep = Keep { outcome: LONG, record: LONG, budget: Budget { tenant: 1 << 30, all: 1 << 30 } };
    let request = ShelveRequest { job: key.clone(), digest: digest(outcome), bytes: outcome.len(), keep };
    assert!(servers.registry.shelve(&request).await.unwrap());
    key
}

#[tokio::test]
async fn an_outcome_in_the_store_is_asked_of_the_workers() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let mut order = servers.worker("w1", 1).await.work("ran\n").await;
    let mut named = job("j");
    named.idempotency_key = Some("key".to_owned());
    let first = servers.client("acme").await;
    soon(first.submit(named.clone(), None).await.unwrap().result()).await.unwrap();
    let key = stored(&servers, "j").await;
    // No worker has a store, so the scheduler itself answers.
    let second = servers.client("acme").await;
    let outcome = soon(second.submit(named.clone(), None).await.unwrap().result()).await.unwrap();
    assert_eq!((outcome.status, outcome.error.unwrap().code), (Status::Lost, ErrorCode::OutcomeExpired));

    servers.bus.declare_queue(&QueueSpec::outcomes()).await.unwrap();
    let mut requests = servers.bus.consume(names::OUTCOMES_QUEUE, 0).await.unwrap();
    let client = servers.client("acme").await;
    let _same = client.submit(named.clone(), None).await.unwrap();
    let asked = soon(requests.next()).await.unwrap();
    let wanted = Wanted::read(&asked.message).unwrap();
    assert_eq!((wanted.key(), wanted.status, &wanted.follower), (key.clone(), Status::Succeeded, &None));
    assert_eq!(asked.message.reply_to, Some(names::reply_key(client.tenant(), client.id())));
    assert!(asked.message.correlation_id.is_some());
    // A second job with the same idempotency key, which gets the outcome of the first.
    named.id = JobId::new("equal").unwrap();
    let _equal = client.submit(named, None).await.unwrap();
    let wanted = Wanted::read(&soon(requests.next()).await.unwrap().message).unwrap();
    let follower = wanted.follower.unwrap();
    assert_eq!((wanted.job, follower.job.as_str(), follower.pool.as_str()), (key.job, "equal", "default"));
    soon(order.recv()).await.unwrap();
    assert!(order.try_recv().is_err(), "it ran again");
    scheduler.stop().await;
}

#[tokio::test]
async fn how_full_the_registry_is_can_be_seen() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let _order = servers.worker("w1", 1).await.work("ran\n").await;
    let client = servers.client("acme").await;
    soon(client.submit(job("j"), None).await.unwrap().result()).await.unwrap();
    soon(async {
        while scheduler.metric("thermae_scheduler_outcome_bytes", "") < 200.0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(scheduler.metric("thermae_scheduler_outcome_max_bytes", ""), f64::from(1 << 30));
    stored(&servers, "j").await;
    soon(async {
        while scheduler.metric("thermae_scheduler_outcome_bytes", "") > 0.0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    scheduler.stop().await;
}

#[tokio::test]
async fn a_pool_may_say_how_long_its_outcomes_are_kept() {
    let servers = Servers::new();
    let mut options = options();
    options.outcome_ttl = Millis::from_millis(0);
    options.pools.get_mut(&pool()).unwrap().outcome_ttl = Some(Millis::from_secs(3600));
    let scheduler = servers.scheduler(options).await;
    let client = servers.client("acme").await;
    let mut refused = job("j");
    refused.max_attempts = 1000;
    soon(client.submit(refused, None).await.unwrap().result()).await.unwrap();
    let key = JobKey::new(client.tenant().clone(), JobId::new("j").unwrap());
    let record = servers.registry.lookup(&key).await.unwrap().unwrap();
    assert!(outcome_of(&record).is_some(), "its pool's time counts");
    scheduler.stop().await;
}

#[tokio::test]
async fn a_cancel_is_remembered_for_longer_than_its_outcome() {
    let servers = Servers::new();
    let mut options = options();
    options.outcome_ttl = Millis::from_millis(0);
    let scheduler = servers.scheduler(options).await;
    let client = servers.client("acme").await;
    let cancel = Message {
        key: names::cancel_key(client.tenant()),
        body: serde_json::to_vec(&Cancel::new(JobId::new("j").unwrap())).unwrap().into(),
        ..submit("", names::reply_key(client.tenant(), client.id()))
    };
    publish(&servers, cancel).await;
    let key = JobKey::new(client.tenant().clone(), JobId::new("j").unwrap());
    soon(async {
        while servers.registry.lookup(&key).await.unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    // The job reaches the head of its queue only now.
    let mut order = servers.worker("w1", 1).await.work("ran\n").await;
    let outcome = soon(client.submit(job("j"), None).await.unwrap().result()).await.unwrap();
    let error = outcome.error.unwrap();
    assert_eq!(error.code, ErrorCode::OutcomeExpired);
    assert!(error.message.contains("cancelled"), "{}", error.message);
    assert!(order.try_recv().is_err(), "it ran");
    scheduler.stop().await;
}

#[tokio::test]
async fn an_id_names_one_job() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let worker = servers.worker("w1", 1).await;
    let client = servers.client("acme").await;
    let mut jobs = worker.take().await;
    let first = client.submit(job("j"), None).await.unwrap();
    let assigned = soon(jobs.recv()).await.unwrap();
    let other = servers.client("acme").await;
    let mut different = job("j");
    different.code = "print(3)".to_owned();
    let refused = soon(other.submit(different.clone(), None).await.unwrap().result()).await.unwrap();
    assert_eq!((refused.status, refused.error.unwrap().code), (Status::Rejected, ErrorCode::IdConflict));
    // A body that is not a valid job doesn't end the first one either.
    different.max_attempts = 1000;
    let refused = soon(other.submit(different.clone(), None).await.unwrap().result()).await.unwrap();
    assert_eq!(refused.error.unwrap().code, ErrorCode::IdConflict);
    assert_eq!(worker.start(&assigned).await, Start::Go);
    worker.finish(&assigned, "first\n").await;
    assert_eq!(soon(first.result()).await.unwrap().stdout, "first\n");
    different.max_attempts = 1;
    let refused = soon(other.submit(different, None).await.unwrap().result()).await.unwrap();
    assert_eq!(refused.error.unwrap().code, ErrorCode::IdConflict);
    scheduler.stop().await;
}

#[tokio::test]
async fn a_message_that_is_too_old_is_refused() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let client = servers.client("acme").await;
    let mut order = servers.worker("w1", 1).await.work("ran\n").await;
    for (n, header) in [(1.0, names::H_SUBMITTED), (2.0, names::H_RECEIVED)] {
        let body = format!(r#"{{"id": "old-{n}", "code": ""}}"#);
        let mut old = submit(&body, names::reply_key(client.tenant(), client.id()));
        old.headers.set_int(header, now_ms() - 25 * 3600 * 1000);
        publish(&servers, old).await;
        soon(async {
            while scheduler.metric("thermae_scheduler_rejected_total", "submission_expired") < n {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
    }
    assert!(order.try_recv().is_err(), "it ran");
    scheduler.stop().await;
}

#[tokio::test]
async fn a_cancel_outlives_the_worker_that_should_have_heard_it() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let dying = servers.worker("dying", 1).await;
    let client = servers.client("acme").await;
    let mut jobs = dying.take().await;
    let mut often = job("j");
    often.max_attempts = 3;
    let handle = client.submit(often, None).await.unwrap();
    let running = soon(jobs.recv()).await.unwrap();
    assert_eq!(dying.start(&running).await, Start::Go);
    handle.cancel().await.unwrap();
    depth(&servers, &names::control_queue(&dying.id), |d| d == Some(1)).await;
    drop((running, jobs));
    dying.bus.close().await;
    let mut order = servers.worker("other", 1).await.work("again\n").await;
    assert_eq!(soon(handle.result()).await.unwrap().status, Status::Cancelled);
    assert!(order.try_recv().is_err(), "it ran again");
    scheduler.stop().await;
}

#[tokio::test]
async fn who_asks_again_for_a_job_whose_worker_is_silent_gets_an_answer() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let worker = servers.worker("w1", 1).await;
    let client = servers.client("acme").await;
    let mut jobs = worker.take().await;
    let handle = client.submit(job("j"), None).await.unwrap();
    let running = soon(jobs.recv()).await.unwrap();
    assert_eq!(worker.start(&running).await, Start::Go);
    // No copy is left that could be resolved, and the worker is silent.
    running.delivery.ack().await.unwrap();
    let key = running.key.clone();
    soon(async {
        while !matches!(servers.registry.admit(&probe(&key)).await.unwrap(), Admitted::Lapsed(_)) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let again = serde_json::to_string(&job("j")).unwrap();
    publish(&servers, submit(&again, names::reply_key(client.tenant(), client.id()))).await;
    assert_eq!(soon(handle.result()).await.unwrap().status, Status::Lost);
    scheduler.stop().await;
}

/// An admission that asks for the job's state. It has no credit, so it changes nothing.
fn probe(key: &JobKey) -> Admit {
    Admit {
        job: key.clone(),
        pool: crate::fleet::pool(),
        credit: 0,
        tenant_limit: None,
        tenant_share: None,
        max_attempts: 1,
        reply_key: None,
        correlation_id: None,
        digest: String::new(),
        idempotency_key: None,
        session: None,
        repeat: None,
        credit_ttl: Duration::ZERO,
        ttl: Duration::from_secs(3600),
    }
}

#[tokio::test]
async fn a_client_that_says_no_time_starts_nothing_twice_after_the_registry_was_emptied() {
    for ahead in [None, Some(4 * 60 * 1000)] {
        let registry = Arc::new(Local::new());
        let servers = Servers::on(registry.clone());
        let scheduler = servers.scheduler(options()).await;
        let worker = servers.worker("w1", 1).await;
        let client = servers.client("acme").await;
        let mut jobs = worker.take().await;
        let mut message = submit(r#"{"id": "j", "code": ""}"#, names::reply_key(client.tenant(), client.id()));
        if let Some(ahead) = ahead {
            // The client's clock is ahead.
            message.headers.set_int(names::H_SUBMITTED, now_ms() + ahead);
        }
        publish(&servers, message.clone()).await;
        let running = soon(jobs.recv()).await.unwrap();
        assert_eq!(worker.start(&running).await, Start::Go);
        registry.empty();
        worker.beat(thermae_schemas::WorkerState::Ready, crate::fleet::LONG).await;
        // The client sends it again, and no worker announces the first run.
        message.headers.set_flag(names::H_RESEND, true);
        publish(&servers, message).await;
        let copy = soon(jobs.recv()).await.unwrap();
        assert_eq!(worker.start(&copy).await, Start::Resolve, "it would start twice (clock ahead: {ahead:?})");
        scheduler.stop().await;
    }
}

#[tokio::test]
async fn as_long_as_no_record_was_ever_lost_a_repeat_without_a_record_starts() {
    let registry = Arc::new(Local::new());
    let servers = Servers::on(registry.clone());
    let first = servers.scheduler(options()).await;
    depth(&servers, names::EPOCHS_QUEUE, |depth| depth == Some(1)).await;
    first.stop().await;
    let worker = servers.worker("w1", 2).await;
    let mut jobs = worker.take().await;
    let client = servers.client("acme").await;
    // The next scheduler reads what the first one wrote down, and so does one that starts after the registry was
    // emptied.
    for (name, goes) in [("first", Start::Go), ("later", Start::Resolve)] {
        let scheduler = servers.scheduler(options()).await;
        let mut message =
            submit(&format!(r#"{{"id": "{name}", "code": ""}}"#), names::reply_key(client.tenant(), client.id()));
        message.headers.set_flag(names::H_RESEND, true);
        publish(&servers, message).await;
        let running = soon(jobs.recv()).await.unwrap();
        assert_eq!(worker.start(&running).await, goes, "in the {name} epoch");
        scheduler.stop().await;
        registry.empty();
        worker.beat(thermae_schemas::WorkerState::Ready, crate::fleet::LONG).await;
    }
}
