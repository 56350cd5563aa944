//! Messages that their tenant did not send: each is dropped and counted, and changes nothing.

use std::sync::Arc;

use thermae_backplane::bus::{self, Bus, Error, ExchangeKind, ExchangeSpec, Message, QueueSpec, SharedBus};
use thermae_backplane::registry::{self, JobKey};
use thermae_client::Client;
use thermae_schemas::{Cancel, ErrorCode, JobId, Query, Request, RequestWork, SessionHeld, SessionName, Status, names};

use crate::fleet::{Scheduler, Servers, depth, job, options, soon, tenant};

/// An exchange of the attacker's own. Messages that no queue is bound for go on to the exchange for jobs.
const OWN: &str = "replies.acme.x";

struct Site {
    broker: Arc<bus::Local>,
    servers: Servers,
    scheduler: Scheduler,
}

impl Site {
    async fn new() -> Self {
        let broker = Arc::new(bus::Local::new());
        let other = broker.clone();
        let connect: crate::fleet::Connect = Arc::new(move || {
            let bus: SharedBus = Arc::new(other.connect());
            Box::pin(async move { bus })
        });
        let servers = Servers { bus: broker.clone(), registry: Arc::new(registry::Local::new()), connect };
        let scheduler = servers.scheduler(options()).await;
        soon(scheduler.health.wait_ready()).await;
        let alternate = Some(names::SUBMIT.to_owned());
        let own = ExchangeSpec { name: OWN.to_owned(), kind: ExchangeKind::Topic, alternate, bindings: Vec::new() };
        broker.declare_exchange(&own).await.unwrap();
        Self { broker, servers, scheduler }
    }

    /// A client of this tenant, on a connection of its own.
    async fn client(&self, name: &str) -> Client {
        let bus: SharedBus = Arc::new(self.broker.as_user(name));
        Client::connect(bus, tenant(name), thermae_client::Options::default()).await.unwrap()
    }

    /// Sends a message for the tenant `globex` in every way in which `acme` can make one arrive. The in-process bus
    /// checks no permissions, so `acme` can also publish it directly.
    async fn forge(&self, key: &str, body: &[u8]) -> f64 {
        let acme = self.broker.as_user("acme");
        let plain = Message {
            exchange: names::SUBMIT.to_owned(),
            key: key.to_owned(),
            body: body.to_vec().into(),
            reply_to: Some("globex.victim".to_owned()),
            mandatory: true,
            persistent: true,
            ..Message::default()
        };
        let signed = Message { user_id: Some("acme".to_owned()), ..plain.clone() };
        let mut vouched = signed.clone();
        vouched.headers.set_text(names::H_TENANT, "globex");
        let mut dead = signed.clone();
        dead.headers.set_text("x-death", "replies.acme.trap");
        let by_own = |message: &Message| Message { exchange: OWN.to_owned(), ..message.clone() };
        let all = [by_own(&plain), by_own(&signed), by_own(&vouched), signed, vouched, dead];
        let before = self.scheduler.metric("thermae_scheduler_forged_total", "");
        let count = all.len() as f64;
        for forged in all {
            acme.publish(forged).await.unwrap().wait().await.unwrap();
        }
        let lie = Message { user_id: Some("globex".to_owned()), ..plain };
        assert!(matches!(acme.publish(lie).await.unwrap().wait().await, Err(Error::Denied(_))));
        before + count
    }

    async fn until_forged(&self, count: f64) {
        soon(async {
            while self.scheduler.metric("thermae_scheduler_forged_total", "") < count {
                tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            }
        })
        .await;
        assert_eq!(self.scheduler.metric("thermae_scheduler_forged_total", ""), count);
    }
}

fn key(id: &str) -> JobKey {
    JobKey::new(tenant("globex"), JobId::new(id).unwrap())
}

