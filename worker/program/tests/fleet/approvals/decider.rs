//! Somebody who decides about calls that wait for approval.

use std::time::Duration;

use thermae_backplane::bus::{Bus, Consumer, Headers, Message, QueueSpec};
use thermae_schemas::{
    Approval, Body, ClientId, Decided, Decision, Event, EventBody, Job, JobId, Query, RunInfo, RunQuery, Verdict,
    WorkerId, names,
};

use crate::harness::{Fleet, within};

/// Somebody who decides.
pub(super) struct Decider {
    replies: Box<dyn Consumer>,
    reply_key: String,
}

impl Decider {
    pub(super) async fn new(fleet: &Fleet) -> Self {
        let me = ClientId::random();
        fleet.bus.declare_queue(&QueueSpec::replies(&fleet.tenant, &me)).await.unwrap();
        let replies = fleet.bus.consume(&names::reply_queue(&fleet.tenant, &me), 100).await.unwrap();
        Self { replies, reply_key: names::reply_key(&fleet.tenant, &me) }
    }

    /// The message with a decision, as it has to be. It is not signed.
    pub(super) fn message(&self, asked: &Approval, decision: &Decision) -> Message {
        Message {
            exchange: names::APPROVALS.into(),
            key: asked.reply_to.clone(),
            body: decision.to_json().unwrap().into(),
            message_id: Some(decision.id.to_string()),
            reply_to: Some(self.reply_key.clone()),
            mandatory: true,
            ..Message::default()
        }
    }

    /// Decides, and gives the answer. Answers to earlier decisions and questions are skipped.
    pub(super) async fn decide(&mut self, fleet: &Fleet, job: &Job, asked: &Approval, verdict: Verdict) -> Decided {
        let decision = Decision::new(job.id.clone(), asked.call.clone(), verdict);
        self.send(fleet, asked, &decision).await;
        loop {
            match self.event().await {
                Event { job, body: EventBody::Decided(decided), .. } if job == decision.id => {
                    assert_eq!(decided.call, asked.call);
                    return decided;
                }
                _ => {}
            }
        }
    }

    async fn event(&mut self) -> Event {
        let delivery = within("an answer", self.replies.next()).await.unwrap();
        delivery.ack().await.unwrap();
        Event::parse(&delivery.message.body).unwrap()
    }

    pub(super) async fn send(&self, fleet: &Fleet, asked: &Approval, decision: &Decision) {
        let mut message = self.message(asked, decision);
        let approver = fleet.broker.as_user("acme.approver");
        message.sign(&approver, &fleet.tenant);
        approver.publish(message).await.unwrap().wait().await.unwrap();
    }

    /// What the worker knows of a run, asked as the scheduler passes questions on.
    pub(super) async fn info(&mut self, fleet: &Fleet, worker: &WorkerId, job: &Job) -> RunInfo {
        let mut headers = Headers::default();
        headers.set_text(names::H_TENANT, fleet.tenant.as_str());
        headers.set_text(names::H_QUERY, names::QUERY_RUN);
        let question = Query::run(JobId::new("q").unwrap(), RunQuery::new(job.id.clone()));
        let message = Message {
            exchange: names::WORK.into(),
            key: names::control_key(worker),
            body: question.to_json().unwrap().into(),
            reply_to: Some(self.reply_key.clone()),
            headers,
            mandatory: true,
            ..Message::default()
        };
        loop {
            fleet.bus.publish(message.clone()).await.unwrap().wait().await.unwrap();
            // A run that has not begun is not answered for.
            let heard = tokio::time::timeout(Duration::from_millis(200), self.event()).await;
            if let Ok(Event { body: EventBody::Run(info), .. }) = heard {
                return info;
            }
        }
    }
}
