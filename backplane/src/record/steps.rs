//! The steps. Each takes the record's place (`None`: there is no record), changes it, and says what to do.

use std::time::Duration;

use bytes::Bytes;
use thermae_schemas::WorkerId;

use super::{Admission, Finish, Millis, Moment, Record, Resolve, Settle, Start, State, Terms};
use crate::registry::Claim;

impl Record {
    fn new(state: State, attempt: u32, terms: Terms) -> Self {
        let Terms { max_attempts, reply_key, correlation_id } = terms;
        Self { state, attempt, max_attempts, reply_key, correlation_id, doubtful: false }
    }

    /// Whether this claim is the one that started it.
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

/// What [`admit`] would answer; changes nothing.
pub fn admission(slot: Option<&Record>) -> Admission {
    match slot {
        None => Admission::Fresh,
        Some(record) => match &record.state {
            State::Assigned => Admission::Repeat(record.attempt),
            State::Started { .. } => Admission::UnderWay,
            State::Terminal { outcome } => Admission::Terminal(outcome.clone()),
        },
    }
}

/// A scheduler takes the job on. `doubtful`: an earlier copy may have been admitted before the registry was emptied.
pub fn admit(slot: &mut Option<Record>, terms: Terms, doubtful: bool) -> Admission {
    let answer = admission(slot.as_ref());
    if answer == Admission::Fresh {
        *slot = Some(Record { doubtful, ..Record::new(State::Assigned, 1, terms) });
    }
    answer
}

/// The fence before the first instruction of the code. `this_epoch`: the copy was assigned in the current epoch.
/// `only_copy`: no other copy of it can exist.
pub fn start(
    slot: &mut Option<Record>,
    claim: &Claim,
    terms: Terms,
    this_epoch: bool,
    only_copy: bool,
    lease_until: Millis,
) -> Start {
    let Some(record) = slot else {
        // Nobody can have started it when this is its only copy; its record was lost while it waited.
        if !only_copy {
            return Start::Resolve;
        }
        *slot = Some(Record::new(started(claim, lease_until), claim.attempt, terms));
        return Start::Go;
    };
    match &record.state {
        State::Terminal { outcome } => Start::Terminal(outcome.clone()),
        State::Started { .. } if record.is_held_by(claim) => {
            record.hand_to(claim, lease_until);
            Start::Go
        }
        _ if claim.attempt < record.attempt => Start::Stale,
        State::Started { .. } => Start::Resolve,
        State::Assigned => {
            // A record younger than the copy (assigned in an earlier epoch, or ahead of it) knows nothing of its past.
            let knows = this_epoch && claim.attempt == record.attempt && !record.doubtful;
            if !(knows || only_copy) {
                return Start::Resolve;
            }
            record.hand_to(claim, lease_until);
            Start::Go
        }
    }
}

/// A claimant's outcome. Its lease may have passed: while nobody has moved the record on, it still counts.
pub fn finish(slot: &mut Option<Record>, claim: &Claim, outcome: &Bytes) -> Finish {
    let terminal = State::Terminal { outcome: outcome.clone() };
    let Some(record) = slot else {
        let terms = Terms { max_attempts: claim.attempt, ..Terms::default() };
        *slot = Some(Record::new(terminal, claim.attempt, terms));
        return Finish::Won;
    };
    match &record.state {
        State::Terminal { outcome: recorded } if recorded == outcome => Finish::Won,
        State::Terminal { outcome: recorded } => Finish::Terminal(recorded.clone()),
        // Assigned, and yet claimed: the claim is older than the record, which was lost and made anew.
        State::Assigned if claim.attempt >= record.attempt => {
            record.attempt = claim.attempt;
            record.state = terminal;
            Finish::Won
        }
        State::Started { .. } if record.is_held_by(claim) => {
            record.state = terminal;
            Finish::Won
        }
        _ => Finish::Superseded,
    }
}

/// Decides about a copy of this attempt and of unknown fate. `grace`: a missing record may yet be announced by its worker
/// until the epoch is that old.
pub fn resolve(
    slot: &mut Option<Record>,
    attempt: u32,
    max_attempts: u32,
    lost: &Bytes,
    grace: Millis,
    at: Moment,
) -> Resolve {
    let hold = |millis: Millis| Resolve::Hold(Duration::from_millis(millis));
    if let Some(record) = slot {
        match &record.state {
            State::Terminal { outcome } => return Resolve::Terminal(outcome.clone()),
            State::Started { .. } if attempt < record.attempt => return Resolve::Stale,
            State::Started { lease_until, .. } if at.now < *lease_until => return hold(lease_until - at.now),
            State::Assigned if !record.doubtful && attempt <= record.attempt => {
                return Resolve::Reassign(record.attempt);
            }
            State::Started { .. } => {}
            State::Assigned if at.epoch_age < grace => return hold(grace - at.epoch_age),
            State::Assigned => {}
        }
    } else if at.epoch_age < grace {
        return hold(grace - at.epoch_age);
    }
    // From here on the attempt counts as started, and as ended without a word.
    let terms = Terms { max_attempts, ..Terms::default() };
    let record = slot.get_or_insert_with(|| Record::new(State::Assigned, attempt, terms));
    record.attempt = record.attempt.max(attempt);
    record.max_attempts = record.max_attempts.max(max_attempts);
    record.doubtful = false;
    if record.attempt < record.max_attempts {
        record.attempt += 1;
        record.state = State::Assigned;
        Resolve::Reassign(record.attempt)
    } else {
        record.state = State::Terminal { outcome: lost.clone() };
        Resolve::Lost
    }
}

/// Ends a job that has not started.
pub fn settle(slot: &mut Option<Record>, outcome: &Bytes, reply_key: Option<&str>) -> Settle {
    let terminal = State::Terminal { outcome: outcome.clone() };
    let Some(record) = slot else {
        let terms = Terms { max_attempts: 1, reply_key: reply_key.map(str::to_owned), correlation_id: None };
        *slot = Some(Record::new(terminal, 1, terms));
        return Settle::Won;
    };
    match &record.state {
        State::Terminal { outcome: recorded } if recorded == outcome => Settle::Won,
        State::Terminal { outcome: recorded } => Settle::Terminal(recorded.clone()),
        State::Started { owner, .. } => Settle::Started { owner: owner.clone(), attempt: record.attempt },
        State::Assigned => {
            record.state = terminal;
            Settle::Won
        }
    }
}

/// A claimant gives up: its lease ends now. `false` where the claim does not stand.
pub fn abandon(slot: &mut Option<Record>, claim: &Claim, now: Millis) -> bool {
    match slot {
        Some(record) if record.is_held_by(claim) => {
            record.hand_to(claim, now);
            true
        }
        _ => false,
    }
}

/// A worker says that it runs this: its lease is renewed, or its record written anew. `false`: the claim no longer stands.
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

/// Who runs it.
impl Record {
    /// The worker whose claim stands.
    pub fn owner(&self) -> Option<&WorkerId> {
        match &self.state {
            State::Started { owner, .. } => Some(owner),
            _ => None,
        }
    }
}
