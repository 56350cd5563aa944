//! What the fleet of a test hears: events, outcomes, tool calls, and what ends in queues and the registry.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use thermae_backplane::bus::{Delivery, Headers, Message};
use thermae_backplane::record::Start;
use thermae_backplane::registry::{self, Claim, Registry, StartRequest};
use thermae_schemas::{Event, EventBody, Job, Outcome, TenantName, ToolCall, ToolReply, ToolResult, WorkerId, names};

use super::{Fleet, within};

impl Fleet {
    /// The bytes of the next event of any job. For events that are too large to become a tree.
    #[allow(dead_code, reason = "of use to the test of memory alone, which has this file, too")]
    pub async fn raw(&mut self) -> Bytes {
        assert!(self.unread.is_empty(), "some were read already");
        let delivery = within("an event", self.replies.next()).await.expect("the bus is open");
        delivery.ack().await.unwrap();
        delivery.message.body.clone()
    }

    /// The next event of any job.
    pub async fn event(&mut self) -> Event {
        if let Some(event) = self.unread.pop_front() {
            return event;
        }
        let delivery = within("an event", self.replies.next()).await.expect("the bus is open");
        delivery.ack().await.unwrap();
        serde_json::from_slice(&delivery.message.body).unwrap()
    }

    /// The next event of this job. Events of other jobs are kept.
    pub async fn event_of(&mut self, job: &Job) -> EventBody {
        let mut others = VecDeque::new();
        let found = loop {
            let event = self.event().await;
            if event.job == job.id {
                break event.body;
            }
            others.push_back(event);
        };
        others.append(&mut self.unread);
        self.unread = others;
        found
    }

    /// Waits for the outcome of a job, and skips the events before it.
    pub async fn outcome(&mut self, job: &Job) -> Outcome {
        loop {
            if let EventBody::Result(outcome) = self.event_of(job).await {
                return outcome;
            }
        }
    }

    /// Submits a job and waits for its outcome.
    pub async fn run(&mut self, job: &Job) -> Outcome {
        self.submit(job).await;
        self.outcome(job).await
    }

    /// Waits for the next tool call of a job.
    pub async fn tool_call(&mut self, job: &Job) -> ToolCall {
        loop {
            match self.event_of(job).await {
                EventBody::ToolCall(call) => return call,
                EventBody::Result(outcome) => panic!("it ended first: {outcome:?}"),
                _ => {}
            }
        }
    }

    /// Answers a tool call, under this tenant's key.
    pub async fn answer_as(&self, tenant: &TenantName, call: &ToolCall, reply: ToolReply) {
        let worker = call.reply_to.split_once('.').unwrap().1;
        let mut message = Message {
            exchange: names::CALLS.into(),
            key: format!("{tenant}.{worker}"),
            body: serde_json::to_vec(&ToolResult::new(call.call.clone(), reply)).unwrap().into(),
            mandatory: true,
            ..Message::default()
        };
        message.sign(&*self.bus, tenant);
        self.bus.publish(message).await.unwrap().wait().await.unwrap();
    }

    /// Sends this body as the answer to a tool call.
    pub async fn answer_with(&self, call: &ToolCall, body: String) {
        let mut message = Message {
            exchange: names::CALLS.into(),
            key: call.reply_to.clone(),
            body: body.into(),
            mandatory: true,
            ..Message::default()
        };
        message.sign(&*self.bus, &self.tenant);
        self.bus.publish(message).await.unwrap().wait().await.unwrap();
    }

    pub async fn answer(&self, call: &ToolCall, reply: ToolReply) {
        self.answer_as(&self.tenant.clone(), call, reply).await;
    }

    /// Cancels a job that runs on this worker, as a scheduler does.
    pub async fn cancel(&self, worker: &WorkerId, job: &Job) {
        let mut headers = Headers::default();
        headers.set_text(names::H_TENANT, self.tenant.as_str());
        let message = Message {
            exchange: names::WORK.into(),
            key: names::control_key(worker),
            body: serde_json::to_vec(&thermae_schemas::Cancel::new(job.id.clone())).unwrap().into(),
            headers,
            mandatory: true,
            ..Message::default()
        };
        self.bus.publish(message).await.unwrap().wait().await.unwrap();
    }

    /// Takes the next message from `resolve`.
    pub async fn resolved(&self) -> Delivery {
        let mut consumer = self.bus.consume(names::RESOLVE_QUEUE, 1).await.unwrap();
        let delivery = within("a message on resolve", consumer.next()).await.unwrap();
        delivery.ack().await.unwrap();
        delivery
    }

    /// Takes the message of this job from `resolve`, and skips others.
    pub async fn resolved_of(&self, job: &Job) -> Delivery {
        loop {
            let delivery = self.resolved().await;
            if delivery.message.message_id.as_deref() == Some(job.id.as_str()) {
                return delivery;
            }
        }
    }

    /// Starts a job in the name of another worker.
    pub async fn start_elsewhere(&self, job: &Job, message: &Message) -> Claim {
        let claim = Claim { attempt: 1, owner: WorkerId::boot("other"), nonce: "other".into() };
        let request = StartRequest {
            job: self.key(job),
            pool: job.pool.clone(),
            claim: claim.clone(),
            epoch: registry::Epoch(message.headers.text(names::H_EPOCH).unwrap().to_owned()),
            only_copy: true,
            max_attempts: job.max_attempts,
            reply_key: message.reply_to.clone(),
            correlation_id: None,
            lease: Duration::from_secs(60),
            ttl: Duration::from_secs(600),
        };
        assert_eq!(self.registry.start(&request).await.unwrap(), Start::Go);
        claim
    }

    /// Number of messages that wait in a queue.
    pub async fn depth(&self, queue: &str) -> u64 {
        self.bus.queue_depth(queue).await.unwrap().unwrap_or(0)
    }

    pub async fn registry_is_empty(&self) -> bool {
        self.registry.workers().await.unwrap().is_empty()
    }

    /// Waits for the recorded outcome of a job.
    pub async fn until_recorded(&self, job: &Job) -> String {
        let recorded = async {
            loop {
                if let Some(recorded) = self.recorded(job).await {
                    return String::from_utf8(recorded.to_vec()).unwrap();
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        within("the record", recorded).await
    }

    /// The recorded outcome of a job.
    pub async fn recorded(&self, job: &Job) -> Option<Bytes> {
        let record = self.registry.lookup(&self.key(job)).await.unwrap()?;
        registry::outcome_of(&record).cloned()
    }
}
