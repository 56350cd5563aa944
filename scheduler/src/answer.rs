//! What the scheduler itself sends to clients: results (refusals, cancels, losses, and outcomes that were recorded
//! earlier), and answers to questions and requests.

use bytes::Bytes;
use thermae_backplane::bus::{self, Delivery, Message};
use thermae_backplane::record::{self, Answer, EndUnstarted, Ended, Taker};
use thermae_backplane::registry::{EndUnstartedRequest, JobKey};
use thermae_backplane::stored::Wanted;
use thermae_schemas::{
    Body, ErrorCode, ErrorInfo, Event, EventBody, JobId, Outcome, PoolName, Status, TenantName, names,
};

use crate::context::{self, Context};
use crate::error::Trouble;
use crate::validate::Refusal;

/// Which job to end.
pub(crate) enum Meant {
    /// The job with this id.
    ById,
    /// The job with this id, because its client cancels it.
    ToCancel,
    /// The job with this digest, and no other job with the same id.
    Job(String),
}

/// Where to send an answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Address {
    pub(crate) reply_key: Option<String>,
    pub(crate) correlation_id: Option<String>,
}

impl Address {
    /// The address in a job's message. The reply key is left out if it belongs to another tenant.
    pub(crate) fn of(tenant: &TenantName, message: &Message) -> Self {
        Self { reply_key: context::reply_key(tenant, message), correlation_id: message.correlation_id.clone() }
    }

    /// Where an outcome goes: to the client that has taken the run over, or else here.
    pub(crate) fn or_taker(&self, taker: Option<Taker>) -> Self {
        taker.map_or_else(|| self.clone(), |taker| taker.address.into())
    }
}

impl From<record::Address> for Address {
    fn from(record::Address { reply_key, correlation_id }: record::Address) -> Self {
        Self { reply_key: Some(reply_key), correlation_id }
    }
}

/// A result message that the scheduler makes.
pub(crate) fn result(job: &JobId, attempt: u32, outcome: Outcome) -> Bytes {
    let event = Event::new(job.clone(), attempt, EventBody::Result(outcome));
    // Writing plain structures to memory can't fail.
    event.to_json().unwrap_or_default().into()
}

impl Context {
    /// Publishes a result. If nothing is bound to the reply key, that is no error: the outcome stays recorded.
    pub(crate) async fn send_result(&self, job: &JobId, to: &Address, body: Bytes) -> Result<(), Trouble> {
        let Some(key) = &to.reply_key else { return Ok(()) };
        let message = Message {
            exchange: names::REPLIES.to_owned(),
            key: key.clone(),
            body,
            message_id: Some(job.to_string()),
            correlation_id: to.correlation_id.clone(),
            mandatory: true,
            persistent: true,
            ..Message::default()
        };
        match self.publish(message).await {
            Err(Trouble::Bus(bus::Error::Unroutable { key, .. })) => {
                tracing::info!(job.id = %job, reply_key = key, "nobody listens for this result; it stays recorded");
                Ok(())
            }
            // The client declared a queue that is too small for the result. A retry would let one tenant's queue hold
            // up all others.
            Err(Trouble::Bus(bus::Error::Refused { key, .. } | bus::Error::TooLarge(key))) => {
                tracing::warn!(job.id = %job, why = key, "the result is not accepted; it stays recorded");
                Ok(())
            }
            sent => sent,
        }
    }

    /// Publishes an answer that nobody records. If the client is gone, or its queue is full, that is no error.
    pub(crate) async fn send_event(&self, event: &Event, to: &Address) -> Result<(), Trouble> {
        let Some(key) = &to.reply_key else { return Ok(()) };
        let message = Message {
            exchange: names::REPLIES.to_owned(),
            key: key.clone(),
            body: event.to_json().unwrap_or_default().into(),
            message_id: Some(event.job.to_string()),
            correlation_id: to.correlation_id.clone(),
            mandatory: true,
            ..Message::default()
        };
        match self.publish(message).await {
            Err(Trouble::Bus(bus::Error::Unroutable { .. } | bus::Error::Refused { .. })) => Ok(()),
            sent => sent,
        }
    }

    /// Tells a client that another one has taken the run over. That can get lost, as all answers that nobody records.
    pub(crate) async fn send_superseded(&self, job: &JobId, attempt: u32, to: &Address) -> Result<(), Trouble> {
        self.send_event(&Event::new(job.clone(), attempt, EventBody::Superseded {}), to).await
    }

    /// Sends what is left of a job that has ended. If the outcome is in the store, a worker reads and sends it, so that
    /// a slow store holds up no scheduler.
    pub(crate) async fn send_recorded(&self, key: &JobKey, to: &Address, ended: Ended) -> Result<(), Trouble> {
        if let Some(wanted) = Wanted::new(key, &ended)
            && self.want(wanted, to).await?
        {
            return Ok(());
        }
        self.send_result(&key.job, to, ended.result(&key.job)).await
    }

    /// Asks the workers to send a stored outcome. `false` if no worker has a store.
    pub(crate) async fn want(&self, wanted: Wanted, to: &Address) -> Result<bool, Trouble> {
        // A follower's outcome must be recorded even if the follower has no reply key.
        let key = match (&to.reply_key, &wanted.follower) {
            (Some(key), _) => key.clone(),
            (None, Some(_)) => String::new(),
            (None, None) => return Ok(true),
        };
        match self.publish(wanted.message(key, to.correlation_id.clone())).await {
            Err(Trouble::Bus(bus::Error::Unroutable { .. })) => {
                tracing::error!(job.id = %wanted.job, "an outcome is in the store, but no worker has a store");
                Ok(false)
            }
            sent => sent.map(|()| true),
        }
    }

