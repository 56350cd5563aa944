//! Reads the scripts' answers.

use std::time::Duration;

use bytes::Bytes;
use redis::Value;
use thermae_schemas::{JobId, Status, WorkerId};

use thermae_backplane::record::{
    Address, Answer, EndUnstarted, Ended, Finish, Record, Resolve, Start, State, TakeOver, Taker, Tombstone, Whole,
};
use thermae_backplane::registry::{Admitted, Counted, Epoch, Error, Gone, Holder, Target};

/// An answer, read from front to back: a word, then the values that belong to it.
pub(super) struct Reply(std::vec::IntoIter<Value>);

fn unreadable(what: &str) -> Error {
    Error::Corrupt(format!("a script answered with an unexpected {what}"))
}

fn bytes(value: Value) -> Result<Vec<u8>, Error> {
    match value {
        Value::BulkString(bytes) => Ok(bytes),
        Value::SimpleString(text) => Ok(text.into_bytes()),
        _ => Err(unreadable("type")),
    }
}

impl Reply {
    pub(super) fn new(value: Value) -> Result<Self, Error> {
        match value {
            Value::Array(values) => Ok(Self(values.into_iter())),
            _ => Err(unreadable("type")),
        }
    }

    fn next(&mut self) -> Result<Value, Error> {
        self.0.next().ok_or_else(|| unreadable("length"))
    }

    pub(super) fn bytes(&mut self) -> Result<Bytes, Error> {
        Ok(bytes(self.next()?)?.into())
    }

    pub(super) fn text(&mut self) -> Result<String, Error> {
        String::from_utf8(bytes(self.next()?)?).map_err(|_| unreadable("text"))
    }

    /// Decodes an optional value: `''` is none, and `=text` is a text.
    fn optional(&mut self) -> Result<Option<String>, Error> {
        Ok(self.text()?.strip_prefix('=').map(str::to_owned))
    }

    pub(super) fn int(&mut self) -> Result<u64, Error> {
        match self.next()? {
            Value::Int(n) => u64::try_from(n).map_err(|_| unreadable("number")),
            _ => Err(unreadable("type")),
        }
    }

    fn small(&mut self) -> Result<u32, Error> {
        u32::try_from(self.int()?).map_err(|_| unreadable("number"))
    }

    fn flag(&mut self) -> Result<bool, Error> {
        Ok(self.int()? == 1)
    }

    fn status(&mut self) -> Result<Status, Error> {
        let word = self.text()?;
        Status::ALL.into_iter().find(|status| status.as_str() == word).ok_or_else(|| unreadable("status"))
    }

    /// What is left of a job, if `word` says that the job has ended.
    fn ended(&mut self, word: &str) -> Result<Option<Ended>, Error> {
        Ok(match word {
            "terminal" => Some(Ended::Outcome(self.bytes()?)),
            "stored" => {
                let tombstone = Tombstone { status: self.status()?, at: self.int()? };
                Some(Ended::Stored { digest: self.text()?, tombstone })
            }
            "tombstone" => Some(Ended::Tombstone(Tombstone { status: self.status()?, at: self.int()? })),
            _ => None,
        })
    }

    /// Who has taken the run over, at the end of an answer.
    fn taker(&mut self) -> Result<Option<Taker>, Error> {
        if self.0.len() == 0 {
            return Ok(None);
        }
        let at = self.int()?;
        Ok(Some(Taker { at, address: Address { reply_key: self.text()?, correlation_id: self.optional()? } }))
    }

    fn worker(&mut self) -> Result<WorkerId, Error> {
        WorkerId::new(self.text()?).map_err(|_| unreadable("worker"))
    }

    fn job(&mut self) -> Result<JobId, Error> {
        JobId::new(self.text()?).map_err(|_| unreadable("job"))
    }

    /// A list of texts. Bytes that are not UTF-8 are replaced.
    pub(super) fn list(&mut self) -> Result<Vec<String>, Error> {
        let Value::Array(values) = self.next()? else { return Err(unreadable("type")) };
        values.into_iter().map(|value| Ok(String::from_utf8_lossy(&bytes(value)?).into_owned())).collect()
    }

