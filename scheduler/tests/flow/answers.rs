//! What clients get: results, refusals with their codes, and answers to duplicates.

use std::time::Duration;

use thermae_backplane::bus::QueueSpec;
use thermae_backplane::registry::{JobKey, outcome_of};
use thermae_scheduler::Options;
use thermae_schemas::{ClientId, ErrorCode, Event, EventBody, JobId, Outcome, Status, Stream, WorkerState, names};
use thermae_service::units::Millis;

use crate::fleet::{LONG, Servers, depth, job, options, pool, soon, tenant};
use crate::raw::submit_raw;

#[tokio::test]
async fn a_job_goes_from_client_to_worker_and_back() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let mut order = servers.worker("w1", 2).await.work("2\n").await;
    let client = servers.client("acme").await;
    let mut wanted = job("j1");
    wanted.stream = vec![Stream::Lifecycle];
    let mut handle = client.submit(wanted, None).await.unwrap();
    let mut events = handle.events();
    assert_eq!(soon(events.next()).await.unwrap().body, EventBody::Accepted {});
    let outcome = soon(handle.result()).await.unwrap();
    assert_eq!((outcome.status, outcome.stdout.as_str()), (Status::Succeeded, "2\n"));
    assert_eq!(order.recv().await.unwrap(), (tenant("acme"), "j1".to_owned()));
    soon(scheduler.health.wait_ready()).await;
    assert_eq!(scheduler.metric("thermae_scheduler_assigned_total", ""), 1.0);
    // No queue has anything left in it.
    for queue in ["submit.acme.normal.default", names::UNROUTED_QUEUE, names::RESOLVE_QUEUE, "work.pool.default"] {
        assert_eq!(servers.bus.queue_depth(queue).await.unwrap().unwrap_or(0), 0, "{queue}");
    }
    scheduler.stop().await;
}

/// Submits a body under a key, and returns the result that comes for it.
async fn told(servers: &Servers, key: &str, body: &str, id: Option<&str>) -> (Event, Outcome) {
    let me = ClientId::random();
    let replies = QueueSpec::replies(&tenant("acme"), &me);
    servers.bus.declare_queue(&replies).await.unwrap();
    let mut consumer = servers.bus.consume(&replies.name, 1).await.unwrap();
    submit_raw(servers, key, body.as_bytes(), &names::reply_key(&tenant("acme"), &me), id).await;
    let delivery = soon(consumer.next()).await.unwrap();
    assert_eq!(delivery.message.correlation_id.as_deref(), Some("mark"));
    let event: Event = serde_json::from_slice(&delivery.message.body).unwrap();
    let EventBody::Result(outcome) = event.body.clone() else { panic!("{event:?}") };
    (event, outcome)
}

