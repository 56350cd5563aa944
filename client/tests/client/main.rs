//! The client on the in-process bus, against a fleet that the test plays.

mod again;
mod attach;
mod by_hand;
mod decide;
mod follow;
mod outages;
mod requests;
mod submit;
mod tools;

use std::sync::Arc;
use std::time::Duration;

use thermae_backplane::bus::{self, Bus, Consumer, Message, QueueSpec, SharedBus};
use thermae_client::{Client, Options};
use thermae_schemas::{Class, Event, EventBody, Job, JobId, Outcome, PoolName, Status, TenantName, names};

fn tenant() -> TenantName {
    TenantName::new("acme").unwrap()
}

fn job(id: &str) -> Job {
    Job { id: JobId::new(id).unwrap(), ..Job::python("1") }
}

fn quick() -> Options {
    Options {
        retry_min: Duration::from_millis(1),
        retry_max: Duration::from_millis(5),
        event_buffer: 4,
        unknown_for: Duration::ZERO,
        ..Options::default()
    }
}

/// Waits for something that must happen, and fails after a minute.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), future).await.expect("it did not come")
}

/// A fleet whose scheduler and worker are played by the test.
struct Fleet {
    bus: bus::Local,
    jobs: Box<dyn Consumer>,
}

impl Fleet {
    async fn new() -> Self {
        let bus = bus::Local::new();
        thermae_backplane::declare_fleet(&bus).await.unwrap();
        let spec = QueueSpec::submit(&tenant(), Class::Normal, &PoolName::new("default").unwrap());
        bus.declare_queue(&spec).await.unwrap();
        let jobs = bus.consume(&spec.name, 0).await.unwrap();
        Self { bus, jobs }
    }

    async fn client(&self) -> Client {
        self.client_with(quick()).await
    }

    async fn client_with(&self, options: Options) -> Client {
        let bus: SharedBus = Arc::new(self.bus.as_user("acme"));
        Client::connect(bus, tenant(), options).await.unwrap()
    }

    /// Takes the next job message and acknowledges it.
    async fn take(&mut self) -> Message {
        let delivery = soon(self.jobs.next()).await.unwrap();
        delivery.ack().await.unwrap();
        delivery.message.as_ref().clone()
    }

    /// Sends an event to the client that submitted this job.
    async fn tell(&self, job: &Message, body: EventBody) {
        let id = JobId::new(job.message_id.clone().unwrap()).unwrap();
        let event = Event::new(id, 1, body);
        self.tell_text(job, serde_json::to_vec(&event).unwrap()).await;
    }

    /// Sends an event with this text.
    async fn tell_text(&self, job: &Message, text: impl Into<Vec<u8>>) {
        let message = Message {
            exchange: names::REPLIES.to_owned(),
            key: job.reply_to.clone().unwrap(),
            body: text.into().into(),
            mandatory: true,
            ..Message::default()
        };
        self.bus.publish(message).await.unwrap().wait().await.unwrap();
    }

    async fn end(&self, job: &Message, stdout: &str) {
        let outcome = Outcome { stdout: stdout.to_owned(), ..Outcome::new(Status::Succeeded) };
        self.tell(job, EventBody::Result(outcome)).await;
    }
}
