//! One job, the copies of its messages, its workers and its registry. Each happening is applied to them and then
//! checked.

use std::collections::BTreeSet;

use bytes::Bytes;
use thermae_schemas::{Status, WorkerId};

use super::super::*;
use super::happenings::{Crash, Happening, Stamp};
use crate::registry::Claim;

pub(super) const LEASE: Millis = 15;

pub(super) const GRACE: Millis = 20;

/// How many milliseconds a client's clock may be ahead.
pub(super) const SKEW: Millis = 10;

pub(super) fn end(outcome: &Bytes, status: Status) -> End {
    End { outcome: outcome.clone(), status }
}

/// A copy of the work message.
#[derive(Debug, Clone)]
pub(super) struct Work {
    attempt: u32,
    epoch: u32,
    maybe_duplicate: bool,
    redelivered: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Worker {
    claim: Claim,
    /// `None` if its connection was lost: the broker has the copy again.
    copy: Option<Work>,
    /// The worker knows that it may run the code.
    running: bool,
    /// When its lease passes, by the worker's own clock.
    lease_until: Millis,
}

#[derive(Debug)]
pub(super) struct World {
    slot: Option<Record>,
    max_attempts: u32,
    now: Millis,
    epoch: u32,
    began: Millis,
    /// Copies of the submit message. Each says whether it may be a repeat.
    submits: Vec<bool>,
    work: Vec<Work>,
    /// Attempts of the copies in the resolve queue.
    resolve: Vec<u32>,
    workers: Vec<Option<Worker>>,
    names: u32,
    /// Nonces of the claims that were allowed to start the code.
    started: BTreeSet<String>,
    published: Vec<Ended>,
    /// The client that took the run over last. `None` if none did, or the registry was emptied since then.
    holder: Option<Address>,
    /// When that was.
    taken: Millis,
    /// Mark of the recorded outcome.
    recorded: Option<String>,
    emptied: u32,
    fifo: bool,
    stamp: Stamp,
}

impl World {
    pub(super) fn new(max_attempts: u32, fifo: bool, stamp: Stamp) -> Self {
        Self {
            fifo,
            stamp,
            slot: None,
            max_attempts,
            now: 1000,
            epoch: 1,
            began: 0,
            submits: vec![false],
            work: Vec::new(),
            resolve: Vec::new(),
            workers: vec![None, None, None],
            names: 0,
            started: BTreeSet::new(),
            published: Vec::new(),
            holder: None,
            taken: 0,
            recorded: None,
            emptied: 0,
        }
    }

    fn terms(&self) -> Terms {
        Terms { max_attempts: self.max_attempts, ..Terms::default() }
    }

    fn at(&self) -> Moment {
        Moment { now: self.now, epoch_age: self.now - self.began }
    }

    fn name(&mut self, what: &str) -> String {
        self.names += 1;
        format!("{what}{}", self.names)
    }

    fn submit(&mut self, who: usize, crash: Crash) {
        if self.submits.is_empty() {
            return;
        }
        let at = if self.fifo { 0 } else { who % self.submits.len() };
        let repeat = self.submits.remove(at);
        // The job was submitted at 1000. A message without a time may be as old as a message can be.
        let first = match self.stamp {
            Stamp::None => 0,
            Stamp::Ahead(ahead) => (1000 + ahead).min(self.now).saturating_sub(SKEW),
        };
        let doubtful = repeat && self.began > 0 && first <= self.began;
        let terms = self.terms();
        let answer = admit(&mut self.slot, terms, doubtful, self.now);
        if crash == Crash::BeforePublish {
            self.submits.push(true);
            return;
        }
        let (attempt, again) = match answer {
            Admission::Fresh => (1, false),
            Admission::Repeat(attempt) => (attempt, true),
            Admission::UnderWay => (0, false),
            Admission::Conflict => unreachable!("there is one job"),
            Admission::Lapsed(attempt) => {
                self.resolve.push(attempt);
                (0, false)
            }
            Admission::Terminal(ended) => {
                self.published.push(ended);
                (0, false)
            }
        };
        if attempt > 0 {
            let maybe_duplicate = again || repeat;
            self.work.push(Work { attempt, epoch: self.epoch, maybe_duplicate, redelivered: false });
        }
        if crash == Crash::BeforeAck {
            self.submits.push(true);
        }
    }

    fn deliver(&mut self, who: usize, worker: usize, lost_reply: bool) {
        if self.work.is_empty() || self.workers[worker].is_some() {
            return;
        }
        // Queues deliver in order. Out of order, one case can't be told by the flags: if the registry is emptied just
        // when a duplicate overtakes its copy, the duplicate has started in the old epoch and the copy isn't marked.
        let at = if self.fifo { 0 } else { who % self.work.len() };
        let copy = self.work.remove(at);
        let owner = WorkerId::new(self.name("w")).unwrap();
        let claim = Claim { attempt: copy.attempt, owner, nonce: self.name("n") };
        self.workers[worker] = Some(Worker { claim, copy: Some(copy), running: false, lease_until: 0 });
        self.claim(worker, lost_reply);
    }

