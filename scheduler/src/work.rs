//! The work message, which brings a job to a worker.

use thermae_backplane::bus::Message;
use thermae_backplane::registry::{Epoch, JobKey, Target};
use thermae_schemas::{PoolName, names};
use thermae_service::trace::TraceContext;

use crate::answer::Address;
use crate::context;

/// What a work message says in addition to the job.
pub(crate) struct Assignment<'a> {
    pub(crate) key: &'a JobKey,
    pub(crate) pool: &'a PoolName,
    /// The job's version of the protocol.
    pub(crate) protocol: u32,
    pub(crate) to: &'a Target,
    pub(crate) attempt: u32,
    pub(crate) epoch: &'a Epoch,
    pub(crate) max_attempts: u32,
    pub(crate) deadline: Option<u64>,
    /// The time after which no worker starts the job from this message, in milliseconds since 1970. Its record may be
    /// forgotten then.
    pub(crate) expires: u64,
    pub(crate) maybe_duplicate: bool,
    pub(crate) deaths: i64,
    pub(crate) address: Address,
    pub(crate) trace: TraceContext,
}

impl Assignment<'_> {
    /// The message. Its body is the submitted job's, unchanged.
    pub(crate) fn message(self, body: bytes::Bytes) -> Message {
        let key = match self.to {
            Target::Pool => names::pool_key(self.pool, self.protocol),
            Target::Worker { worker, .. } => names::worker_key(worker),
        };
        let mut message = Message {
            exchange: names::WORK.to_owned(),
            key,
            body,
            message_id: Some(self.key.job.to_string()),
            correlation_id: self.address.correlation_id,
            reply_to: self.address.reply_key,
            mandatory: true,
            persistent: true,
            ..Message::default()
        };
        let headers = &mut message.headers;
        headers.set_text(names::H_TENANT, self.key.tenant.as_str());
        headers.set_int(names::H_ATTEMPT, self.attempt.into());
        headers.set_text(names::H_EPOCH, self.epoch.to_string());
        headers.set_int(names::H_MAX_ATTEMPTS, self.max_attempts.into());
        if let Some(deadline) = self.deadline {
            headers.set_int(names::H_DEADLINE, i64::try_from(deadline).unwrap_or(i64::MAX));
        }
        headers.set_int(names::H_EXPIRES, i64::try_from(self.expires).unwrap_or(i64::MAX));
        if self.maybe_duplicate {
            headers.set_flag(names::H_MAYBE_DUPLICATE, true);
        }
        if let Target::Worker { create: true, .. } = self.to {
            headers.set_flag(names::H_SESSION_CREATE, true);
        }
        if self.deaths > 0 {
            headers.set_int(names::H_DEATHS, self.deaths);
        }
        context::set_trace(&mut message, self.trace);
        message
    }
}