#[tokio::test]
async fn bad_input_gets_its_code() {
    let servers = Servers::new();
    let mut options = options();
    options.admit_unknown_tenants = false;
    options.tenants.insert(tenant("acme"), Default::default());
    let scheduler = servers.scheduler(options).await;
    thermae_backplane::declare_fleet(&*servers.bus).await.unwrap();
    let large = format!(r#"{{"id": "large", "code": "{}"}}"#, "x".repeat(2 << 20));
    let cases: &[(&str, &str, ErrorCode)] = &[
        ("acme.normal.default", "{\"id\": ", ErrorCode::MalformedJson),
        ("acme.normal.default", r#"{"id": "a1", "code": "", "colour": 1}"#, ErrorCode::UnknownField),
        ("acme.normal.default", r#"{"id": "a2", "code": "", "max_attempts": 0}"#, ErrorCode::SchemaViolation),
        ("acme.normal.default", r#"{"id": "a3", "code": 7}"#, ErrorCode::SchemaViolation),
        (
            "acme.normal.default",
            r#"{"id": "a4", "code": "", "protocol": 99, "new": 1}"#,
            ErrorCode::UnsupportedProtocol,
        ),
        ("acme.normal.default", &large, ErrorCode::JobTooLarge),
        ("acme.normal.default", r#"{"id": "a5", "code": "", "language": "shell"}"#, ErrorCode::UnsupportedLanguage),
        ("acme.normal.default", r#"{"id": "a5e", "code": "", "env": {"A=B": ""}}"#, ErrorCode::SchemaViolation),
        ("acme.normal.gpu", r#"{"id": "a6", "code": "", "pool": "gpu"}"#, ErrorCode::UnknownPool),
        ("acme.normal.default", r#"{"id": "a7", "code": "", "pool": "gpu"}"#, ErrorCode::SchemaViolation),
        ("acme.urgent.default", r#"{"id": "a8", "code": ""}"#, ErrorCode::SchemaViolation),
    ];
    // Each body is sent twice: first through the unrouted queue, and then, when the lane exists, through the lane.
    for round in 0..2 {
        for (key, body, code) in cases {
            // A body that is too large is not read, so its id comes from the property.
            let property = if *code == ErrorCode::JobTooLarge { "large" } else { "named-by-property" };
            let (event, outcome) = told(&servers, key, body, Some(property)).await;
            assert_eq!(outcome.status, Status::Rejected, "{body:.60}");
            let error = outcome.error.unwrap();
            assert_eq!(error.code, *code, "{body:.60}: {error:?}");
            assert!(!error.message.is_empty());
            if *code == ErrorCode::MalformedJson {
                assert_eq!(event.job.as_str(), "named-by-property");
            }
        }
        if round == 0 {
            // A good job makes the lane.
            let lane = "submit.acme.normal.default";
            submit_raw(&servers, "acme.normal.default", br#"{"id": "good", "code": ""}"#, "acme.nobody", None).await;
            depth(&servers, lane, |d| d.is_some()).await;
        }
    }
    // The error names the path of the fault.
    let deep = r#"{"id": "a9", "code": "", "limits": {"wall_ms": 0}}"#;
    let (_, outcome) = told(&servers, "acme.normal.default", deep, None).await;
    assert!(outcome.error.unwrap().message.starts_with("/limits/wall_ms: "));
    scheduler.stop().await;
}

#[tokio::test]
async fn an_unknown_tenant_is_told_so() {
    let servers = Servers::new();
    let mut options = options();
    options.admit_unknown_tenants = false;
    let scheduler = servers.scheduler(options).await;
    let client = servers.client("globex").await;
    let outcome = soon(client.submit(job("x"), None).await.unwrap().result()).await.unwrap();
    assert_eq!(outcome.error.unwrap().code, ErrorCode::UnknownTenant);
    scheduler.stop().await;
}

#[tokio::test]
async fn a_reply_key_of_another_tenant_hears_nothing() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let _other = servers.client("globex").await;
    let replies = QueueSpec::replies(&tenant("globex"), &ClientId::new("victim").unwrap());
    servers.bus.declare_queue(&replies).await.unwrap();
    submit_raw(&servers, "acme.normal.default", br#"{"id": "spy", "code": ""}"#, "globex.victim", Some("spy")).await;
    let key = JobKey::new(tenant("acme"), JobId::new("spy").unwrap());
    let recorded = soon(async {
        loop {
            if let Some(record) = servers.registry.lookup(&key).await.unwrap()
                && let Some(outcome) = outcome_of(&record)
            {
                return outcome.clone();
            }
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    })
    .await;
    assert!(String::from_utf8_lossy(&recorded).contains("forbidden_reply_key"));
    depth(&servers, names::UNROUTED_QUEUE, |d| d == Some(0)).await;
    scheduler.stop().await;
    assert_eq!(servers.bus.queue_depth(&replies.name).await.unwrap(), Some(0));
}

#[tokio::test]
async fn a_reply_key_that_nobody_binds_loses_nothing() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let _client = servers.client("acme").await;
    let bad = br#"{"id": "gone", "code": "", "pool": "nowhere"}"#;
    submit_raw(&servers, "acme.normal.nowhere", bad, "acme.gone", None).await;
    let key = JobKey::new(tenant("acme"), JobId::new("gone").unwrap());
    soon(async {
        while servers.registry.lookup(&key).await.unwrap().is_none_or(|r| outcome_of(&r).is_none()) {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    })
    .await;
    scheduler.stop().await;
    assert_eq!(servers.bus.queue_depth(names::UNROUTED_QUEUE).await.unwrap(), Some(0));
}

#[tokio::test]
async fn messages_that_their_tenant_did_not_send_are_dropped() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let _order = servers.worker("w1", 1).await.work("").await;
    let client = servers.client("globex").await;
    soon(client.submit(job("honest"), None).await.unwrap().result()).await.unwrap();
    // RabbitMQ delivers a message like this if a tenant's own queue dead-letters it into the exchange for jobs.
    let mut forged = thermae_backplane::bus::Message {
        exchange: names::SUBMIT.to_owned(),
        key: "globex.normal.default".to_owned(),
        body: br#"{"id": "forged", "code": ""}"#.to_vec().into(),
        ..Default::default()
    };
    forged.headers.set_text(names::H_DEAD_QUEUE, "replies.acme.trap");
    forged.user_id = Some(servers.bus.user().to_owned());
    servers.bus.publish(forged).await.unwrap().wait().await.unwrap();
    soon(client.submit(job("honest-2"), None).await.unwrap().result()).await.unwrap();
    assert_eq!(scheduler.metric("thermae_scheduler_forged_total", ""), 1.0);
    let key = JobKey::new(tenant("globex"), JobId::new("forged").unwrap());
    assert_eq!(servers.registry.lookup(&key).await.unwrap(), None);
    scheduler.stop().await;
}

#[tokio::test]
async fn submitting_again_gives_the_recorded_outcome_and_runs_nothing() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let mut order = servers.worker("w1", 2).await.work("once\n").await;
    for _ in 0..3 {
        let client = servers.client("acme").await;
        let outcome = soon(client.submit(job("same"), None).await.unwrap().result()).await.unwrap();
        assert_eq!(outcome.stdout, "once\n");
    }
    order.recv().await.unwrap();
    assert!(order.try_recv().is_err(), "it ran twice");
    scheduler.stop().await;
}

#[tokio::test]
async fn a_second_client_hears_of_a_job_under_way() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let worker = servers.worker("w1", 2).await;
    let mut jobs = worker.take().await;
    let (first, second) = (servers.client("acme").await, servers.client("acme").await);
    let one = first.submit(job("same"), None).await.unwrap();
    let running = soon(jobs.recv()).await.unwrap();
    assert_eq!(worker.start(&running).await, thermae_backplane::record::Start::Go);
    let two = second.submit(job("same"), None).await.unwrap();
    depth(&servers, "submit.acme.normal.default", |d| d == Some(0)).await;
    worker.finish(&running, "shared\n").await;
    assert_eq!(soon(one.result()).await.unwrap(), soon(two.result()).await.unwrap());
    scheduler.stop().await;
}

#[tokio::test]
async fn an_idempotency_key_runs_one_job() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let worker = servers.worker("w1", 4).await;
    let mut jobs = worker.take().await;
    let client = servers.client("acme").await;
    let keyed = |id: &str, code: &str| {
        let mut job = job(id);
        job.idempotency_key = Some("order-7".to_owned());
        job.code = code.to_owned();
        job
    };
    let first = client.submit(keyed("k1", "print(1)"), None).await.unwrap();
    let running = soon(jobs.recv()).await.unwrap();
    let second = client.submit(keyed("k2", "print(1)"), None).await.unwrap();
    let other = client.submit(keyed("k3", "print(2)"), None).await.unwrap();
    let refused = soon(other.result()).await.unwrap();
    assert_eq!(refused.error.unwrap().code, ErrorCode::IdempotencyConflict);
    worker.start(&running).await;
    worker.finish(&running, "1\n").await;
    let (first, second) = (soon(first.result()).await.unwrap(), soon(second.result()).await.unwrap());
    assert_eq!((first.duplicate_of, second.duplicate_of.as_deref()), (None, Some("k1")));
    assert_eq!(first.stdout, second.stdout);
    assert!(jobs.try_recv().is_err(), "only one was handed out");
    scheduler.stop().await;
}

#[tokio::test]
async fn a_job_past_its_deadline_is_rejected_and_one_of_no_worker_waits() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let client = servers.client("acme").await;
    let mut hurried = job("hurried");
    hurried.start_within_ms = Some(30);
    let hurried = client.submit(hurried, None).await.unwrap();
    let patient = client.submit(job("patient"), None).await.unwrap();
    let outcome = soon(hurried.result()).await.unwrap();
    assert_eq!(outcome.error.unwrap().code, ErrorCode::DeadlineExceeded);
    // A worker comes only now.
    let _order = servers.worker("w1", 1).await.work("at last\n").await;
    assert_eq!(soon(patient.result()).await.unwrap().stdout, "at last\n");
    scheduler.stop().await;
}

#[tokio::test]
async fn a_job_that_waits_at_a_worker_is_rejected_at_its_deadline() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let worker = servers.worker("w1", 1).await;
    let mut jobs = worker.take().await;
    let client = servers.client("acme").await;
    // The worker starts the first one, and has no slot for the second one.
    let runs = client.submit(job("runs"), None).await.unwrap();
    let running = soon(jobs.recv()).await.unwrap();
    worker.start(&running).await;
    let mut hurried = job("waits");
    hurried.start_within_ms = Some(3000);
    let waits = client.submit(hurried, None).await.unwrap();
    let waiting = soon(jobs.recv()).await.unwrap();
    let outcome = soon(waits.result()).await.unwrap();
    assert_eq!((outcome.status, outcome.error.unwrap().code), (Status::Rejected, ErrorCode::DeadlineExceeded));
    assert_ne!(worker.start(&waiting).await, thermae_backplane::record::Start::Go, "it can't start any more");
    worker.finish(&running, "in time\n").await;
    assert_eq!(soon(runs.result()).await.unwrap().stdout, "in time\n");
    scheduler.stop().await;
}

#[tokio::test]
async fn a_language_that_no_worker_of_the_pool_runs_is_named() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let _order = servers.worker("w1", 1).await.work("").await;
    let client = servers.client("acme").await;
    let mut shell = job("sh");
    shell.language = "cobol".parse().unwrap();
    let outcome = soon(client.submit(shell, None).await.unwrap().result()).await.unwrap();
    let error = outcome.error.unwrap();
    assert_eq!(error.code, ErrorCode::UnsupportedLanguage);
    assert!(error.message.contains("python") && error.message.contains(pool().as_str()), "{}", error.message);
    scheduler.stop().await;
}

#[tokio::test]
async fn a_job_for_a_pool_that_nobody_serves_is_answered() {
    let servers = Servers::new();
    let options = || Options { no_worker_after: Millis::from_millis(200), ..options() };
    let scheduler = servers.scheduler(options()).await;
    let client = servers.client("acme").await;
    let handle = client.submit(job("nobody"), None).await.unwrap();
    let outcome = soon(handle.result()).await.unwrap();
    let error = outcome.error.unwrap();
    assert_eq!((outcome.status, error.code, error.safe_to_retry), (Status::Rejected, ErrorCode::NoWorker, true));
    // Another worker may follow one that drains, so its jobs wait.
    let worker = servers.worker("w1", 1).await;
    worker.beat(WorkerState::Draining, LONG).await;
    let waits = client.submit(job("waits"), None).await.unwrap();
    let sick = client.submit(job("sick"), None).await.unwrap();
    tokio::time::timeout(Duration::from_millis(600), waits.result()).await.expect_err("it was answered");
    // A worker that can't make containers counts as no worker.
    worker.beat(WorkerState::Unhealthy, LONG).await;
    let error = soon(sick.result()).await.unwrap().error.unwrap();
    assert_eq!(error.code, ErrorCode::BackendUnavailable, "{error:?}");
    scheduler.stop().await;
}

#[tokio::test]
async fn a_job_that_was_handed_out_before_the_last_worker_went_is_answered() {
    let servers = Servers::new();
    let options = Options { no_worker_after: Millis::from_millis(200), ..options() };
    let scheduler = servers.scheduler(options).await;
    let client = servers.client("acme").await;
    let worker = servers.worker("w1", 4).await;
    let handles = [client.submit(job("a"), None).await.unwrap(), client.submit(job("b"), None).await.unwrap()];
    depth(&servers, "work.pool.default", |depth| depth == Some(2)).await;
    servers.registry.leave(&worker.id).await.unwrap();
    for handle in handles {
        let outcome = soon(handle.result()).await.unwrap();
        let error = outcome.error.unwrap();
        assert_eq!((outcome.status, error.code, error.safe_to_retry), (Status::Rejected, ErrorCode::NoWorker, true));
    }
    let _ran = servers.worker("w2", 4).await.work("").await;
    let later = client.submit(job("c"), None).await.unwrap();
    assert_eq!(soon(later.result()).await.unwrap().status, Status::Succeeded);
    scheduler.stop().await;
}

#[tokio::test]
async fn a_job_without_an_id_of_use_is_known_by_its_message() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let client = servers.client("acme").await;
    let replies = QueueSpec::replies(client.tenant(), &ClientId::new("by-hand").unwrap());
    servers.bus.declare_queue(&replies).await.unwrap();
    let mut answers = servers.bus.consume(&replies.name, 1).await.unwrap();
    // The message's own id is not a valid job id either.
    for (correlation_id, expected) in [(None, "no. 7"), (Some("mark".to_owned()), "mark")] {
        let mut message = thermae_backplane::bus::Message {
            exchange: names::SUBMIT.to_owned(),
            key: "acme.normal.default".to_owned(),
            body: br#"{"id": "no. 7", "code": ""}"#.to_vec().into(),
            message_id: Some("no. 7".to_owned()),
            correlation_id,
            reply_to: Some("acme.by-hand".to_owned()),
            mandatory: true,
            ..Default::default()
        };
        message.sign(servers.bus.as_ref(), client.tenant());
        servers.bus.publish(message).await.unwrap().wait().await.unwrap();
        let answer = soon(answers.next()).await.unwrap();
        answer.ack().await.unwrap();
        assert_eq!(answer.message.correlation_id.as_deref(), Some(expected));
        let event: Event = serde_json::from_slice(&answer.message.body).unwrap();
        let EventBody::Result(outcome) = event.body else { panic!("{event:?}") };
        let error = outcome.error.unwrap();
        assert!(error.code == ErrorCode::SchemaViolation && error.message.contains("no. 7"), "{error:?}");
    }
    scheduler.stop().await;
}