    fn claim(&mut self, worker: usize, lost_reply: bool) {
        let Some(mut found) = self.workers[worker].take() else { return };
        let Some(copy) = found.copy.clone().filter(|_| !found.running) else {
            self.workers[worker] = Some(found);
            return;
        };
        let only_copy = !copy.redelivered && !copy.maybe_duplicate;
        let lease_until = self.now + LEASE;
        let this_epoch = copy.epoch == self.epoch;
        let terms = self.terms();
        let answer = start(&mut self.slot, &found.claim, terms, this_epoch, only_copy, lease_until);
        if lost_reply {
            self.workers[worker] = Some(found);
            return;
        }
        match answer {
            Start::Go => {
                self.started.insert(found.claim.nonce.clone());
                found.running = true;
                found.lease_until = lease_until;
                self.workers[worker] = Some(found);
            }
            Start::Terminal(ended) => self.published.push(ended),
            Start::Stale => {}
            Start::Resolve => self.resolve.push(copy.attempt),
        }
    }

    fn finish(&mut self, worker: usize, lost_reply: bool, crash: bool) {
        let Some(found) = self.workers[worker].clone().filter(|worker| worker.running) else { return };
        let outcome = Bytes::from(format!("done by {}", found.claim.nonce));
        let answer = finish(&mut self.slot, &found.claim, &end(&outcome, Status::Succeeded), self.now);
        if lost_reply {
            return;
        }
        if crash {
            return self.crash(worker);
        }
        match answer {
            Finish::Won => self.published.push(outcome.into()),
            Finish::Terminal(recorded) => self.published.push(recorded),
            Finish::Superseded => {}
        }
        self.workers[worker] = None;
    }

    fn give_copy_back(&mut self, copy: Option<Work>) {
        self.work.extend(copy.map(|copy| Work { redelivered: true, ..copy }));
    }

    fn crash(&mut self, worker: usize) {
        let found = self.workers[worker].take();
        self.give_copy_back(found.and_then(|found| found.copy));
    }

    fn heartbeat(&mut self, worker: usize) {
        let Some(found) = self.workers[worker].clone().filter(|worker| worker.running) else { return };
        let lease_until = self.now + LEASE;
        if announce(&mut self.slot, &found.claim, lease_until) {
            self.workers[worker] = Some(Worker { lease_until, ..found });
        } else {
            self.crash(worker);
        }
    }

    fn resolve(&mut self, who: usize, crash: Crash) {
        if self.resolve.is_empty() {
            return;
        }
        let at = who % self.resolve.len();
        let attempt = self.resolve.remove(at);
        let lost = end(&Bytes::from(self.name("lost ")), Status::Lost);
        let cancelled = end(&Bytes::from(self.name("cancelled ")), Status::Cancelled);
        let moment = self.at();
        let answer = resolve(&mut self.slot, attempt, self.max_attempts, &lost, &cancelled, GRACE, moment);
        let keep = crash != Crash::No || matches!(answer, Resolve::Hold(_));
        if keep {
            self.resolve.push(attempt);
        }
        if crash == Crash::BeforePublish {
            return;
        }
        match answer {
            Resolve::Terminal(ended) => self.published.push(ended),
            Resolve::Lost => self.published.push(lost.outcome.into()),
            Resolve::Cancelled => self.published.push(cancelled.outcome.into()),
            Resolve::Reassign(attempt) => {
                self.work.push(Work { attempt, epoch: self.epoch, maybe_duplicate: true, redelivered: false });
            }
            Resolve::Hold(_) | Resolve::Stale => {}
        }
    }

    fn wait(&mut self, millis: Millis) {
        self.now += millis;
        // When its lease has passed, a worker kills the sandbox and its copy goes back to the queue.
        for worker in 0..self.workers.len() {
            if self.workers[worker].as_ref().is_some_and(|found| found.running && found.lease_until < self.now) {
                self.crash(worker);
            }
        }
    }

