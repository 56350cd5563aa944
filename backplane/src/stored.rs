//! Requests for outcomes that the store keeps whole. Workers have the store; whoever finds that a job's outcome lies
//! there, and is asked for it again, hands the request to them by the queue `work.outcomes`.

use serde::{Deserialize, Serialize};
use thermae_schemas::{JobId, PoolName, Status, TenantName, names};

use crate::bus::Message;
use crate::record::{Ended, Tombstone};
use crate::registry::JobKey;

/// An outcome that somebody wants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// Whose.
    pub tenant: TenantName,
    /// The job that ended.
    pub job: JobId,
    /// Digest of its outcome, and its name in the store.
    pub digest: String,
    /// How the job ended: told where the store does not have the outcome.
    pub status: Status,
    /// When, in milliseconds since 1970.
    pub at: u64,
    /// The job that is answered with it, where it is another one.
    pub follower: Option<Follower>,
}

/// A job that is answered with the outcome of an equal one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Follower {
    /// Which.
    pub job: JobId,
    /// Its pool.
    pub pool: PoolName,
    /// Digest of the job.
    pub digest: String,
}

impl Wanted {
    /// What is left of that job, as a request. `None` where nothing has to be read from the store.
    pub fn new(key: &JobKey, ended: &Ended) -> Option<Self> {
        let Ended::Stored { digest, tombstone: Tombstone { status, at } } = ended else { return None };
        let (digest, status, at) = (digest.clone(), *status, *at);
        Some(Self { tenant: key.tenant.clone(), job: key.job.clone(), digest, status, at, follower: None })
    }

    /// The message that asks for it. Nobody is bound to its key where no worker has a store.
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

    /// Reads a request; `None` for what is none.
    pub fn read(message: &Message) -> Option<Self> {
        serde_json::from_slice(&message.body).ok()
    }

    /// The job's name.
    pub fn key(&self) -> JobKey {
        JobKey::new(self.tenant.clone(), self.job.clone())
    }

    /// What is told where the store does not have it.
    pub fn tombstone(&self) -> Tombstone {
        Tombstone { status: self.status, at: self.at }
    }
}
