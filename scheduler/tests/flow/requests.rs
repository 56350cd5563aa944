//! Requests to live sessions: each goes to its session's worker, or gets its answer from the scheduler.

use std::sync::Arc;
use std::time::Duration;

use thermae_backplane::bus::{Consumer, Message};
use thermae_backplane::registry::{self, Gone};
use thermae_schemas::{
    Body, ClientId, ErrorCode, ErrorInfo, EventBody, Exec, JobId, Request, RequestEnd, RequestWork, SessionHeld,
    SessionName, WorkerState, names,
};

use crate::fleet::{LONG, Scheduler, Servers, Worker, job, options, pool, soon, tenant};
use crate::raw::RawClient;

/// A client that sends requests.
struct Caller(RawClient);

impl Caller {
    async fn new(servers: &Servers, of: &'static str) -> Self {
        Self(RawClient::new(servers, of).await)
    }

    fn message(&self, body: impl Into<Vec<u8>>, id: Option<&str>) -> Message {
        let key = names::request_key(&tenant(self.0.tenant));
        Message { message_id: id.map(str::to_owned), ..self.0.message(key, body, "mark") }
    }

    async fn send(&self, message: Message) {
        self.0.send(message).await;
    }

    async fn ask(&self, request: &Request) {
        self.send(self.message(request.to_json().unwrap(), Some(request.id.as_str()))).await;
    }

    /// The next answer: the id of its request, and the error with which the request ended.
    async fn error(&mut self) -> (String, ErrorInfo) {
        let (event, message) = self.0.next().await;
        assert_eq!((message.correlation_id.as_deref(), event.protocol, message.persistent), (Some("mark"), 1, false));
        let EventBody::Done(done) = event.body else { panic!("{event:?}") };
        let RequestEnd::Error { error } = done.end else { panic!("{done:?}") };
        (event.job.to_string(), error)
    }

    /// Asks, and returns the code of the error with which the request ends.
    async fn refused(&mut self, request: &Request) -> ErrorCode {
        self.ask(request).await;
        let (id, error) = self.error().await;
        assert_eq!(id, request.id.as_str());
        error.code
    }
}

fn exec(id: &str, session: &str) -> Request {
    let work = RequestWork::Exec(Exec { shell: Some("cat".to_owned()), ..Exec::default() });
    Request::new(JobId::new(id).unwrap(), SessionName::new(session).unwrap(), work)
}

/// A worker that holds these sessions of the tenant `acme`.
async fn holder(servers: &Servers, name: &str, sessions: &[&str]) -> Worker {
    let mut worker = servers.worker(name, 1).await;
    let held = |session: &&str| SessionHeld {
        tenant: tenant("acme"),
        session: SessionName::new(*session).unwrap(),
        pool: pool(),
        expires_in_ms: 1000,
        evictable: false,
    };
    worker.sessions = sessions.iter().map(held).collect();
    worker.beat(WorkerState::Ready, LONG).await;
    worker
}

async fn control(worker: &Worker) -> Box<dyn Consumer> {
    worker.bus.consume(&names::control_queue(&worker.id), 10).await.unwrap()
}

