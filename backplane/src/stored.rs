//! Requests for outcomes that only the store has whole. Workers can read the store, and the scheduler can't. If a job
//! is asked for again and its outcome is in the store, the scheduler or worker that answers publishes a request to the
//! queue `work.outcomes`. A worker with the store then sends the outcome.

use serde::{Deserialize, Serialize};
use thermae_schemas::{JobId, PoolName, Status, TenantName, names};

use crate::bus::Message;
use crate::record::{Ended, Tombstone};
use crate::registry::JobKey;

/// A request for an outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// The job's tenant.
    pub tenant: TenantName,
    /// The job that ended.
    pub job: JobId,
    /// Digest of its outcome, which is also the outcome's name in the store.
    pub digest: String,
    /// How the job ended. The answer says it if the store doesn't have the outcome.
    pub status: Status,
    /// When the job ended, in milliseconds since 1970.
    pub at: u64,
    /// The job that gets the outcome, if it is not `job` itself.
    pub follower: Option<Follower>,
}

/// A job that gets the outcome of an equal job, one with the same idempotency key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Follower {
    /// Its id.
    pub job: JobId,
    /// Its pool.
    pub pool: PoolName,
    /// Digest of the job.
    pub digest: String,
}

impl Wanted {
    /// The request for what is left of a job. `None` if the outcome isn't in the store.
    pub fn new(key: &JobKey, ended: &Ended) -> Option<Self> {
        let Ended::Stored { digest, tombstone: Tombstone { status, at } } = ended else { return None };
        let (digest, status, at) = (digest.clone(), *status, *at);
        Some(Self { tenant: key.tenant.clone(), job: key.job.clone(), digest, status, at, follower: None })
    }

    /// The message for this request. It is unroutable if no worker has ever had a store.
    pub fn message(&self, reply_key: String, correlation_id: Option<String>) -> Message {
        Message {
            exchange: names::WORK.to_owned(),
            key: names::OUTCOMES_KEY.to_owned(),
            // Writing plain structures to memory can't fail.
            body: serde_json::to_vec(self).unwrap_or_default().into(),
            message_id: Some(self.job.to_string()),
            reply_to: Some(reply_key),
            correlation_id,
            mandatory: true,
            persistent: true,
            ..Message::default()
        }
    }

    /// Reads a request. `None` if the message isn't one.
    pub fn read(message: &Message) -> Option<Self> {
        serde_json::from_slice(&message.body).ok()
    }

    /// The ended job's key in the registry.
    pub fn key(&self) -> JobKey {
        JobKey::new(self.tenant.clone(), self.job.clone())
    }

    /// What the answer says if the store doesn't have the outcome.
    pub fn tombstone(&self) -> Tombstone {
        Tombstone { status: self.status, at: self.at }
    }
}
