//! Workers: their heartbeats and deaths, the sessions that they hold (and what is remembered of those that are gone),
//! and which scheduler leads.

use std::time::Duration;

use thermae_schemas::{Heartbeat, IfGone, JobId, SessionHeld, SessionName, TenantName, WorkerId};

use super::memory::{Forget, Memory, Session, Worker, millis};
use crate::record::{Millis, Record};
use crate::registry::types::{RUNNING_TTL, SESSION_TTL, capacity_of};
use crate::registry::{Admitted, Beat, Claim, Gone, Holder, JobKey, Notice, SessionAdmit, Target};

impl Memory {
    pub(super) fn heartbeat(&mut self, beat: &Heartbeat, ttl: Duration, now: Millis) -> Beat {
        let alive_until = now + millis(ttl);
        let news = match self.workers.get(&beat.worker) {
            Some(known) if known.alive_until > now => capacity_of(&known.beat) != capacity_of(beat),
            _ => true,
        };
        self.workers.insert(beat.worker.clone(), Worker { beat: beat.clone(), alive_until });
        if news {
            self.tell(Notice::Workers);
        }
        let mut revoked = Vec::new();
        for running in &beat.running {
            let job = JobKey::new(running.tenant.clone(), running.job.clone());
            let claim = Claim { attempt: running.attempt, owner: beat.worker.clone(), nonce: running.nonce.clone() };
            if !self.announce(&job, &claim, alive_until, RUNNING_TTL, now) {
                revoked.push(job);
            } else if running.paused {
                self.give_credit(Some(&running.pool), &job);
            } else {
                // A job that goes on takes its credit again, even if there is none left.
                self.take_credit(&running.pool, &job, alive_until);
            }
        }
        for held in &beat.sessions {
            self.announce_session(&beat.worker, held, now);
        }
        Beat { epoch: self.epoch.clone(), revoked }
    }

    pub(super) fn leave(&mut self, worker: &WorkerId, now: Millis) {
        if let Some(known) = self.workers.get_mut(worker) {
            known.alive_until = now;
            self.tell(Notice::Workers);
        }
        self.lose_sessions(worker, now);
    }

    pub(super) fn workers(&self, now: Millis) -> Vec<Heartbeat> {
        self.workers.values().filter(|worker| worker.alive_until > now).map(|worker| worker.beat.clone()).collect()
    }

    pub(super) fn dead_workers(&self, now: Millis) -> Vec<WorkerId> {
        self.workers.iter().filter(|(_, worker)| worker.alive_until <= now).map(|(id, _)| id.clone()).collect()
    }

    pub(super) fn bury(&mut self, worker: &WorkerId, now: Millis) {
        if self.workers.get(worker).is_some_and(|worker| worker.alive_until > now) {
            return;
        }
        self.workers.remove(worker);
        self.lose_sessions(worker, now);
    }

    pub(super) fn lead(&mut self, shard: &str, who: &str, ttl: Duration, now: Millis) -> bool {
        match self.leaders.get(shard) {
            Some((leader, until)) if *until > now && leader != who => false,
            _ => {
                self.leaders.insert(shard.to_owned(), (who.to_owned(), now + millis(ttl)));
                true
            }
        }
    }

    fn is_alive(&self, worker: &WorkerId, now: Millis) -> bool {
        self.workers.get(worker).is_some_and(|worker| worker.alive_until > now)
    }

    /// Why this session is gone. `None` if it isn't.
    fn gone(&self, session: &Session, now: Millis) -> Option<Gone> {
        session.gone.or((!self.is_alive(&session.worker, now)).then_some(Gone::Lost))
    }

    /// Whether the worker of a session that isn't known may still announce it.
    fn is_unsettled(&self, now: Millis) -> bool {
        self.at(now).epoch_age < self.announce_grace
    }

    pub(super) fn session_holder(&self, tenant: &TenantName, name: &SessionName, now: Millis) -> Holder {
        match self.sessions.get(&(tenant.clone(), name.clone())) {
            Some(session) => match self.gone(session, now) {
                Some(gone) => Holder::Gone(gone),
                None => Holder::Worker(session.worker.clone()),
            },
            None if self.is_unsettled(now) => Holder::Unsettled,
            None => Holder::Nobody,
        }
    }