/// Waits until so many requests have met this.
async fn met(scheduler: &Scheduler, what: &str, count: f64) {
    soon(async {
        while scheduler.metric("thermae_scheduler_requests_total", what) < count {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    assert_eq!(scheduler.metric("thermae_scheduler_requests_total", what), count, "{what}");
}

#[tokio::test]
async fn a_request_goes_to_the_worker_that_holds_its_session() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let (_other, worker) = (holder(&servers, "a", &["t"]).await, holder(&servers, "b", &["s"]).await);
    let caller = Caller::new(&servers, "acme").await;
    let mut told = control(&worker).await;
    let request = exec("r", "s");
    let mut message = caller.message(request.to_json().unwrap(), Some("another"));
    // What the client says in headers is not passed on.
    message.headers.set_text(names::H_REQUEST, "forged");
    message.headers.set_text("x-more", "y");
    for _ in 0..2 {
        caller.send(message.clone()).await;
        let found = soon(told.next()).await.unwrap();
        found.ack().await.unwrap();
        let found = &found.message;
        assert_eq!(Request::parse(&found.body).unwrap(), request);
        assert_eq!(found.headers.0.len(), 2, "{:?}", found.headers);
        assert_eq!(found.headers.text(names::H_TENANT), Some("acme"));
        assert_eq!(found.headers.text(names::H_REQUEST), Some("r"));
        assert_eq!((found.message_id.as_deref(), found.correlation_id.as_deref()), (Some("r"), Some("mark")));
        assert_eq!((found.reply_to.as_ref(), found.persistent), (Some(&caller.0.reply_to), false));
    }
    met(&scheduler, "live", 2.0).await;
    scheduler.stop().await;
}

#[tokio::test]
async fn a_session_that_its_first_job_has_not_made_yet_has_its_worker() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let worker = servers.worker("w", 1).await;
    let client = servers.client("acme").await;
    let mut first = job("first");
    first.session = Some(thermae_schemas::SessionRequest::new(SessionName::new("s").unwrap()));
    client.submit(first, None).await.unwrap();
    let mut jobs = worker.take().await;
    soon(jobs.recv()).await.unwrap();
    let (caller, mut told) = (Caller::new(&servers, "acme").await, control(&worker).await);
    caller.ask(&exec("r", "s")).await;
    assert_eq!(soon(told.next()).await.unwrap().message.message_id.as_deref(), Some("r"));
    scheduler.stop().await;
}

#[tokio::test]
async fn a_request_whose_session_is_not_there_says_why() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let worker = holder(&servers, "w", &["idle", "evicted", "lost", "s"]).await;
    let (dead, queueless) = (holder(&servers, "d", &["dead"]).await, holder(&servers, "q", &["queueless"]).await);
    let mut told = control(&worker).await;
    for (name, gone) in [("idle", Gone::Expired), ("evicted", Gone::Evicted), ("lost", Gone::Lost)] {
        let session = SessionName::new(name).unwrap();
        servers.registry.end_session(&tenant("acme"), &session, &worker.id, None, gone).await.unwrap();
    }
    dead.beat(WorkerState::Ready, Duration::ZERO).await;
    // A worker that was away for so long that its queue is gone.
    servers.bus.delete_queue(&names::control_queue(&queueless.id)).await.unwrap();
    let (mut acme, mut globex) = (Caller::new(&servers, "acme").await, Caller::new(&servers, "globex").await);
    for (session, code) in [
        ("none", ErrorCode::SessionLost),
        ("idle", ErrorCode::SessionExpired),
        ("evicted", ErrorCode::SessionEvicted),
        ("lost", ErrorCode::SessionLost),
        ("dead", ErrorCode::SessionLost),
        ("queueless", ErrorCode::SessionLost),
    ] {
        assert_eq!(acme.refused(&exec(session, session)).await, code, "{session}");
    }
    // Another tenant's session is no session.
    assert_eq!(globex.refused(&exec("r", "s")).await, ErrorCode::SessionLost);
    met(&scheduler, "gone", 7.0).await;
    // No worker heard of any of these.
    acme.ask(&exec("last", "s")).await;
    assert_eq!(soon(told.next()).await.unwrap().message.message_id.as_deref(), Some("last"));
    scheduler.stop().await;
}

#[tokio::test]
async fn a_lost_request_is_safe_to_retry_only_if_no_worker_can_have_it() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let mut caller = Caller::new(&servers, "acme").await;
    soon(scheduler.health.wait_ready()).await;
    for (resend, safe) in [(false, true), (true, false)] {
        let mut message = caller.message(exec("r", "none").to_json().unwrap(), None);
        message.headers.set_flag(names::H_RESEND, resend);
        caller.send(message).await;
        let (_, error) = caller.error().await;
        assert_eq!((error.code, error.safe_to_retry), (ErrorCode::SessionLost, safe));
    }
    scheduler.stop().await;
}

