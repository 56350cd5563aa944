//! Runs that another client takes over: from then on, it gets all that is sent about the run.
//!
//! A record says who has taken its run over, also after the end. Whoever publishes an outcome sends it there, whatever
//! reply key its own copy of the job's message has. All steps whose answer may lead to such a message tell it
//! ([`Answer`]).

use thermae_schemas::WorkerId;

use super::{Millis, Record, State};

/// Where messages about a job go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Their routing key.
    pub reply_key: String,
    /// A text of the client's, which each of them repeats.
    pub correlation_id: Option<String>,
}

/// The client that has taken a run over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taker {
    /// Where messages about the run go.
    pub address: Address,
    /// When it took the run over, by the registry's clock, in milliseconds. Of two takers of a run, the later has the
    /// higher number, also if the registry was emptied in between: takers in one millisecond run ahead of the clock,
    /// but a registry that was emptied needs longer than that to come back.
    pub at: Millis,
}

/// A step's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer<T> {
    /// What the caller must do.
    pub what: T,
    /// Who gets what the caller sends about the job. `None` if nobody has taken the run over: then the address in the
    /// caller's copy of the message counts.
    pub taker: Option<Taker>,
}

/// An answer about a job that nobody has taken over.
impl<T> From<T> for Answer<T> {
    fn from(what: T) -> Self {
        Self { what, taker: None }
    }
}

/// An answer is equal to a bare one only if nobody has taken the run over.
impl<T: PartialEq> PartialEq<T> for Answer<T> {
    fn eq(&self, other: &T) -> bool {
        self.taker.is_none() && self.what == *other
    }
}

/// Answer to a client that takes a run over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TakeOver {
    /// There is no record.
    Absent,
    /// The job has ended, and nothing was changed.
    Ended,
    /// The client has the run, whose code has not started.
    Assigned {
        /// Number of the attempt, from 1.
        attempt: u32,
        /// The client that had the run. `None` if nobody had it, or the same client.
        previous: Option<Address>,
    },
    /// The client has the run, whose code may have started.
    Started {
        /// The worker that runs it.
        owner: WorkerId,
        /// Number of the attempt, from 1.
        attempt: u32,
        /// As [`Taker::at`]. `None` if nobody has ever taken the run over: the client has submitted the job itself.
        at: Option<Millis>,
        /// As in `Assigned`.
        previous: Option<Address>,
    },
}

impl Record {
    /// Where messages about the job go. `None` if nobody gets any, or the job has ended and was not taken over.
    pub fn address(&self) -> Option<Address> {
        let correlation_id = self.correlation_id.clone();
        self.reply_key.clone().map(|reply_key| Address { reply_key, correlation_id })
    }

    /// The client that has taken the run over. `None` if no other client than the one that submitted the job had it.
    pub fn taker(&self) -> Option<Taker> {
        Some(Taker { at: self.taken?, address: self.address()? })
    }
}

/// A client takes a run over. If the same client has the run already, only its correlation id can change.
pub fn take_over(slot: &mut Option<Record>, to: &Address, now: Millis) -> TakeOver {
    let Some(record) = slot else { return TakeOver::Absent };
    if matches!(record.state, State::Terminal { .. }) {
        return TakeOver::Ended;
    }
    let before = record.address();
    if before.as_ref() != Some(to) {
        record.taken = Some(record.taken.map_or(now, |last| now.max(last + 1)));
        (record.reply_key, record.correlation_id) = (Some(to.reply_key.clone()), to.correlation_id.clone());
    }
    let previous = before.filter(|before| before.reply_key != to.reply_key);
    match &record.state {
        State::Started { owner, .. } => {
            TakeOver::Started { owner: owner.clone(), attempt: record.attempt, at: record.taken, previous }
        }
        _ => TakeOver::Assigned { attempt: record.attempt, previous },
    }
}