    pub(super) fn step(&mut self, happening: Happening) {
        match happening {
            Happening::Submit { who, crash } => self.submit(who, crash),
            Happening::Resend => self.submits.push(true),
            Happening::Deliver { who, worker, lost_reply } => self.deliver(who, worker, lost_reply),
            Happening::Retry { worker, lost_reply } => self.claim(worker, lost_reply),
            Happening::Finish { worker, lost_reply, crash } => self.finish(worker, lost_reply, crash),
            Happening::Crash { worker } => self.crash(worker),
            Happening::Heartbeat { worker } => self.heartbeat(worker),
            Happening::Resolve { who, crash } => self.resolve(who, crash),
            Happening::Wait { millis } => self.wait(millis),
            Happening::Abandon { worker } => {
                if let Some(found) = self.workers[worker].take_if(|found| found.running) {
                    abandon(&mut self.slot, &found.claim, self.now);
                    self.resolve.extend(found.copy.map(|copy| copy.attempt));
                }
            }
            Happening::LoseConnection { worker } => {
                let copy = self.workers[worker].as_mut().and_then(|found| found.copy.take());
                self.give_copy_back(copy);
            }
            Happening::Cancel => {
                let outcome = Bytes::from(self.name("cancelled "));
                match end_unstarted(&mut self.slot, &end(&outcome, Status::Cancelled), None, true, self.now) {
                    EndUnstarted::Won => self.published.push(outcome.into()),
                    EndUnstarted::Terminal(recorded) => self.published.push(recorded),
                    EndUnstarted::Started { .. } => {}
                    EndUnstarted::Conflict => unreachable!("there is one job"),
                }
            }
            Happening::TakeOver { client } => {
                let to = Address { reply_key: format!("client{client}"), correlation_id: None };
                let before = self.slot.clone();
                let held = self.holder.replace(to.clone());
                match take_over(&mut self.slot, &to, self.now) {
                    TakeOver::Absent | TakeOver::Ended => {
                        assert_eq!(self.slot, before);
                        self.holder = held;
                    }
                    TakeOver::Assigned { previous, .. } | TakeOver::Started { previous, .. } => {
                        assert_eq!(previous, held.filter(|held| *held != to));
                    }
                }
            }
            Happening::Shelve => {
                if let Some(recorded) = self.recorded.clone() {
                    assert!(shelve(&mut self.slot, &recorded), "it was recorded");
                }
            }
            Happening::Shrink => {
                if let Some(Record { state: State::Terminal { outcome, .. }, .. }) = &mut self.slot {
                    *outcome = None;
                }
            }
            Happening::Empty => {
                // Takers in one millisecond run ahead of the clock. It has caught up before a registry is there again.
                self.now = self.now.max(self.taken + 1);
                self.slot = None;
                self.recorded = None;
                self.holder = None;
                self.epoch += 1;
                self.began = self.now;
                self.emptied += 1;
            }
        }
        self.check();
    }

    fn check(&mut self) {
        let allowed = if self.max_attempts == 1 { 1 } else { self.max_attempts + self.emptied };
        assert!(self.started.len() as u32 <= allowed, "started {} times: {self:#?}", self.started.len());
        if let Some(recorded) = &self.recorded {
            let state = self.slot.as_ref().map(|record| &record.state);
            let stands = matches!(state, Some(State::Terminal { mark, .. }) if mark == recorded);
            assert!(stands, "a recorded outcome changed: {self:#?}");
        }
        // Whatever happens to the job, the record says who has taken its run over, and when in the order of all takers.
        let taker = self.slot.as_ref().and_then(Record::taker);
        assert_eq!(taker.as_ref().map(|taker| &taker.address), self.holder.as_ref(), "{self:#?}");
        if let Some(Taker { at, .. }) = taker {
            assert!(at >= self.taken, "an earlier taker counts: {self:#?}");
            self.taken = at;
        }
        if let Some(Record { state: State::Terminal { mark, .. }, .. }) = &self.slot {
            self.recorded = Some(mark.clone());
        }
        if self.emptied == 0 {
            let whole = || self.published.iter().filter(|ended| matches!(ended, Ended::Outcome(_)));
            assert!(whole().zip(whole().skip(1)).all(|(one, next)| one == next), "two outcomes: {:?}", self.published);
        }
    }

    /// From here on nothing fails. Every copy must be settled, and the client must get a result.
    pub(super) fn drain(&mut self) {
        for _ in 0..200 {
            let left = self.submits.len() + self.work.len() + self.resolve.len();
            if left == 0 && self.workers.iter().all(Option::is_none) {
                break;
            }
            for worker in 0..self.workers.len() {
                self.step(Happening::Retry { worker, lost_reply: false });
                self.step(Happening::Finish { worker, lost_reply: false, crash: false });
            }
            self.step(Happening::Submit { who: 0, crash: Crash::No });
            self.step(Happening::Deliver { who: 0, worker: 0, lost_reply: false });
            self.step(Happening::Resolve { who: 0, crash: Crash::No });
            self.step(Happening::Wait { millis: 3 });
            // A worker that lost its copy with the connection, and the reply to its claim, knows nothing of the job: it
            // gives up.
            for found in &mut self.workers {
                found.take_if(|found| !found.running && found.copy.is_none());
            }
        }
        let left = self.submits.len() + self.work.len() + self.resolve.len();
        assert_eq!(left, 0, "copies that never find an end: {self:#?}");
        assert!(!self.published.is_empty(), "no result: {self:#?}");
    }
}