    /// Answers that another job has this id. Records nothing, because the record belongs to the other job.
    pub(crate) async fn send_conflict(&self, key: &JobKey, to: &Address) -> Result<(), Trouble> {
        self.metrics.rejected(ErrorCode::IdConflict);
        let why = format!("another job was submitted under the id {}; this one was not run", key.job);
        let outcome = Outcome::with_error(Status::Rejected, ErrorInfo::new(ErrorCode::IdConflict, why));
        self.send_result(&key.job, to, result(&key.job, 0, outcome)).await
    }

    /// Records the outcome of a job that has not started, and sends the outcome that is recorded then. If the job runs,
    /// nothing is changed or sent: its worker will answer. A client that has taken the run over gets the outcome, but
    /// if the job had ended before, whoever submits or cancels it is answered.
    pub(crate) async fn end_unstarted(
        &self,
        key: &JobKey,
        pool: Option<&PoolName>,
        outcome: Outcome,
        to: &Address,
        meant: Meant,
    ) -> Result<EndUnstarted, Trouble> {
        let status = outcome.status;
        let body = result(&key.job, 0, outcome);
        let (digest, cancel, asks) = match meant {
            Meant::ById => (None, false, false),
            Meant::ToCancel => (None, true, true),
            Meant::Job(digest) => (Some(digest), false, true),
        };
        let request = EndUnstartedRequest {
            job: key.clone(),
            pool: pool.cloned(),
            outcome: body.clone(),
            status,
            digest,
            cancel,
            keep: self.options.keep(pool),
        };
        let Answer { what, taker } = self.registry.end_unstarted(&request).await?;
        match &what {
            EndUnstarted::Won => self.send_result(&key.job, &to.or_taker(taker), body).await?,
            EndUnstarted::Terminal(recorded) => {
                let to = to.or_taker(taker.filter(|_| !asks));
                self.send_recorded(key, &to, recorded.clone()).await?;
            }
            EndUnstarted::Conflict => self.send_conflict(key, to).await?,
            EndUnstarted::Started { .. } => {}
        }
        Ok(what)
    }

    /// Rejects a job that was checked or admitted, and records that.
    pub(crate) async fn reject(
        &self,
        key: &JobKey,
        pool: &PoolName,
        error: ErrorInfo,
        to: &Address,
        digest: &str,
    ) -> Result<(), Trouble> {
        self.metrics.rejected(error.code);
        tracing::debug!(job.id = %key.job, tenant = %key.tenant, code = error.code.as_str(), "job rejected");
        let outcome = Outcome::with_error(Status::Rejected, error);
        self.end_unstarted(key, Some(pool), outcome, to, Meant::Job(digest.to_owned())).await.map(drop)
    }

    /// Refuses a message that never became a job, and acknowledges it. Repeats this through outages.
    pub(crate) async fn refuse(
        &self,
        tenant: &TenantName,
        pool: Option<&PoolName>,
        refusal: Refusal,
        delivery: &Delivery,
    ) -> Result<(), Trouble> {
        let Refusal { job, error } = refusal;
        let code = error.code;
        self.metrics.rejected(code);
        if code == ErrorCode::ForbiddenReplyKey {
            let key = delivery.message.reply_to.as_deref().unwrap_or_default();
            tracing::warn!(%tenant, reply_key = key, "a job names another tenant's reply key: nothing is sent to it");
        } else {
            tracing::debug!(%tenant, code = code.as_str(), "message refused");
        }
        let to = Address::of(tenant, &delivery.message);
        let digest = crate::head::digest_of(&delivery.message.body, self.options.max_job_bytes.as_u64());
        let outcome = Outcome::with_error(Status::Rejected, error);
        let sent = self
            .persist(|| async {
                match &job {
                    Some(job) => {
                        let key = JobKey::new(tenant.clone(), job.clone());
                        let meant = Meant::Job(digest.clone());
                        self.end_unstarted(&key, pool, outcome.clone(), &to, meant).await.map(drop)
                    }
                    // There is no id to record it under. The correlation id tells the client which message was refused:
                    // its own, or else the message's id.
                    None => {
                        let job = JobId::random();
                        let mark = to.correlation_id.clone().or_else(|| delivery.message.message_id.clone());
                        let to = Address { correlation_id: mark, ..to.clone() };
                        self.send_result(&job, &to, result(&job, 0, outcome.clone())).await
                    }
                }
            })
            .await;
        match sent {
            Err(error @ Trouble::Stopped) => return Err(error),
            Err(error) => tracing::error!(%error, %tenant, "a refusal could not be recorded"),
            Ok(()) => {}
        }
        acknowledge(delivery).await;
        Ok(())
    }
}

/// Acknowledges. If the connection is lost, the broker delivers the message again, and the record knows the job.
pub(crate) async fn acknowledge(delivery: &Delivery) {
    if let Err(error) = delivery.ack().await {
        tracing::debug!(%error, "the acknowledgement failed; the message will come again");
    }
}

/// Puts a delivery back into its queue. If the connection is lost, the broker does that itself.
pub(crate) async fn give_back(delivery: &Delivery) {
    if let Err(error) = delivery.requeue().await {
        tracing::debug!(%error, "the requeue failed; the message will come again");
    }
}
