//! The state machine of a job's record. It is pure: no clock, no I/O. All rules of "one outcome per job" are here.
//!
//! ```text
//!            admit                start(nonce)               finish(nonce)
//!  (absent) ───────▶ assigned(n) ─────────────▶ started(n) ───────────────▶ terminal(outcome) ──▶ terminal(tombstone)
//!     │                 ▲  │                        │ lease passed: resolve      ▲   ▲
//!     │ settle          │  │ settle                 ├── n < max_attempts ──▶ assigned(n+1)
//!     └─────────────────┼──┴────────────────────────┼────────────────────────────┘   │
//!                       └───────────────────────────┴── otherwise: lost ─────────────┘
//! ```
//!
//! An ended job has two lives. Its whole outcome is kept for a while and within a budget. After that only a
//! [`Tombstone`] is left, which says how the job ended and when. The tombstone stays as long as a copy of the job's
//! message may exist, so that no copy is taken for a new job. In between, a large outcome moves to the fleet's store
//! ([`shelve`]).
//!
//! The in-process registry calls these functions. The scripts of the Redis registry do the same step by step. The
//! contract suite runs random histories through both and compares the answers. The module `steps` has the functions,
//! and this file has the types.
//!
//! When the registry was emptied, a missing record proves nothing. So if other copies of a message may exist, a worker
//! never starts the job without a record ([`Start::Resolve`]). [`resolve`] holds such a copy until every living worker
//! has announced its running jobs. Then it counts the copy as an attempt that may have started. So code that may start
//! once never starts twice. For code that may start n times, an emptied registry can forget starts: each time it is
//! emptied, one more start is possible.

mod ended;
mod steps;
#[cfg(test)]
mod tests;

use std::time::Duration;

use thermae_schemas::{Status, WorkerId};

pub(crate) use ended::DIGITS;
pub use ended::{End, Ended, Tombstone, Whole, digest};
pub use steps::{abandon, admission, admit, announce, finish, resolve, settle, shelve, start};

/// Milliseconds: a duration, or a moment by the registry's clock, counted from 1970.
pub type Millis = u64;

/// State of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// The job was handed out, or is about to be. The code has not started.
    Assigned,
    /// The code may have started.
    Started {
        /// The worker that runs it.
        owner: WorkerId,
        /// The name of the claim. A worker that repeats its start with the same nonce gets the same answer.
        nonce: String,
        /// Until when the owner may run the code, unless it renews the lease.
        lease_until: Millis,
    },
    /// The job has ended. Its status and mark never change any more.
    Terminal {
        /// How it ended.
        status: Status,
        /// When it ended.
        at: Millis,
        /// Digest of the result message (see [`End::mark`]).
        mark: String,
        /// The whole outcome. `None` once it is no longer kept.
        outcome: Option<Whole>,
    },
}

/// A job's record: what the registry knows of the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// State of the job.
    pub state: State,
    /// Number of the current attempt, from 1.
    pub attempt: u32,
    /// How often the code may be started.
    pub max_attempts: u32,
    /// Routing key for the job's events. `None` if the job was submitted without one, and after it has ended.
    pub reply_key: Option<String>,
    /// The client's own mark, which the result repeats. `None` if the client set none, and after the job has ended.
    pub correlation_id: Option<String>,
    /// Digest of the job. It tells a repeat from another job with the same id. `None` if it isn't known.
    pub digest: Option<String>,
    /// The client cancelled the job while it ran, so there is no further attempt.
    pub cancelled: bool,
    /// The record may not know all of the job's past: its message may have been admitted before the registry was
    /// emptied, or the record was read from an older state of the registry's data. Only a copy that is certainly the
    /// only one may start from it.
    pub doubtful: bool,
}

/// A worker's claim on an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// The worker.
    pub owner: WorkerId,
    /// The claim's name, drawn at random by the worker.
    pub nonce: String,
}

/// What a message says about its job. A record that is missing is made from it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Terms {
    /// How often the code may be started.
    pub max_attempts: u32,
    /// Routing key for the job's events.
    pub reply_key: Option<String>,
    /// The client's own mark, which the result repeats.
    pub correlation_id: Option<String>,
    /// Digest of the job.
    pub digest: Option<String>,
}

/// The moment of a step, by the registry's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The time now.
    pub now: Millis,
    /// How long ago the current epoch began.
    pub epoch_age: Millis,
}

/// Answer to a scheduler that admits a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// There was no record. Hand the job out as attempt 1.
    Fresh,
    /// The job was handed out before and has not started. Hand it out again, as this attempt.
    Repeat(u32),
    /// It has started.
    UnderWay,
    /// The job has started, as this attempt, and its lease has passed. It must be resolved.
    Lapsed(u32),
    /// It has ended.
    Terminal(Ended),
    /// Another job has this id.
    Conflict,
}

/// Answer to a worker that wants to start a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// Start the code. A repeated claim with the same nonce gets this answer, too.
    Go,
    /// The job has ended. Publish this and acknowledge the message.
    Terminal(Ended),
    /// A later attempt is under way. Acknowledge this copy and forget it.
    Stale,
    /// The job may have started elsewhere. Hand this copy to the queue `resolve`.
    Resolve,
}

/// Answer to a worker that has an outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finish {
    /// The outcome is recorded. Publish it. A repeat of the same bytes gets this answer, too.
    Won,
    /// Another outcome was recorded. Publish that one.
    Terminal(Ended),
    /// A later attempt is under way. This outcome does not count.
    Superseded,
}

/// Answer to a scheduler that holds a copy of unknown fate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolve {
    /// The job has ended. Publish this and acknowledge the message.
    Terminal(Ended),
    /// The owner may still run it. Ask again after this time.
    Hold(Duration),
    /// Hand the job out again, as this attempt. Mark the message `maybe_duplicate`, since other copies may exist.
    Reassign(u32),
    /// Recorded as lost, with the outcome that the caller gave for this. Publish that outcome.
    Lost,
    /// The job was cancelled while it ran. It is recorded with the outcome that the caller gave for this. Publish that
    /// outcome.
    Cancelled,
    /// A later attempt has started. Acknowledge this copy and forget it.
    Stale,
}

/// Answer to a scheduler that wants to end a job before it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settle {
    /// The outcome is recorded. Publish it. A repeat of the same bytes gets this answer, too.
    Won,
    /// Another outcome was recorded. Publish that one.
    Terminal(Ended),
    /// The record belongs to another job with the same id. Nothing was changed.
    Conflict,
    /// Too late: the job runs.
    Started {
        /// The worker that runs it.
        owner: WorkerId,
        /// The number of the attempt that runs.
        attempt: u32,
    },
}