    /// All remaining values, as numbers.
    pub(super) fn rest(mut self) -> Result<Vec<u64>, Error> {
        let mut found = Vec::with_capacity(self.0.len());
        while self.0.len() > 0 {
            found.push(self.int()?);
        }
        Ok(found)
    }
}

pub(super) fn admitted(value: Value) -> Result<Admitted, Error> {
    let mut reply = Reply::new(value)?;
    let word = reply.text()?;
    if let Some(ended) = reply.ended(&word)? {
        return Ok(Admitted::Terminal(ended));
    }
    Ok(match word.as_str() {
        "lapsed" => Admitted::Lapsed(reply.small()?),
        "id_conflict" => Admitted::IdConflict,
        "under_way" => Admitted::UnderWay,
        "no_credit" => Admitted::NoCredit,
        "tenant_busy" => Admitted::TenantBusy,
        "duplicate" => Admitted::DuplicateOf(reply.job()?),
        "conflict" => Admitted::IdempotencyConflict(reply.job()?),
        "no_session_worker" => Admitted::NoSessionWorker,
        "session_gone" => Admitted::SessionGone(gone(&reply.text()?)?),
        "assigned" => {
            let (attempt, epoch) = (reply.small()?, Epoch(reply.text()?));
            let worker = reply.text()?;
            let (create, repeat) = (reply.flag()?, reply.flag()?);
            let to = if worker.is_empty() {
                Target::Pool
            } else {
                Target::Worker { worker: WorkerId::new(worker).map_err(|_| unreadable("worker"))?, create }
            };
            Admitted::Assigned { attempt, epoch, to, repeat }
        }
        _ => return Err(unreadable("word")),
    })
}

/// Reads an answer that tells who has taken the run over. `terminal` makes the answer for a job that has ended, and
/// `other` reads all others by their first word.
fn telling<T>(
    value: Value,
    terminal: impl FnOnce(Ended) -> T,
    other: impl FnOnce(&str, &mut Reply) -> Result<T, Error>,
) -> Result<Answer<T>, Error> {
    let mut reply = Reply::new(value)?;
    let word = reply.text()?;
    let what = match reply.ended(&word)? {
        Some(ended) => terminal(ended),
        None => other(&word, &mut reply)?,
    };
    Ok(Answer { what, taker: reply.taker()? })
}

pub(super) fn start(value: Value) -> Result<Answer<Start>, Error> {
    telling(value, Start::Terminal, |word, _| {
        Ok(match word {
            "go" => Start::Go,
            "stale" => Start::Stale,
            "resolve" => Start::Resolve,
            _ => return Err(unreadable("word")),
        })
    })
}

pub(super) fn finish(value: Value) -> Result<Answer<Finish>, Error> {
    telling(value, Finish::Terminal, |word, _| {
        Ok(match word {
            "won" => Finish::Won,
            "superseded" => Finish::Superseded,
            _ => return Err(unreadable("word")),
        })
    })
}

pub(super) fn resolve(value: Value) -> Result<Answer<Resolve>, Error> {
    telling(value, Resolve::Terminal, |word, reply| {
        Ok(match word {
            "cancelled" => Resolve::Cancelled,
            "hold" => Resolve::Hold(Duration::from_millis(reply.int()?)),
            "reassign" => Resolve::Reassign(reply.small()?),
            "lost" => Resolve::Lost,
            "stale" => Resolve::Stale,
            _ => return Err(unreadable("word")),
        })
    })
}

pub(super) fn end_unstarted(value: Value) -> Result<Answer<EndUnstarted>, Error> {
    telling(value, EndUnstarted::Terminal, |word, reply| {
        Ok(match word {
            "won" => EndUnstarted::Won,
            "conflict" => EndUnstarted::Conflict,
            "full" => return Err(Error::Full),
            "started" => EndUnstarted::Started { owner: reply.worker()?, attempt: reply.small()? },
            _ => return Err(unreadable("word")),
        })
    })
}