#[tokio::test]
async fn nobody_submits_for_another_tenant() {
    let site = Site::new().await;
    let _order = site.servers.worker("w1", 1).await.work("").await;
    // Once before the tenant has a queue, and once after.
    let forged = site.forge("globex.normal.default", br#"{"id": "forged", "code": ""}"#).await;
    site.until_forged(forged).await;
    assert_eq!(site.broker.queue_depth("submit.globex.normal.default").await.unwrap(), None, "no queue is made for it");
    let client = site.client("globex").await;
    soon(client.submit(job("honest"), None).await.unwrap().result()).await.unwrap();
    let forged = site.forge("globex.normal.default", br#"{"id": "forged", "code": ""}"#).await;
    site.until_forged(forged).await;
    assert_eq!(site.servers.registry.lookup(&key("forged")).await.unwrap(), None);
    soon(client.submit(job("honest-2"), None).await.unwrap().result()).await.unwrap();
    site.scheduler.stop().await;
}

#[tokio::test]
async fn nobody_cancels_another_tenants_job() {
    let site = Site::new().await;
    let client = site.client("globex").await;
    let mut waits = job("waits");
    waits.pool = crate::fleet::pool();
    let handle = client.submit(waits, None).await.unwrap();
    depth(&site.servers, names::UNROUTED_QUEUE, |d| d == Some(0)).await;
    let body = serde_json::to_vec(&Cancel::new(handle.id().clone())).unwrap();
    let forged = site.forge("globex.cancel", &body).await;
    // A message without a `user_id` is no better.
    let unsigned = Message {
        exchange: names::SUBMIT.to_owned(),
        key: "globex.cancel".to_owned(),
        body: body.into(),
        ..Message::default()
    };
    site.broker.publish(unsigned).await.unwrap().wait().await.unwrap();
    site.until_forged(forged + 1.0).await;
    let _order = site.servers.worker("w1", 1).await.work("ran\n").await;
    assert_eq!(soon(handle.result()).await.unwrap().stdout, "ran\n");
    // The tenant's own cancel works.
    let handle = client.submit(job("unwanted"), None).await.unwrap();
    handle.cancel().await.unwrap();
    let status = soon(handle.result()).await.unwrap().status;
    assert!([Status::Cancelled, Status::Succeeded].contains(&status), "{status:?}");
    site.scheduler.stop().await;
}

#[tokio::test]
async fn nobody_asks_for_another_tenant() {
    let site = Site::new().await;
    let replies = QueueSpec::replies(&tenant("globex"), &thermae_schemas::ClientId::new("victim").unwrap());
    site.broker.declare_queue(&replies).await.unwrap();
    let body = serde_json::to_vec(&Query::sessions(JobId::random())).unwrap();
    let forged = site.forge("globex.query", &body).await;
    site.until_forged(forged).await;
    assert_eq!(site.broker.queue_depth(&replies.name).await.unwrap(), Some(0), "nothing is planted there either");
    let client = site.client("globex").await;
    assert_eq!(client.sessions(std::time::Duration::from_secs(60)).await.unwrap(), []);
    site.scheduler.stop().await;
}

#[tokio::test]
async fn nobody_makes_a_request_to_another_tenants_session() {
    let site = Site::new().await;
    let mut worker = site.servers.worker("w", 1).await;
    let session = SessionName::new("s").unwrap();
    let held = SessionHeld {
        tenant: tenant("globex"),
        session: session.clone(),
        pool: crate::fleet::pool(),
        expires_in_ms: 1000,
        evictable: false,
    };
    worker.sessions = vec![held];
    worker.beat(thermae_schemas::WorkerState::Ready, crate::fleet::LONG).await;
    let mut told = site.broker.consume(&names::control_queue(&worker.id), 1).await.unwrap();
    let replies = QueueSpec::replies(&tenant("globex"), &thermae_schemas::ClientId::new("victim").unwrap());
    site.broker.declare_queue(&replies).await.unwrap();
    let request = |id: &str| {
        let request = Request::new(JobId::new(id).unwrap(), session.clone(), RequestWork::Keepalive {});
        serde_json::to_vec(&request).unwrap()
    };
    let forged = site.forge("globex.request", &request("forged")).await;
    site.until_forged(forged).await;
    // A message without a `user_id` is no better.
    let mut message = Message {
        exchange: names::SUBMIT.to_owned(),
        key: "globex.request".to_owned(),
        body: request("unsigned").into(),
        reply_to: Some("globex.victim".to_owned()),
        ..Message::default()
    };
    site.broker.publish(message.clone()).await.unwrap().wait().await.unwrap();
    site.until_forged(forged + 1.0).await;
    assert_eq!(site.broker.queue_depth(&replies.name).await.unwrap(), Some(0), "nobody is answered");
    // The tenant's own request arrives, and is the first that does.
    (message.body, message.user_id) = (request("own").into(), Some("globex".to_owned()));
    site.broker.as_user("globex").publish(message).await.unwrap().wait().await.unwrap();
    assert_eq!(soon(told.next()).await.unwrap().message.message_id.as_deref(), Some("own"));
    site.scheduler.stop().await;
}

#[tokio::test]
async fn a_job_without_a_sender_is_rejected_in_words() {
    let site = Site::new().await;
    let client = thermae_schemas::ClientId::new("old").unwrap();
    let replies = QueueSpec::replies(&tenant("globex"), &client);
    site.broker.declare_queue(&replies).await.unwrap();
    let mut answers = site.broker.consume(&replies.name, 10).await.unwrap();
    let globex = site.broker.as_user("globex");
    // The first message finds no queue of its tenant, and the second does.
    for (id, user_id, code) in [
        ("first", None, Some(ErrorCode::UserIdMissing)),
        ("honest", Some("globex.ci"), None),
        ("second", None, Some(ErrorCode::UserIdMissing)),
    ] {
        let message = Message {
            exchange: names::SUBMIT.to_owned(),
            key: "globex.normal.default".to_owned(),
            body: format!(r#"{{"id": "{id}", "code": "", "stream": ["lifecycle"]}}"#).into(),
            reply_to: Some("globex.old".to_owned()),
            user_id: user_id.map(str::to_owned),
            mandatory: true,
            persistent: true,
            ..Message::default()
        };
        // A second user of the same tenant.
        let bus = if user_id.is_some() { site.broker.as_user("globex.ci") } else { globex.connect() };
        bus.publish(message).await.unwrap().wait().await.unwrap();
        if code.is_none() {
            let _order = site.servers.worker("w1", 1).await.work("").await;
        }
        let outcome = loop {
            let delivery = soon(answers.next()).await.unwrap();
            delivery.ack().await.unwrap();
            let event: thermae_schemas::Event = serde_json::from_slice(&delivery.message.body).unwrap();
            if let thermae_schemas::EventBody::Result(outcome) = event.body {
                assert_eq!(event.job.as_str(), id);
                break outcome;
            }
        };
        assert_eq!(outcome.error.map(|error| error.code), code, "{id}");
    }
    assert_eq!(site.scheduler.metric("thermae_scheduler_forged_total", ""), 0.0);
    site.scheduler.stop().await;
}

/// A message that was dead-lettered before it was checked reaches the queue `resolve`, where the fleet's headers count.
#[tokio::test]
async fn dead_letters_are_judged_as_well() {
    let site = Site::new().await;
    let client = site.client("globex").await;
    let handle = client.submit(job("victim"), None).await.unwrap();
    let running = site.servers.worker("w1", 1).await;
    let mut jobs = running.take().await;
    let victim = soon(jobs.recv()).await.unwrap();
    let before = site.scheduler.metric("thermae_scheduler_resolved_total", "dropped");
    let dead = |key: &str, user: Option<&str>| {
        let mut message = victim.delivery.message.as_ref().clone();
        (message.exchange, message.key) = (names::RESOLVE.to_owned(), key.to_owned());
        message.user_id = user.map(str::to_owned);
        message
    };
    // A copy with the headers of another tenant's assigned job, under a key that names no lane, with a forged place of
    // death.
    let mut copy = dead("acme.zzz", Some("acme"));
    copy.headers.set_text("x-death", "submit.unrouted");
    copy.headers.set_text(names::H_DEAD_QUEUE, "work.pool.default");
    copy.headers.set_text(names::H_DEAD_REASON, "delivery_limit");
    // A message under the key of another tenant's lane.
    let mut lane = dead("globex.normal.default", Some("acme"));
    lane.headers.set_text("x-death", "submit.globex.normal.default");
    let mut follower = dead("globex.normal.default", None);
    follower.headers.set_text(names::H_FOLLOWS, "victim");
    for (message, user) in [(copy, "acme"), (lane, "acme"), (follower, "acme")] {
        site.broker.as_user(user).publish(message).await.unwrap().wait().await.unwrap();
    }
    soon(async {
        while site.scheduler.metric("thermae_scheduler_resolved_total", "dropped") < before + 3.0 {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    })
    .await;
    // The job is unchanged.
    assert_eq!(running.start(&victim).await, thermae_backplane::record::Start::Go);
    running.finish(&victim, "mine\n").await;
    assert_eq!(soon(handle.result()).await.unwrap().stdout, "mine\n");
    site.scheduler.stop().await;
}
