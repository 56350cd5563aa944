//! The state machine of a job's record. It is pure: no clock, no I/O. All rules of "one outcome per job" are here.
//!
//! ```text
//!            admit                start(nonce)               finish(nonce)
//!  (absent) ───────▶ assigned(n) ─────────────▶ started(n) ───────────────▶ terminal(outcome) ──▶ terminal(tombstone)
//!     │                 ▲  │                        │ lease passed: resolve      ▲   ▲
//!     │ end_unstarted   │  │ end_unstarted          ├── n < max_attempts ──▶ assigned(n+1)
//!     └─────────────────┼──┴────────────────────────┼────────────────────────────┘   │
//!                       └───────────────────────────┴── otherwise: lost ─────────────┘
//! ```
//!
//! An ended job has two lives. In the first, its whole outcome is kept, for a while and within a budget. (During this
//! time, a large outcome may move to the fleet's store: [`shelve`].) In the second, only a [`Tombstone`] is left, which
//! says how the job ended and when. The tombstone stays as long as a copy of the job's message may exist, so that no
//! copy is taken for a new job.
//!
//! This file has the types, and the module `steps` has the functions. The in-process registry calls these functions,
//! and the Redis registry does each step in a script of its own. The contract suite runs random histories through both
//! registries and compares the answers.
//!
//! After the registry was emptied, a missing record doesn't prove that the job never started. Therefore, if other
//! copies of the message may exist, a worker never starts a job that has no record ([`Start::Resolve`]). [`resolve`]
//! holds such a copy until every living worker has announced its running jobs. If none of them has announced this job,
//! the copy counts as an attempt that may have started. This way, code that may start once never starts twice. For code
//! that may start n times, the registry forgets starts when it is emptied: each time, one more start becomes possible.

mod ended;
mod steps;
mod taken;
#[cfg(test)]
mod tests;

use std::time::Duration;

use thermae_schemas::{Status, WorkerId};

pub use ended::{DIGITS, End, Ended, Tombstone, Whole, digest};
pub use steps::{abandon, admission, admit, announce, end_unstarted, finish, resolve, shelve, start};
pub use taken::{Address, Answer, TakeOver, Taker, take_over};

/// Milliseconds: a duration, or a moment by the registry's clock, counted from 1970.
pub type Millis = u64;

/// State of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// The job was handed out, or is about to be. Its code has not started.
    Assigned,
    /// The code may have started.
    Started {
        /// The worker that runs it.
        owner: WorkerId,
        /// Names the worker's claim. If the worker repeats its start with the same nonce, it gets the same answer.
        nonce: String,
        /// Until when the owner may run the code. Each renewal of the lease moves this on.
        lease_until: Millis,
    },
    /// The job has ended. From now on, its status and mark never change.
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
    /// Routing key for the job's events. `None` if the job was submitted without one, or has ended. If it was taken
    /// over, the key stays after the end.
    pub reply_key: Option<String>,
    /// A text of the client's, which the result repeats. `None` if the client set none. Kept as the reply key is.
    pub correlation_id: Option<String>,
    /// When a client took the run over for the last time ([`Taker::at`]). `None` if none did.
    pub taken: Option<Millis>,
    /// Digest of the job. With it, a repeat of the job can be told from another job with the same id. `None` if it
    /// isn't known.
    pub digest: Option<String>,
    /// Whether the client cancelled the job while it ran. If so, there is no further attempt.
    pub cancelled: bool,
    /// Whether the record may lack a part of the job's past: the job may have been admitted before the registry was
    /// emptied, or the record comes from an older state of the registry's data. Then a worker may start the job only if
    /// its copy of the message is certainly the only one.
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

/// What a message says about its job. If the job has no record, the registry makes one from this.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Terms {
    /// How often the code may be started.
    pub max_attempts: u32,
    /// Routing key for the job's events.
    pub reply_key: Option<String>,
    /// A text of the client's, which the result repeats.
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
    /// The job has started, and its lease has not passed. There is nothing to hand out.
    UnderWay,
    /// The job has started, as this attempt, and its lease has passed. It must be resolved.
    Lapsed(u32),
    /// The job has ended.
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
    /// The job was recorded as lost, with the outcome that the caller gave for this case. Publish that outcome.
    Lost,
    /// The job was cancelled while it ran, and was recorded with the outcome that the caller gave for this case.
    /// Publish that outcome.
    Cancelled,
    /// A later attempt has started. Acknowledge this copy and forget it.
    Stale,
}

/// Answer to a scheduler that wants to end a job before it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndUnstarted {
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
