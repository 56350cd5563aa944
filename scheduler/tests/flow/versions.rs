//! Versions of the protocol: a job goes only to a worker that speaks its version.

use std::collections::BTreeSet;

use thermae_backplane::bus::{Message, QueueSpec};
use thermae_schemas::{
    Body, Class, ClientId, ErrorCode, Event, EventBody, Job, Outcome, SessionName, SessionRequest, Status, WorkerState,
    names,
};

use crate::fleet::{LONG, Servers, depth, job, options, pool, soon, tenant};

/// A job that only a worker of protocol 2 can run. No release speaks that yet.
fn newer(id: &str) -> Job {
    Job { protocol: 2, ..job(id) }
}

/// Submits a job by hand, as one that may have been submitted before. Returns the outcome that comes for it.
async fn again(servers: &Servers, job: Job) -> Outcome {
    let (acme, me) = (tenant("acme"), ClientId::random());
    let replies = QueueSpec::replies(&acme, &me);
    servers.bus.declare_queue(&replies).await.unwrap();
    let mut answers = servers.bus.consume(&replies.name, 1).await.unwrap();
    let mut message = Message {
        exchange: names::SUBMIT.to_owned(),
        key: names::submit_key(&acme, Class::Normal, &pool()),
        body: job.to_json().unwrap().into(),
        message_id: Some(job.id.to_string()),
        reply_to: Some(names::reply_key(&acme, &me)),
        mandatory: true,
        persistent: true,
        ..Message::default()
    };
    message.headers.set_flag(names::H_RESEND, true);
    message.sign(servers.bus.as_ref(), &acme);
    servers.bus.publish(message).await.unwrap().wait().await.unwrap();
    let event = Event::parse(&soon(answers.next()).await.unwrap().message.body).unwrap();
    let EventBody::Result(outcome) = event.body else { panic!("{event:?}") };
    outcome
}

fn in_session(mut job: Job, session: &str) -> Job {
    job.session = Some(SessionRequest::new(SessionName::new(session).unwrap()));
    job
}

#[tokio::test]
async fn workers_get_only_jobs_whose_version_they_speak() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let (old, new) = (servers.worker("old", 8).await, servers.worker_of("new", 8, 2).await);
    let client = servers.client("acme").await;
    for n in 0..6 {
        client.submit(job(&format!("plain-{n}")), None).await.unwrap();
        client.submit(newer(&format!("newer-{n}")), None).await.unwrap();
    }
    let (mut at_old, mut at_new) = (old.take().await, new.take().await);
    let mut seen = BTreeSet::new();
    for _ in 0..12 {
        let job = tokio::select! {
            job = soon(at_old.recv()) => {
                let job = job.unwrap();
                assert!(job.id().starts_with("plain"), "{}", job.id());
                job
            }
            job = soon(at_new.recv()) => job.unwrap(),
        };
        seen.insert(job.id().to_owned());
    }
    assert_eq!(seen.len(), 12);
    scheduler.stop().await;
}

#[tokio::test]
async fn a_newer_job_waits_for_a_newer_worker_and_holds_up_no_other_job() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let worker = servers.worker("old", 1).await;
    let mut old = worker.take().await;
    let client = servers.client("acme").await;
    client.submit(newer("newer"), None).await.unwrap();
    client.submit(job("plain"), None).await.unwrap();
    assert_eq!(soon(old.recv()).await.unwrap().id(), "plain");
    let newer_worker = servers.worker_of("new", 1, 2).await;
    let mut new = newer_worker.take().await;
    assert_eq!(soon(new.recv()).await.unwrap().id(), "newer");
    scheduler.stop().await;
}

#[tokio::test]
async fn a_newer_job_is_refused_when_no_newer_worker_comes() {
    let servers = Servers::new();
    let options =
        thermae_scheduler::Options { no_worker_after: thermae_service::units::Millis::from_millis(200), ..options() };
    let scheduler = servers.scheduler(options).await;
    let _old = servers.worker("old", 4).await;
    let new = servers.worker_of("new", 4, 2).await;
    let client = servers.client("acme").await;
    let handed_out = client.submit(newer("handed-out"), None).await.unwrap();
    depth(&servers, &names::pool_queue(&pool(), 2), |depth| depth == Some(1)).await;
    servers.registry.leave(&new.id).await.unwrap();
    let waits = client.submit(newer("waits"), None).await.unwrap();
    for handle in [handed_out, waits] {
        let outcome = soon(handle.result()).await.unwrap();
        let error = outcome.error.unwrap();
        assert_eq!((outcome.status, error.code), (Status::Rejected, ErrorCode::NoWorker));
        assert!(error.message.contains("protocol 2"), "{error:?}");
    }
    scheduler.stop().await;
}

