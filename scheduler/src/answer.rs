//! Results that the scheduler itself sends: refusals, cancels, losses, and outcomes that were recorded before.

use bytes::Bytes;
use thermae_backplane::bus::{self, Delivery, Message};
use thermae_backplane::record::{Ended, Settle};
use thermae_backplane::registry::{JobKey, SettleRequest};
use thermae_backplane::stored::Wanted;
use thermae_schemas::{ErrorCode, ErrorInfo, Event, EventBody, JobId, Outcome, PoolName, Status, TenantName, names};

use crate::context::{self, Context};
use crate::error::Trouble;
use crate::validate::Refusal;

/// Which job is to be ended.
pub(crate) enum Meant {
    /// Whichever has the id.
    ById,
    /// Whichever has the id; its client cancels it.
    ToCancel,
    /// The one with this digest, and no other that has its id.
    Job(String),
}

/// Where an answer goes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Address {
    pub(crate) reply_key: Option<String>,
    pub(crate) correlation_id: Option<String>,
}

impl Address {
    /// The one that a job's message gives, if it is its tenant's own.
    pub(crate) fn of(tenant: &TenantName, message: &Message) -> Self {
        Self { reply_key: context::reply_key(tenant, message), correlation_id: message.correlation_id.clone() }
    }
}

/// The result message of a job that made no attempt.
pub(crate) fn result(job: &JobId, attempt: u32, outcome: Outcome) -> Bytes {
    let event = Event::new(job.clone(), attempt, EventBody::Result(outcome));
    // Writing plain structures to memory can't fail.
    serde_json::to_vec(&event).unwrap_or_default().into()
}

impl Context {
    /// Publishes a result. That nobody listens is fine: the outcome stays readable.
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
            // Whoever declared the queue wants it so small. Were this tried again, one tenant's queue would hold everybody up.
            Err(Trouble::Bus(bus::Error::Refused { key, .. } | bus::Error::TooLarge(key))) => {
                tracing::warn!(job.id = %job, why = key, "this result is not taken; it stays recorded");
                Ok(())
            }
            sent => sent,
        }
    }

    /// Sends what is left of a job that ended. An outcome that the store keeps is read and sent by a worker that has
    /// the store: a slow store holds no scheduler up.
    pub(crate) async fn send_recorded(&self, key: &JobKey, to: &Address, ended: Ended) -> Result<(), Trouble> {
        if let Some(wanted) = Wanted::new(key, &ended)
            && self.want(wanted, to).await?
        {
            return Ok(());
        }
        self.send_result(&key.job, to, ended.result(&key.job)).await
    }

    /// Hands a request for a stored outcome to the workers. `false`: none has a store.
    pub(crate) async fn want(&self, wanted: Wanted, to: &Address) -> Result<bool, Trouble> {
        // A follower's outcome is recorded also where nobody listens for it.
        let key = match (&to.reply_key, &wanted.follower) {
            (Some(key), _) => key.clone(),
            (None, Some(_)) => String::new(),
            (None, None) => return Ok(true),
        };
        match self.publish(wanted.message(key, to.correlation_id.clone())).await {
            Err(Trouble::Bus(bus::Error::Unroutable { .. })) => {
                tracing::error!(job.id = %wanted.job, "an outcome is in the store, and no worker has a store");
                Ok(false)
            }
            sent => sent.map(|()| true),
        }
    }

    /// Tells that a job has the id of another one. Nothing is recorded: the record is the other job's.
    pub(crate) async fn send_conflict(&self, key: &JobKey, to: &Address) -> Result<(), Trouble> {
        self.metrics.rejected(ErrorCode::IdConflict);
        let why = format!("another job was submitted under the id {}; this one was not run", key.job);
        let outcome = Outcome::with_error(Status::Rejected, ErrorInfo::new(ErrorCode::IdConflict, why));
        self.send_result(&key.job, to, result(&key.job, 0, outcome)).await
    }

    /// Records the outcome of a job that has not started, and sends whatever is recorded then. Of a job that runs nothing is
    /// changed or sent: its worker will answer.
    pub(crate) async fn settle(
        &self,
        key: &JobKey,
        pool: Option<&PoolName>,
        outcome: Outcome,
        to: &Address,
        meant: Meant,
    ) -> Result<Settle, Trouble> {
        let status = outcome.status;
        let body = result(&key.job, 0, outcome);
        let (digest, cancel) = match meant {
            Meant::ById => (None, false),
            Meant::ToCancel => (None, true),
            Meant::Job(digest) => (Some(digest), false),
        };
        let request = SettleRequest {
            job: key.clone(),
            pool: pool.cloned(),
            outcome: body.clone(),
            status,
            digest,
            cancel,
            keep: self.options.keep(pool),
        };
        let settled = self.registry.settle(&request).await?;
        match &settled {
            Settle::Won => self.send_result(&key.job, to, body).await?,
            Settle::Terminal(recorded) => self.send_recorded(key, to, recorded.clone()).await?,
            Settle::Conflict => self.send_conflict(key, to).await?,
            Settle::Started { .. } => {}
        }
        Ok(settled)
    }

    /// Refuses an admitted or checked job.
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
        self.settle(key, Some(pool), outcome, to, Meant::Job(digest.to_owned())).await.map(drop)
    }

    /// Refuses what never became a job, and acknowledges it. Repeated through outages.
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
                        self.settle(&key, pool, outcome.clone(), &to, meant).await.map(drop)
                    }
                    // Nothing to record it under. The correlation id tells the client which it was: its own, or the message's id.
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

/// Acknowledges; where the connection is gone the broker delivers again, and the record knows the job.
pub(crate) async fn acknowledge(delivery: &Delivery) {
    if let Err(error) = delivery.ack().await {
        tracing::debug!(%error, "not acknowledged: it will come again");
    }
}

/// Gives a delivery back; where the connection is gone the broker does so by itself.
pub(crate) async fn give_back(delivery: &Delivery) {
    if let Err(error) = delivery.requeue().await {
        tracing::debug!(%error, "not given back: it will come again");
    }
}