    /// Decides where a job goes, without any change.
    pub(super) fn place(&self, job: &JobKey, admit: Option<&SessionAdmit>, now: Millis) -> Result<Target, Admitted> {
        let Some(admit) = admit else { return Ok(Target::Pool) };
        let anew = || match &admit.candidate {
            Some(worker) => Ok(Target::Worker { worker: worker.clone(), create: true }),
            None => Err(Admitted::NoSessionWorker),
        };
        let Some(session) = self.sessions.get(&(job.tenant.clone(), admit.session.clone())) else {
            return if self.is_unsettled(now) { Err(Admitted::NoSessionWorker) } else { anew() };
        };
        match self.gone(session, now) {
            Some(gone) if admit.if_gone == IfGone::Fail && (gone != Gone::Lost || self.began(session, job)) => {
                Err(Admitted::SessionGone(gone))
            }
            Some(_) => anew(),
            None => {
                let creator = session.creator.as_ref().is_none_or(|creator| *creator == job.job);
                Ok(Target::Worker { worker: session.worker.clone(), create: creator && !session.announced })
            }
        }
    }

    /// Whether a session may have begun, as far as this job can tell, which is to be handed out. A session never began
    /// if the job that was to create it has not started.
    fn began(&self, session: &Session, job: &JobKey) -> bool {
        let unstarted = |record: &Record| record.attempt == 1 && !record.doubtful;
        let is_unstarted = || self.jobs.get(job).and_then(|entry| entry.record.as_ref()).is_some_and(unstarted);
        let creator = session.creator.as_ref();
        session.announced || creator.is_some_and(|creator| *creator != job.job || !is_unstarted())
    }

    /// Carries out what `place` has decided.
    pub(super) fn commit_place(&mut self, job: &JobKey, admit: Option<&SessionAdmit>, to: &Target, now: Millis) {
        let (Some(admit), Target::Worker { worker, create }) = (admit, to) else { return };
        let place = (job.tenant.clone(), admit.session.clone());
        let expires = now + millis(SESSION_TTL);
        if !create {
            if let Some(session) = self.sessions.get_mut(&place) {
                session.expires = expires;
            }
            return;
        }
        let creator = Some(job.job.clone());
        let session = Session { worker: worker.clone(), creator, announced: false, gone: None, expires };
        if self.sessions.insert(place, session).is_none() {
            self.remember_until(expires, Forget::Session(job.tenant.clone(), admit.session.clone()));
        }
    }

    /// The job ends without having created its session, so the next job may create it.
    pub(super) fn release_creation(&mut self, job: &JobKey) {
        let Some(name) = self.jobs.get(job).and_then(|entry| entry.session.clone()) else { return };
        if let Some(session) = self.sessions.get_mut(&(job.tenant.clone(), name))
            && session.creator.as_ref() == Some(&job.job)
        {
            session.creator = None;
        }
    }

    /// A worker announces that it holds this session.
    pub(super) fn announce_session(&mut self, worker: &WorkerId, held: &SessionHeld, now: Millis) {
        let place = (held.tenant.clone(), held.session.clone());
        let expires = now + millis(SESSION_TTL);
        if let Some(session) = self.sessions.get_mut(&place) {
            if session.worker == *worker && session.gone.is_none() {
                session.announced = true;
                session.expires = expires;
            }
            return;
        }
        let session = Session { worker: worker.clone(), creator: None, announced: true, gone: None, expires };
        self.sessions.insert(place, session);
        self.remember_until(expires, Forget::Session(held.tenant.clone(), held.session.clone()));
    }

    pub(super) fn end_session(
        &mut self,
        tenant: &TenantName,
        name: &SessionName,
        worker: &WorkerId,
        creator: Option<&JobId>,
        gone: Gone,
        now: Millis,
    ) {
        let place = (tenant.clone(), name.clone());
        let Some(session) = self.sessions.get_mut(&place) else { return };
        let is_later = session.creator.as_ref().zip(creator).is_some_and(|(its, creator)| its != creator);
        if session.worker != *worker || session.gone.is_some() || is_later {
            return;
        }
        if gone == Gone::Closed {
            self.sessions.remove(&place);
        } else {
            session.gone = Some(gone);
            session.expires = now + millis(SESSION_TTL);
        }
    }

    /// Marks all sessions of this worker as lost.
    pub(super) fn lose_sessions(&mut self, worker: &WorkerId, now: Millis) {
        for session in self.sessions.values_mut().filter(|session| session.worker == *worker && session.gone.is_none())
        {
            session.gone = Some(Gone::Lost);
            session.expires = now + millis(SESSION_TTL);
        }
    }
}