#[tokio::test]
async fn a_session_of_an_older_worker_takes_no_newer_jobs() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let old = servers.worker("old", 4).await;
    let client = servers.client("acme").await;
    client.submit(in_session(job("makes-it"), "s"), None).await.unwrap();
    depth(&servers, &names::worker_queue(&old.id), |depth| depth == Some(1)).await;
    let new = servers.worker_of("new", 4, 2).await;
    let outcome = soon(client.submit(in_session(newer("refused"), "s"), None).await.unwrap().result()).await.unwrap();
    let error = outcome.error.unwrap();
    assert_eq!((outcome.status, error.code), (Status::Rejected, ErrorCode::UnsupportedProtocol), "{error:?}");
    client.submit(in_session(newer("placed"), "t"), None).await.unwrap();
    depth(&servers, &names::worker_queue(&new.id), |depth| depth == Some(1)).await;
    scheduler.stop().await;
}

#[tokio::test]
async fn a_session_keeps_its_order_while_a_newer_job_waits() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let old = servers.worker("old", 4).await;
    let client = servers.client("acme").await;
    client.submit(in_session(newer("first"), "s"), None).await.unwrap();
    client.submit(in_session(job("second"), "s"), None).await.unwrap();
    client.submit(in_session(job("other"), "t"), None).await.unwrap();
    depth(&servers, &names::worker_queue(&old.id), |depth| depth == Some(1)).await;
    let mut at_old = old.take().await;
    assert_eq!(soon(at_old.recv()).await.unwrap().id(), "other");
    let new = servers.worker_of("new", 4, 2).await;
    let mut jobs = new.take().await;
    for id in ["first", "second"] {
        assert_eq!(soon(jobs.recv()).await.unwrap().id(), id);
    }
    scheduler.stop().await;
}

#[tokio::test]
async fn a_job_that_is_over_is_answered_though_no_worker_could_run_it() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let client = servers.client("acme").await;
    let new = servers.worker_of("new", 4, 2).await;
    let id = new.id.clone();
    let _ran = new.work("once").await;
    for submitted in [job("plain"), newer("newer")] {
        client.submit(submitted, None).await.unwrap().result().await.unwrap();
    }
    servers.registry.leave(&id).await.unwrap();
    for workers in 0..2 {
        for submitted in [job("plain"), newer("newer")] {
            let id = submitted.id.clone();
            assert_eq!(again(&servers, submitted).await.stdout, "once", "{id} with {workers} older workers");
        }
        let _old = servers.worker(&format!("old-{workers}"), 4).await;
    }
    scheduler.stop().await;
}

#[tokio::test]
async fn a_newer_job_that_is_handed_out_again_keeps_its_version() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let old = servers.worker("old", 4).await;
    let new = servers.worker_of("new", 4, 2).await;
    let client = servers.client("acme").await;
    client.submit(newer("again"), None).await.unwrap();
    let mut at_old = old.take().await;
    let mut jobs = new.take().await;
    for attempt in 1..=2 {
        let job = soon(jobs.recv()).await.unwrap();
        assert_eq!((job.id(), job.delivery.message.key.as_str()), ("again", "pool.default.v2"), "{attempt}");
        // A worker that stops before it has started the job does this.
        let message = Message {
            exchange: names::RESOLVE.to_owned(),
            key: String::new(),
            mandatory: true,
            persistent: true,
            ..job.delivery.message.as_ref().clone()
        };
        servers.bus.publish(message).await.unwrap().wait().await.unwrap();
        job.delivery.ack().await.unwrap();
    }
    new.beat(WorkerState::Ready, LONG).await;
    assert!(at_old.try_recv().is_err());
    scheduler.stop().await;
}
