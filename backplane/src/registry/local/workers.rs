//! Workers: their heartbeats and deaths, and which scheduler leads.

use std::time::Duration;

use thermae_schemas::{Heartbeat, WorkerId};

use super::memory::{Memory, Worker, millis};
use crate::record::Millis;
use crate::registry::types::{RUNNING_TTL, capacity_of};
use crate::registry::{Beat, Claim, JobKey, Notice};

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
            if self.announce(&job, &claim, alive_until, RUNNING_TTL, now) {
                self.take_credit(&running.pool, &job, alive_until);
            } else {
                revoked.push(job);
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
}