/// What came of a request to take counts.
pub(super) fn counted(value: Value) -> Result<Counted, Error> {
    let mut reply = Reply::new(value)?;
    let word = reply.text()?;
    let mut place = || Ok(usize::try_from(reply.int()?).unwrap_or(usize::MAX));
    match word.as_str() {
        "all" => Ok(Counted::All),
        "exhausted" => Ok(Counted::Exhausted(place()?)),
        "lost" => Ok(Counted::Lost(place()?)),
        "full" => Ok(Counted::Full),
        _ => Err(unreadable("word")),
    }
}

pub(super) fn take_over(value: Value) -> Result<TakeOver, Error> {
    let mut reply = Reply::new(value)?;
    let word = reply.text()?;
    match word.as_str() {
        "absent" => return Ok(TakeOver::Absent),
        "ended" => return Ok(TakeOver::Ended),
        "assigned" | "started" => {}
        _ => return Err(unreadable("word")),
    }
    let (attempt, reply_key, correlation_id) = (reply.small()?, reply.optional()?, reply.optional()?);
    let previous = reply_key.map(|reply_key| Address { reply_key, correlation_id });
    Ok(match word.as_str() {
        "assigned" => TakeOver::Assigned { attempt, previous },
        _ => {
            let (owner, at) = (reply.worker()?, Some(reply.int()?).filter(|at| *at > 0));
            TakeOver::Started { owner, attempt, at, previous }
        }
    })
}

pub(super) fn record(value: Value) -> Result<Option<Record>, Error> {
    if value == Value::Nil {
        return Ok(None);
    }
    let mut reply = Reply::new(value)?;
    let state = reply.text()?;
    let (attempt, max_attempts) = (reply.small()?, reply.small()?);
    let (reply_key, correlation_id) = (reply.optional()?, reply.optional()?);
    let doubtful = reply.flag()?;
    let (owner, nonce, lease_until) = (reply.text()?, reply.text()?, reply.int()?);
    let (cancelled, digest) = (reply.flag()?, Some(reply.text()?).filter(|digest| !digest.is_empty()));
    let (status, at, mark) = (reply.status()?, reply.int()?, reply.text()?);
    let outcome = match (reply.next()?, reply.next()?) {
        (Value::Nil, Value::Nil) => None,
        (Value::Nil, _) if state != "T" => None,
        (Value::Nil, digest) => Some(Whole::Stored(String::from_utf8(bytes(digest)?).map_err(|_| unreadable("text"))?)),
        (outcome, _) => Some(Whole::Here(bytes(outcome)?.into())),
    };
    let taken = Some(reply.int()?).filter(|at| *at > 0);
    let state = match state.as_str() {
        "A" => State::Assigned,
        "S" => {
            let owner = WorkerId::new(owner).map_err(|_| unreadable("worker"))?;
            State::Started { owner, nonce, lease_until }
        }
        "T" => State::Terminal { status, at, mark, outcome },
        _ => return Err(unreadable("state")),
    };
    Ok(Some(Record { state, attempt, max_attempts, reply_key, correlation_id, taken, digest, cancelled, doubtful }))
}

pub(super) fn holder(value: Value) -> Result<Holder, Error> {
    let mut reply = Reply::new(value)?;
    Ok(match reply.text()?.as_str() {
        "worker" => Holder::Worker(reply.worker()?),
        "gone" => Holder::Gone(gone(&reply.text()?)?),
        "nobody" => Holder::Nobody,
        "unsettled" => Holder::Unsettled,
        _ => return Err(unreadable("word")),
    })
}

/// The word that Redis keeps for this reason.
pub(super) fn gone_word(gone: Gone) -> &'static str {
    match gone {
        Gone::Expired => "expired",
        Gone::Evicted => "evicted",
        Gone::Lost => "lost",
        Gone::Closed => "closed",
    }
}

fn gone(word: &str) -> Result<Gone, Error> {
    Ok(match word {
        "expired" => Gone::Expired,
        "evicted" => Gone::Evicted,
        "lost" => Gone::Lost,
        "closed" => Gone::Closed,
        _ => return Err(unreadable("word")),
    })
}
