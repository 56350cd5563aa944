//! The registry's calls about jobs.

use thermae_schemas::Status;

use super::memory::{Entry, Forget, Key, Memory, count, millis};
use crate::record::{
    self, Address, Admission, DIGITS, End, EndUnstarted, Ended, Finish, Millis, Record, Resolve, Start, State,
    TakeOver, Taker, Terms, Whole,
};
use crate::registry::{
    Admit, Admitted, Claim, EndUnstartedRequest, FinishRequest, JobKey, Keep, ResolveRequest, ShelveRequest,
    StartRequest, Target,
};

/// The part of a job's digest that its record keeps.
fn short(digest: &str) -> Option<String> {
    (!digest.is_empty()).then(|| digest.get(..DIGITS).unwrap_or(digest).to_owned())
}

impl Memory {
    pub(super) fn record(&self, job: &JobKey) -> Option<Record> {
        self.jobs.get(job)?.record.clone()
    }

    /// The client that has taken the job's run over.
    pub(super) fn taker(&self, job: &JobKey) -> Option<Taker> {
        self.jobs.get(job)?.record.as_ref()?.taker()
    }

    /// Runs a step on a job's record. If the record has changed, it is kept for `ttl` from now on.
    fn on_record<T>(
        &mut self,
        job: &JobKey,
        ttl: std::time::Duration,
        now: Millis,
        step: impl FnOnce(&mut Option<Record>) -> T,
    ) -> T {
        if let Some(entry) = self.jobs.get_mut(job) {
            let before = entry.record.clone();
            let answer = step(&mut entry.record);
            if before != entry.record {
                self.keep_record(job, ttl, now);
            }
            return answer;
        }
        let mut slot = None;
        let answer = step(&mut slot);
        if slot.is_some() {
            let expires = now + millis(ttl);
            self.jobs.insert(job.clone(), Entry { record: slot, expires, ..Entry::default() });
            self.remember_until(expires, Forget::Job(job.clone()));
        }
        answer
    }

    /// Keeps a job's record for `ttl` from now on. Returns the moment when it expires.
    fn keep_record(&mut self, job: &JobKey, ttl: std::time::Duration, now: Millis) -> Millis {
        let expires = now + millis(ttl);
        if let Some(entry) = self.jobs.get_mut(job) {
            let earlier = expires < entry.expires;
            entry.expires = expires;
            if earlier {
                self.remember_until(expires, Forget::Job(job.clone()));
            }
        }
        expires
    }

    /// Runs a step that may end a job. If it does, the outcome is kept as long as it may be.
    fn ending<T>(&mut self, job: &JobKey, keep: &Keep, now: Millis, step: impl FnOnce(&mut Option<Record>) -> T) -> T {
        let ended = |memory: &Self| memory.jobs.get(job)?.record.as_ref()?.ended();
        let before = ended(self);
        let answer = self.on_record(job, keep.record, now, step);
        if let (None, Some(Ended::Outcome(outcome))) = (before, ended(self)) {
            self.keep_outcome(job, outcome.len(), keep, now);
        }
        answer
    }

    pub(super) fn admit(&mut self, admit: &Admit, now: Millis) -> Admitted {
        let job = &admit.job;
        let digest = short(&admit.digest);
        let standing =
            record::admission(self.jobs.get(job).and_then(|entry| entry.record.as_ref()), digest.as_deref(), now);
        match standing {
            Admission::Terminal(ended) => return Admitted::Terminal(ended),
            Admission::Conflict => return Admitted::IdConflict,
            Admission::UnderWay => return Admitted::UnderWay,
            Admission::Lapsed(attempt) => return Admitted::Lapsed(attempt),
            Admission::Repeat(_) => {}
            Admission::Fresh => {
                if let Some(refusal) = self.refusal(admit, now) {
                    return refusal;
                }
            }
        }
        let to = match self.place(job, admit.session.as_ref(), now) {
            Ok(to) => to,
            Err(refusal) => return refusal,
        };
        self.commit(admit, standing, to, now)
    }

