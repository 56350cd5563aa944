//! The steps of the state machine. Each gets the slot of a record (`None`: there is no record), changes it, and returns
//! what the caller must do.

use std::time::Duration;

use thermae_schemas::WorkerId;

use super::{
    Admission, Claim, End, EndUnstarted, Ended, Finish, Millis, Moment, Record, Resolve, Start, State, Terms,
    Tombstone, Whole,
};

impl Record {
    fn new(state: State, attempt: u32, terms: Terms) -> Self {
        let Terms { max_attempts, reply_key, correlation_id, digest } = terms;
        Self {
            state,
            attempt,
            max_attempts,
            reply_key,
            correlation_id,
            taken: None,
            digest,
            cancelled: false,
            doubtful: false,
        }
    }

    /// What is left of the job. `None` while it has not ended.
    pub fn ended(&self) -> Option<Ended> {
        match &self.state {
            State::Terminal { status, at, outcome, .. } => {
                let tombstone = Tombstone { status: *status, at: *at };
                Some(match outcome {
                    Some(Whole::Here(outcome)) => Ended::Outcome(outcome.clone()),
                    Some(Whole::Stored(digest)) => Ended::Stored { digest: digest.clone(), tombstone },
                    None => Ended::Tombstone(tombstone),
                })
            }
            _ => None,
        }
    }

    /// Whether this is the outcome that was recorded.
    fn ended_as(&self, end: &End) -> bool {
        matches!(&self.state, State::Terminal { mark, .. } if *mark == end.mark())
    }

    /// Whether both digests are known and differ, so that this record belongs to another job.
    fn is_another(&self, digest: Option<&str>) -> bool {
        matches!((&self.digest, digest), (Some(mine), Some(other)) if mine != other)
    }

    /// Ends the job. From then on, nobody needs its reply key, unless it is that of a client that took the run over.
    fn end(&mut self, end: &End, at: Millis) {
        let (mark, outcome) = (end.mark(), Some(Whole::Here(end.outcome.clone())));
        self.state = State::Terminal { status: end.status, at, mark, outcome };
        if self.taken.is_none() {
            (self.reply_key, self.correlation_id) = (None, None);
        }
        (self.cancelled, self.doubtful) = (false, false);
    }

    /// Whether this claim started the job.
    fn is_held_by(&self, claim: &Claim) -> bool {
        match &self.state {
            State::Started { owner, nonce, .. } => {
                self.attempt == claim.attempt && *owner == claim.owner && *nonce == claim.nonce
            }
            _ => false,
        }
    }

    fn hand_to(&mut self, claim: &Claim, lease_until: Millis) {
        self.attempt = claim.attempt;
        self.doubtful = false;
        self.state = State::Started { owner: claim.owner.clone(), nonce: claim.nonce.clone(), lease_until };
    }
}

fn started(claim: &Claim, lease_until: Millis) -> State {
    State::Started { owner: claim.owner.clone(), nonce: claim.nonce.clone(), lease_until }
}

/// The answer that [`admit`] would give, without any change. `digest` is the digest of the submitted job.
pub fn admission(slot: Option<&Record>, digest: Option<&str>, now: Millis) -> Admission {
    let Some(record) = slot else { return Admission::Fresh };
    if record.is_another(digest) {
        return Admission::Conflict;
    }
    match (&record.state, record.ended()) {
        (_, Some(ended)) => Admission::Terminal(ended),
        (State::Started { lease_until, .. }, _) if *lease_until <= now => Admission::Lapsed(record.attempt),
        (State::Started { .. }, _) => Admission::UnderWay,
        _ => Admission::Repeat(record.attempt),
    }
}

/// A scheduler admits a job. `doubtful` means that an earlier copy may have been admitted before the registry was
/// emptied.
pub fn admit(slot: &mut Option<Record>, terms: Terms, doubtful: bool, now: Millis) -> Admission {
    let answer = admission(slot.as_ref(), terms.digest.as_deref(), now);
    if answer == Admission::Fresh {
        *slot = Some(Record { doubtful, ..Record::new(State::Assigned, 1, terms) });
    }
    answer
}

/// The fence: a worker asks whether it may start the code. `this_epoch` means that the copy was assigned in the current
/// epoch, `only_copy` that no other copy can exist.
pub fn start(
    slot: &mut Option<Record>,
    claim: &Claim,
    terms: Terms,
    this_epoch: bool,
    only_copy: bool,
    lease_until: Millis,
) -> Start {
    let Some(record) = slot else {
        // The record was lost while the copy waited. If this is the only copy, nobody can have started the job.
        if !only_copy {
            return Start::Resolve;
        }
        *slot = Some(Record::new(started(claim, lease_until), claim.attempt, terms));
        return Start::Go;
    };
    if let Some(ended) = record.ended() {
        return Start::Terminal(ended);
    }
    match &record.state {
        State::Started { .. } if record.is_held_by(claim) => {
            record.hand_to(claim, lease_until);
            Start::Go
        }
        _ if claim.attempt < record.attempt => Start::Stale,
        State::Started { .. } | State::Terminal { .. } => Start::Resolve,
        State::Assigned => {
            // This record may be younger than the copy (which comes from an earlier epoch, or has a higher attempt).
            // Then it doesn't know the past.
            let knows = this_epoch && claim.attempt == record.attempt && !record.doubtful;
            if !(knows || only_copy) {
                return Start::Resolve;
            }
            record.hand_to(claim, lease_until);
            Start::Go
        }
    }
}

