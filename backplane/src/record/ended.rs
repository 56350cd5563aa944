//! How a job ends, and what is left of it afterwards.

use bytes::Bytes;
use sha2::{Digest, Sha256};
use thermae_schemas::{Body, ErrorCode, Event, EventBody, JobId, Outcome, Status};

use super::Millis;

/// Number of hexadecimal digits of a digest that a record keeps.
pub const DIGITS: usize = 16;

/// An outcome to record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// The result message.
    pub outcome: Bytes,
    /// The status in the result message.
    pub status: Status,
}

impl End {
    /// Digest of the result message. It tells whether a later call repeats this outcome, even when the message itself
    /// is forgotten.
    pub fn mark(&self) -> String {
        let mut digest = digest(&self.outcome);
        digest.truncate(DIGITS);
        digest
    }
}

/// SHA-256 in hexadecimal digits. That of a result message begins with the [`End::mark`].
pub fn digest(bytes: &[u8]) -> String {
    let mut digits = [0; 64];
    // Much faster than `hex::encode`, which pushes single characters. 32 bytes have 64 digits, and all are ASCII.
    let _ = hex::encode_to_slice(Sha256::digest(bytes), &mut digits);
    String::from_utf8_lossy(&digits).into_owned()
}

/// A whole outcome, while it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whole {
    /// The result message, byte for byte as it is published.
    Here(Bytes),
    /// It is in the fleet's store under this digest (SHA-256 in hexadecimal digits).
    Stored(String),
}

/// What is left of a job that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// The result message, byte for byte.
    Outcome(Bytes),
    /// The result message is in the fleet's store, which only workers read.
    Stored {
        /// Digest of the result message, and its name in the store: SHA-256 in hexadecimal digits.
        digest: String,
        /// What the answer says if the store doesn't have the outcome.
        tombstone: Tombstone,
    },
    /// Only how and when the job ended.
    Tombstone(Tombstone),
}

/// What is left of a job when its outcome is no longer kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tombstone {
    /// How it ended.
    pub status: Status,
    /// When it ended, in milliseconds since 1970.
    pub at: Millis,
}

impl From<Bytes> for Ended {
    fn from(outcome: Bytes) -> Self {
        Self::Outcome(outcome)
    }
}

impl Ended {
    /// The result message that a process without the store publishes: the recorded one, or one that says
    /// `outcome_expired`.
    pub fn result(self, job: &JobId) -> Bytes {
        match self {
            Self::Outcome(outcome) => outcome,
            Self::Stored { tombstone, .. } | Self::Tombstone(tombstone) => tombstone.result(job),
        }
    }
}

impl Tombstone {
    /// The result message that replaces the one that is no longer kept.
    pub fn result(&self, job: &JobId) -> Bytes {
        let event = Event::new(job.clone(), 0, EventBody::Result(self.outcome()));
        // Writing plain structures to memory can't fail.
        event.to_json().unwrap_or_default().into()
    }

    /// The outcome that replaces the one that is no longer kept.
    pub fn outcome(&self) -> Outcome {
        let text = format!(
            "the job ended as {}, {} ms after the beginning of 1970 (UTC); its outcome is no longer kept, and the job is \
             not run again",
            self.status.as_str(),
            self.at
        );
        Outcome::lost(ErrorCode::OutcomeExpired, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tombstone_says_how_and_when_the_job_ended() {
        let job = JobId::new("j").unwrap();
        let tombstone = Tombstone { status: Status::Succeeded, at: 1_700_000_000_123 };
        let event: Event = serde_json::from_slice(&Ended::Tombstone(tombstone).result(&job)).unwrap();
        let EventBody::Result(outcome) = event.body else { panic!("no result") };
        let error = outcome.error.unwrap();
        assert_eq!((outcome.status, error.code), (Status::Lost, ErrorCode::OutcomeExpired));
        assert!(error.message.contains("succeeded") && error.message.contains("1700000000123"), "{}", error.message);
        assert!(!error.safe_to_retry);
    }
}