    /// Why a new job can't be handed out, apart from its session.
    fn refusal(&mut self, admit: &Admit, now: Millis) -> Option<Admitted> {
        let job = &admit.job;
        if let Some(name) = &admit.idempotency_key
            && let Some(first) = self.keys.get(&(job.tenant.clone(), name.clone()))
            && first.job != job.job
            // An idempotency key counts only while its first job is remembered.
            && self.jobs.contains_key(&JobKey { tenant: job.tenant.clone(), job: first.job.clone() })
        {
            let first_job = first.job.clone();
            return Some(match first.digest == admit.digest {
                true => Admitted::DuplicateOf(first_job),
                false => Admitted::IdempotencyConflict(first_job),
            });
        }
        if self.credit_used(&admit.pool, now) >= admit.credit {
            return Some(Admitted::NoCredit);
        }
        let of_tenant = self.tenants.get_mut(&job.tenant);
        let handed_out = of_tenant.map_or(0, |leases| count(leases, now));
        let here = || match (self.tenants.get(&job.tenant), self.pools.get(&admit.pool)) {
            (Some(own), Some(pool)) => own.keys().filter(|job| pool.contains_key(job)).count() as u32,
            _ => 0,
        };
        let busy = admit.tenant_limit.is_some_and(|limit| handed_out >= limit)
            || admit.tenant_share.is_some_and(|share| here() >= share);
        busy.then_some(Admitted::TenantBusy)
    }

    fn commit(&mut self, admit: &Admit, standing: Admission, to: Target, now: Millis) -> Admitted {
        let job = &admit.job;
        let began = self.began;
        let terms = Terms {
            max_attempts: admit.max_attempts,
            reply_key: admit.reply_key.clone(),
            correlation_id: admit.correlation_id.clone(),
            digest: short(&admit.digest),
        };
        let doubtful = admit.repeat.as_ref().is_some_and(|repeat| repeat.may_precede(&self.epoch, began));
        let _ = self.on_record(job, admit.ttl, now, |slot| record::admit(slot, terms, doubtful, now));
        let expires = self.keep_record(job, admit.ttl, now);
        if let Some(entry) = self.jobs.get_mut(job) {
            entry.credit_ttl = millis(admit.credit_ttl);
            entry.pool = Some(admit.pool.clone());
            entry.session = admit.session.as_ref().map(|session| session.session.clone());
        }
        if let Some(name) = &admit.idempotency_key {
            let place = (job.tenant.clone(), name.clone());
            let key = Key { digest: admit.digest.clone(), job: job.job.clone(), expires };
            if self.keys.insert(place, key).is_none() {
                self.remember_until(expires, Forget::Key(job.tenant.clone(), name.clone()));
            }
        }
        self.take_credit(&admit.pool, job, now + millis(admit.credit_ttl));
        self.commit_place(job, admit.session.as_ref(), &to, now);
        let (attempt, repeat) = match standing {
            Admission::Repeat(attempt) => (attempt, true),
            _ => (1, false),
        };
        Admitted::Assigned { attempt, epoch: self.epoch.clone(), to, repeat }
    }

    pub(super) fn start(&mut self, start: &StartRequest, now: Millis) -> Start {
        let terms = Terms {
            max_attempts: start.max_attempts,
            reply_key: start.reply_key.clone(),
            correlation_id: start.correlation_id.clone(),
            digest: None,
        };
        let this_epoch = start.epoch == self.epoch;
        let lease_until = now + millis(start.lease);
        let answer = self.on_record(&start.job, start.ttl, now, |slot| {
            record::start(slot, &start.claim, terms, this_epoch, start.only_copy, lease_until)
        });
        if answer == Start::Go {
            self.take_credit(&start.pool, &start.job, lease_until);
        }
        answer
    }

