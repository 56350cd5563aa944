//! The job record's state machine, pure: no clock, no I/O. Every rule of "one outcome per job" is here once.
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
//! An ended job has two lives. Its whole outcome is kept for a while and within a budget. After that a tombstone is left, which
//! says how it ended and when ([`Tombstone`]). It stays for as long as any copy of the job's message may live, so that no copy is
//! ever taken for a new job. A large outcome moves to the fleet's store in between ([`shelve`]).
//!
//! The in-process registry calls these functions; the Redis registry's scripts do the same step by step, and the contract
//! suite runs random histories through both and compares. `steps` holds the functions, this file the words.
//!
//! What an emptied registry changes: a record that is missing proves nothing then. So a copy that may have a twin never
//! starts without a record ([`Start::Resolve`]); [`resolve`] holds it until every living worker has announced what it
//! runs, and then counts it as an attempt that may have started. Code that may start once never starts twice that way; for
//! code that may start n times, an emptied registry can forget starts, and so allow one more for each time it was emptied.

mod ended;
mod steps;
#[cfg(test)]
mod tests;

use std::time::Duration;

use thermae_schemas::{Status, WorkerId};

pub(crate) use ended::DIGITS;
pub use ended::{End, Ended, Tombstone, Whole, digest};
pub use steps::{abandon, admission, admit, announce, finish, resolve, settle, shelve, start};

/// Milliseconds on the registry's own clock. Only differences mean anything.
pub type Millis = u64;

/// Where a job stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Handed out, or about to be; the code has not started.
    Assigned,
    /// The code may have started.
    Started {
        /// On which worker.
        owner: WorkerId,
        /// Name of the claim; whoever repeats it is the same claimant.
        nonce: String,
        /// The owner may run the code until then.
        lease_until: Millis,
    },
    /// It ended. Nothing changes any more.
    Terminal {
        /// How.
        status: Status,
        /// When.
        at: Millis,
        /// Digest of the result message: see [`End::mark`].
        mark: String,
        /// The whole outcome; `None` once it is no longer kept.
        outcome: Option<Whole>,
    },
}

/// What the registry knows of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Where it stands.
    pub state: State,
    /// The attempt that the state speaks of, from 1.
    pub attempt: u32,
    /// How often the code may be started.
    pub max_attempts: u32,
    /// Where its events go; `None` for a job submitted without a reply key, and for one that has ended.
    pub reply_key: Option<String>,
    /// The client's own mark, repeated in the result; `None` for a job that has ended.
    pub correlation_id: Option<String>,
    /// Digest of the job: tells a repeat from another job under the same id. `None` where nobody said it.
    pub digest: Option<String>,
    /// Its client cancelled it while it ran: no further attempt is made.
    pub cancelled: bool,
    /// It may miss something: made from a message that may have been admitted before the registry was emptied, or read from
    /// an older copy of the registry's data. Only a copy without a twin may start from it.
    pub doubtful: bool,
}

/// What a message says of its job; goes into a record that is missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Terms {
    /// How often the code may be started.
    pub max_attempts: u32,
    /// Where its events go.
    pub reply_key: Option<String>,
    /// The client's own mark.
    pub correlation_id: Option<String>,
    /// Digest of the job.
    pub digest: Option<String>,
}

/// The moment at which a step is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Now.
    pub now: Millis,
    /// How long ago the epoch began.
    pub epoch_age: Millis,
}

/// Answer to a scheduler that takes a job on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// There was no record: hand it out as attempt 1.
    Fresh,
    /// It was handed out before and has not started: hand it out again, as this attempt.
    Repeat(u32),
    /// It has started.
    UnderWay,
    /// It has started, as this attempt, and its owner was not heard of in time: it must be resolved.
    Lapsed(u32),
    /// It has ended.
    Terminal(Ended),
    /// Another job was submitted under this id.
    Conflict,
}

/// Answer to a worker that wants to start a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// Start it. (Also the answer to a repeated claim with the same nonce.)
    Go,
    /// It has ended: publish this and acknowledge.
    Terminal(Ended),
    /// A later attempt is under way: acknowledge and forget this copy.
    Stale,
    /// It may have started elsewhere: hand the copy to the resolve queue.
    Resolve,
}

/// Answer to a worker that has an outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finish {
    /// Recorded: publish it. (Also the answer to a repeat of the same bytes.)
    Won,
    /// Another outcome was recorded: publish that one.
    Terminal(Ended),
    /// A later attempt is under way: this outcome does not count.
    Superseded,
}

/// Answer to a scheduler that holds a copy of unknown fate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolve {
    /// It has ended: publish this and acknowledge.
    Terminal(Ended),
    /// Its owner may still be at it: ask again after this.
    Hold(Duration),
    /// Hand it out again, as this attempt; marked `maybe_duplicate`, since other copies of it may be about.
    Reassign(u32),
    /// Committed as lost, with the outcome given: publish that.
    Lost,
    /// It was cancelled while it ran, and committed with the outcome given for that: publish that.
    Cancelled,
    /// A later attempt has started: acknowledge and forget this copy.
    Stale,
}

/// Answer to whoever wants to end a job that has not started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settle {
    /// Recorded: publish it. (Also the answer to a repeat of the same bytes.)
    Won,
    /// Another outcome was recorded: publish that one.
    Terminal(Ended),
    /// The record is another job's, submitted under the same id; nothing was changed.
    Conflict,
    /// Too late: it runs there.
    Started {
        /// Where it runs.
        owner: WorkerId,
        /// As which attempt.
        attempt: u32,
    },
}