#[tokio::test]
async fn a_worker_of_an_earlier_protocol_gets_no_request() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let old = holder(&servers, "old", &["s"]).await;
    let mut caller = Caller::new(&servers, "acme").await;
    let mut told = control(&old).await;
    // Until the scheduler has seen the worker, it takes it for a new one. The client sends the request again.
    soon(async {
        while scheduler.metric("thermae_scheduler_workers", "ready") < 1.0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    assert_eq!(caller.refused(&Request { protocol: 2, ..exec("r", "s") }).await, ErrorCode::UnsupportedProtocol);
    met(&scheduler, "older_worker", 1.0).await;
    scheduler.stop().await;
    servers.bus.delete_queue(&names::control_queue(&old.id)).await.unwrap();
    assert!(soon(told.next()).await.is_none(), "nothing came");
}

#[tokio::test]
async fn a_request_that_cannot_be_used_says_why_or_is_dropped() {
    let servers = Servers::new();
    let scheduler = servers.scheduler(options()).await;
    let worker = holder(&servers, "w", &["s"]).await;
    let (mut caller, mut told) = (Caller::new(&servers, "acme").await, control(&worker).await);
    let work = r#""session": "s", "exec": {"argv": ["a"]}"#;
    let large = format!(r#"{{"id": "b", {work}, "input": "{}"}}"#, "A".repeat(1 << 20));
    let long = format!(r#"{{"id": "b", "session": "s", "exec": {{"{}": 1}}}}"#, "x".repeat(10_000));
    for (body, message_id, id, code, words) in [
        (r#"{"id": "b", "session": "s", "exec": {}}"#, None, "b", ErrorCode::SchemaViolation, "exactly"),
        (r#"{"id": "b", "session": "s"}"#, None, "b", ErrorCode::SchemaViolation, ""),
        (r#"{"id": "b", "session": ""}"#, None, "b", ErrorCode::SchemaViolation, ""),
        (&long, None, "b", ErrorCode::SchemaViolation, "unknown field"),
        ("{", Some("m"), "m", ErrorCode::SchemaViolation, "EOF"),
        (&large, Some("m"), "m", ErrorCode::SchemaViolation, "at most 1048576"),
        (&format!(r#"{{"protocol": 0, "id": "b", {work}}}"#), None, "b", ErrorCode::UnsupportedProtocol, "protocol 0"),
        (r#"{"protocol": 4, "id": "b", "new": {}}"#, None, "b", ErrorCode::UnsupportedProtocol, "protocol 4"),
    ] {
        caller.send(caller.message(body, message_id)).await;
        let (found, error) = caller.error().await;
        assert_eq!((found.as_str(), error.code), (id, code), "{error:?}");
        assert!(error.message.contains(words) && error.message.len() < 600 && !error.safe_to_retry, "{error:?}");
    }
    met(&scheduler, "malformed", 8.0).await;
    // Nobody can get an answer to these.
    caller.send(caller.message("{", None)).await;
    let good = exec("g", "s").to_json().unwrap();
    for reply_to in [None, Some("globex.victim".to_owned()), Some("acme.*".to_owned())] {
        caller.send(Message { reply_to, ..caller.message(good.clone(), None) }).await;
    }
    met(&scheduler, "malformed", 12.0).await;
    // None of all these reached the worker.
    caller.ask(&exec("last", "s")).await;
    assert_eq!(soon(told.next()).await.unwrap().message.message_id.as_deref(), Some("last"));
    scheduler.stop().await;
}

#[tokio::test]
async fn a_session_that_may_still_be_announced_is_not_called_lost() {
    let servers = Servers::on(Arc::new(registry::Local::with_grace(LONG)));
    let scheduler = servers.scheduler(options()).await;
    let mut caller = Caller::new(&servers, "acme").await;
    caller.ask(&exec("r", "s")).await;
    met(&scheduler, "unsettled", 1.0).await;
    let worker = holder(&servers, "w", &["s"]).await;
    let mut told = control(&worker).await;
    // As the client that heard nothing.
    caller.ask(&exec("r", "s")).await;
    assert_eq!(soon(told.next()).await.unwrap().message.message_id.as_deref(), Some("r"));
    scheduler.stop().await;
    let replies =
        names::reply_queue(&tenant("acme"), &ClientId::new(caller.0.reply_to.split_once('.').unwrap().1).unwrap());
    servers.bus.delete_queue(&replies).await.unwrap();
    assert!(soon(caller.0.answers.next()).await.is_none(), "no answer came");
}

#[tokio::test]
async fn a_tenant_that_sends_too_many_requests_waits_alone() {
    let servers = Servers::new();
    let refused_bytes = thermae_service::units::ByteSize::bytes(1);
    let scheduler = servers.scheduler(thermae_scheduler::Options { refused_bytes, ..options() }).await;
    let (mut acme, mut globex) = (Caller::new(&servers, "acme").await, Caller::new(&servers, "globex").await);
    assert_eq!(acme.refused(&exec("r", "none")).await, ErrorCode::SessionLost);
    crate::fleet::depth(&servers, "submit.acme.rest", |d| d == Some(0)).await;
    // One is taken, and the others wait until it is paid for. The next is with the scheduler already.
    assert_eq!(acme.refused(&exec("first", "none")).await, ErrorCode::SessionLost);
    acme.ask(&exec("next", "none")).await;
    acme.ask(&exec("waits", "none")).await;
    assert_eq!(globex.refused(&exec("r", "none")).await, ErrorCode::SessionLost);
    crate::fleet::depth(&servers, "submit.acme.rest", |d| d == Some(1)).await;
    scheduler.stop().await;
}