/// Records the outcome of a claim. It counts even if the lease has passed, as long as the record has not moved on.
pub fn finish(slot: &mut Option<Record>, claim: &Claim, end: &End, now: Millis) -> Finish {
    let terms = Terms { max_attempts: claim.attempt, ..Terms::default() };
    let record = slot.get_or_insert_with(|| Record::new(State::Assigned, claim.attempt, terms));
    if let Some(ended) = record.ended() {
        return if record.ended_as(end) { Finish::Won } else { Finish::Terminal(ended) };
    }
    match &record.state {
        // The claim is older than the record, which was lost and made again.
        State::Assigned if claim.attempt >= record.attempt => {
            record.attempt = claim.attempt;
            record.end(end, now);
            Finish::Won
        }
        State::Started { .. } if record.is_held_by(claim) => {
            record.end(end, now);
            Finish::Won
        }
        _ => Finish::Superseded,
    }
}

/// Decides about a copy of this attempt, whose fate is unknown. If the record is missing, the worker may still announce
/// it until the epoch is `grace` old. `lost` and `cancelled` are the outcomes for a job that ends here.
pub fn resolve(
    slot: &mut Option<Record>,
    attempt: u32,
    max_attempts: u32,
    lost: &End,
    cancelled: &End,
    grace: Millis,
    at: Moment,
) -> Resolve {
    let hold = |millis: Millis| Resolve::Hold(Duration::from_millis(millis));
    if let Some(record) = slot {
        if let Some(ended) = record.ended() {
            return Resolve::Terminal(ended);
        }
        match &record.state {
            State::Started { .. } if attempt < record.attempt => return Resolve::Stale,
            State::Started { lease_until, .. } if at.now < *lease_until => return hold(lease_until - at.now),
            State::Assigned if !record.doubtful && attempt <= record.attempt => {
                return Resolve::Reassign(record.attempt);
            }
            State::Started { .. } | State::Terminal { .. } => {}
            State::Assigned if at.epoch_age < grace => return hold(grace - at.epoch_age),
            State::Assigned => {}
        }
    } else if at.epoch_age < grace {
        return hold(grace - at.epoch_age);
    }
    // From here on, the attempt counts as started and as ended without an outcome.
    let terms = Terms { max_attempts, ..Terms::default() };
    let record = slot.get_or_insert_with(|| Record::new(State::Assigned, attempt, terms));
    record.attempt = record.attempt.max(attempt);
    record.max_attempts = record.max_attempts.max(max_attempts);
    record.doubtful = false;
    if record.cancelled {
        record.end(cancelled, at.now);
        Resolve::Cancelled
    } else if record.attempt < record.max_attempts {
        record.attempt += 1;
        record.state = State::Assigned;
        Resolve::Reassign(record.attempt)
    } else {
        record.end(lost, at.now);
        Resolve::Lost
    }
}

/// Ends a job that has not started. `digest` is the digest of the job that the caller means. `cancel` means that the
/// client wants the job to end: if it runs, it gets no further attempt.
pub fn end_unstarted(
    slot: &mut Option<Record>,
    end: &End,
    digest: Option<&str>,
    cancel: bool,
    now: Millis,
) -> EndUnstarted {
    let terms = Terms { max_attempts: 1, digest: digest.map(str::to_owned), ..Terms::default() };
    let record = slot.get_or_insert_with(|| Record::new(State::Assigned, 1, terms));
    if record.is_another(digest) {
        return EndUnstarted::Conflict;
    }
    if let Some(ended) = record.ended() {
        return if record.ended_as(end) { EndUnstarted::Won } else { EndUnstarted::Terminal(ended) };
    }
    if let State::Started { owner, .. } = &record.state {
        record.cancelled |= cancel;
        return EndUnstarted::Started { owner: owner.clone(), attempt: record.attempt };
    }
    record.end(end, now);
    EndUnstarted::Won
}

/// A worker gives its claim up: the lease ends now. `false` if the claim no longer stands.
pub fn abandon(slot: &mut Option<Record>, claim: &Claim, now: Millis) -> bool {
    match slot {
        Some(record) if record.is_held_by(claim) => {
            record.hand_to(claim, now);
            true
        }
        _ => false,
    }
}

/// A worker announces that it runs the job. Renews the lease, or makes the record again. `false` if the claim no longer
/// stands.
pub fn announce(slot: &mut Option<Record>, claim: &Claim, lease_until: Millis) -> bool {
    let Some(record) = slot else {
        let terms = Terms { max_attempts: claim.attempt, ..Terms::default() };
        *slot = Some(Record::new(started(claim, lease_until), claim.attempt, terms));
        return true;
    };
    let stands = match &record.state {
        State::Terminal { .. } => false,
        State::Started { .. } => record.is_held_by(claim),
        State::Assigned => claim.attempt >= record.attempt,
    };
    if stands {
        record.hand_to(claim, lease_until);
    }
    stands
}

impl Record {
    /// The worker that runs the job. `None` if it isn't started.
    pub fn owner(&self) -> Option<&WorkerId> {
        match &self.state {
            State::Started { owner, .. } => Some(owner),
            _ => None,
        }
    }
}

/// The store has the whole outcome with this digest. `false` if another outcome was recorded, or none.
pub fn shelve(slot: &mut Option<Record>, digest: &str) -> bool {
    match slot.as_mut().map(|record| &mut record.state) {
        Some(State::Terminal { mark, outcome, .. }) if digest.starts_with(mark.as_str()) => {
            *outcome = Some(Whole::Stored(digest.to_owned()));
            true
        }
        _ => false,
    }
}