    pub(super) fn finish(&mut self, finish: &FinishRequest, now: Millis) -> Finish {
        let end = End { outcome: finish.outcome.clone(), status: finish.status };
        let answer = self.ending(&finish.job, &finish.keep, now, |slot| record::finish(slot, &finish.claim, &end, now));
        if answer == Finish::Won {
            self.give_credit(Some(&finish.pool), &finish.job);
        }
        answer
    }

    pub(super) fn resolve(&mut self, resolve: &ResolveRequest, now: Millis) -> Resolve {
        let at = self.at(now);
        let lost = End { outcome: resolve.lost.clone(), status: Status::Lost };
        let cancelled = End { outcome: resolve.cancelled.clone(), status: Status::Cancelled };
        let answer = self.ending(&resolve.job, &resolve.keep, now, |slot| {
            let ResolveRequest { attempt, max_attempts, grace, .. } = resolve;
            record::resolve(slot, *attempt, *max_attempts, &lost, &cancelled, millis(*grace), at)
        });
        match answer {
            Resolve::Lost | Resolve::Cancelled => self.give_credit(Some(&resolve.pool), &resolve.job),
            Resolve::Reassign(_) => {
                // The job takes credit for as long as a new one, and its record must last longer than the message.
                self.keep_record(&resolve.job, resolve.keep.record, now);
                let ttl = self.jobs.get(&resolve.job).map_or(0, |entry| entry.credit_ttl);
                let ttl = if ttl == 0 { millis(resolve.grace) } else { ttl };
                self.take_credit(&resolve.pool, &resolve.job, now + ttl);
            }
            _ => {}
        }
        answer
    }

    pub(super) fn end_unstarted(&mut self, request: &EndUnstartedRequest, now: Millis) -> EndUnstarted {
        let end = End { outcome: request.outcome.clone(), status: request.status };
        let digest = request.digest.as_deref().and_then(short);
        let answer = self.ending(&request.job, &request.keep, now, |slot| {
            record::end_unstarted(slot, &end, digest.as_deref(), request.cancel, now)
        });
        if answer == EndUnstarted::Won {
            // The client that cancels a job doesn't say its pool.
            let admitted = self.jobs.get(&request.job).and_then(|entry| entry.pool.clone());
            self.give_credit(request.pool.as_ref().or(admitted.as_ref()), &request.job);
            self.release_creation(&request.job);
        }
        answer
    }

    pub(super) fn abandon(&mut self, job: &JobKey, claim: &Claim, now: Millis) -> bool {
        self.jobs.get_mut(job).is_some_and(|entry| record::abandon(&mut entry.record, claim, now))
    }

    pub(super) fn take_over(&mut self, job: &JobKey, to: &Address, now: Millis) -> TakeOver {
        match self.jobs.get_mut(job) {
            Some(entry) => record::take_over(&mut entry.record, to, now),
            None => TakeOver::Absent,
        }
    }

    pub(super) fn shelve(&mut self, shelve: &ShelveRequest, now: Millis) -> bool {
        let ShelveRequest { job, digest, bytes, keep } = shelve;
        let Some(entry) = self.jobs.get_mut(job) else { return false };
        let Some(State::Terminal { at, outcome, .. }) = entry.record.as_ref().map(|record| &record.state) else {
            return false;
        };
        let (at, was_here) = (*at, matches!(outcome, Some(Whole::Here(_))));
        let expires = at + millis(keep.outcome());
        if expires <= now || !record::shelve(&mut entry.record, digest) {
            return false;
        }
        entry.outcome_expires = expires;
        self.remember_until(expires, Forget::Outcome(job.clone()));
        if was_here {
            self.give_back(&job.tenant, keep.cost(*bytes), at);
        }
        true
    }

    /// A worker announces that it runs the job (see [`record::announce`]).
    pub(super) fn announce(
        &mut self,
        job: &JobKey,
        claim: &Claim,
        lease_until: Millis,
        ttl: std::time::Duration,
        now: Millis,
    ) -> bool {
        self.on_record(job, ttl, now, |slot| record::announce(slot, claim, lease_until))
    }
}
