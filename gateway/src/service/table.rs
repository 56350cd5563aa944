//! The runs that the gateway holds.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use thermae_schemas::{ErrorCode, Event, JobId};

use super::job::Identity;
use super::places::{Place, Places};
use super::run::{Events, Run};
use crate::budget::{Budget, Held};
use crate::identity::Caller;
use crate::problem::Problem;
use crate::usage::Meter;
use crate::{Metrics, Options};

/// All runs of this gateway: those under way, and those that ended a while ago.
pub(crate) struct Runs {
    table: Mutex<Table>,
    this: Weak<Runs>,
    budget: Budget,
    places: Places,
    meter: Meter,
    metrics: Metrics,
    keep: Duration,
    events: usize,
    event_bytes: usize,
}

#[derive(Default)]
struct Table {
    runs: HashMap<JobId, Arc<Run>>,
    /// Runs by idempotency key.
    keys: HashMap<String, JobId>,
    /// Keys by run.
    key_of: HashMap<JobId, String>,
    /// Runs that ended, the oldest first.
    ended: VecDeque<(Instant, JobId)>,
    /// Runs by the order in which they came.
    order: BTreeMap<u64, JobId>,
    /// Number of the last run that came.
    last: u64,
    /// How many runs the metrics count, under way and ended.
    counted: [i64; 2],
}

/// What a submit begins.
pub(super) enum Begun {
    /// A new run.
    New(Arc<Run>),
    /// The same job was submitted before.
    Same(Arc<Run>),
}

impl Table {
    fn insert(&mut self, run: &Arc<Run>) {
        self.last += 1;
        run.came(self.last);
        self.order.insert(self.last, run.id.clone());
        if let Some(before) = self.runs.insert(run.id.clone(), run.clone()) {
            self.order.remove(&before.number());
        }
    }

    fn forget(&mut self, id: &JobId) {
        if let Some(run) = self.runs.remove(id) {
            self.order.remove(&run.number());
        }
        if let Some(key) = self.key_of.remove(id) {
            self.keys.remove(&key);
        }
    }

    fn underway(&self) -> usize {
        self.runs.len() - self.ended.len()
    }
}

impl Runs {
    pub(super) fn new(options: &Options, budget: Budget, places: Places, meter: Meter, metrics: Metrics) -> Arc<Self> {
        let Options { keep, events, event_bytes, .. } = *options;
        Arc::new_cyclic(|this| Self {
            table: Mutex::default(),
            this: this.clone(),
            budget,
            places,
            meter,
            metrics,
            keep,
            events,
            event_bytes,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().runs.is_empty()
    }

    /// Begins to hold bytes.
    pub(super) fn hold(&self) -> Held {
        self.budget.hold()
    }

    /// Adds a run for a job, whose bytes are held, unless the same job was submitted before. Takes a place for a new
    /// run.
    pub(super) fn begin(
        &self,
        job: &Identity,
        held: Held,
        place: impl FnOnce() -> Result<Place, Problem>,
    ) -> Result<Begun, Problem> {
        self.make_room(0);
        let mut table = self.lock();
        let digest = job.digest;
        if let Some(run) = table.runs.get(&job.id) {
            let why = format!("the id {:?} was used for another job", job.id.as_str());
            let conflict = || Problem::from((ErrorCode::IdConflict, why));
            return if run.digest == Some(digest) { Ok(Begun::Same(run.clone())) } else { Err(conflict()) };
        }
        let known = job.key.as_ref().and_then(|key| table.runs.get(table.keys.get(key)?));
        if let Some(run) = known {
            if run.digest != Some(digest) {
                let detail = "the idempotency key was used for another job";
                return Err((ErrorCode::IdempotencyConflict, detail.to_owned()).into());
            }
            // A client that chose another id gets it: the fleet says that the job is a duplicate.
            if !job.named {
                return Ok(Begun::Same(run.clone()));
            }
        }
        let place = place()?;
        let events = Events::new(self.events, self.event_bytes);
        let run = Arc::new(Run::new(job.id.clone(), Some(digest), self.this.clone(), events, held, place));
        table.insert(&run);
        if let Some(key) = &job.key
            && !table.keys.contains_key(key)
        {
            table.keys.insert(key.clone(), job.id.clone());
            table.key_of.insert(job.id.clone(), key.clone());
        }
        self.count(&mut table);
        Ok(Begun::New(run))
    }

    /// A place for a run of this caller.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn place(&self, caller: &Caller) -> Result<Place, Problem> {
        self.places.take(caller)
    }

    /// A run that is to be taken over. It is in the table only after [`Runs::add`].
    pub(super) fn take(&self, id: &JobId, caller: &Caller) -> Result<Arc<Run>, Problem> {
        self.make_room(0);
        let place = self.place(caller)?;
        let events = Events::new(self.events, self.event_bytes);
        Ok(Arc::new(Run::new(id.clone(), None, self.this.clone(), events, self.budget.hold(), place)))
    }

    /// Adds a run that was taken over, in the place of one that the gateway no longer follows.
    pub(super) fn add(&self, run: &Arc<Run>) {
        let mut table = self.lock();
        if table.runs.contains_key(&run.id) {
            table.ended.retain(|(_, id)| *id != run.id);
        }
        table.insert(run);
        if run.has_ended() && run.count_end() {
            table.ended.push_back((Instant::now(), run.id.clone()));
        }
        self.count(&mut table);
    }

    /// Removes a run whose job was not submitted.
    pub(super) fn remove(&self, id: &JobId) {
        let mut table = self.lock();
        table.forget(id);
        self.count(&mut table);
    }

    pub(super) fn get(&self, id: &JobId) -> Result<Arc<Run>, Problem> {
        let run = self.lock().runs.get(id).cloned();
        run.ok_or_else(|| Problem::new("unknown_run", format!("this gateway holds no run {:?}", id.as_str())))
    }

    /// The newest runs that came before the one with this number, if one is given; at most so many, of those that
    /// `wanted` wants.
    pub(super) fn list(&self, before: Option<u64>, most: usize, wanted: impl Fn(&Run) -> bool) -> Vec<Arc<Run>> {
        let table = self.lock();
        let numbers = table.order.range(..before.unwrap_or(u64::MAX)).rev();
        numbers.filter_map(|(_, id)| table.runs.get(id)).filter(|run| wanted(run)).take(most).cloned().collect()
    }

    /// Counts what a run used that ends with this event.
    pub(super) fn used(&self, result: &Event) {
        self.meter.count(result);
    }

    /// Notes that a run has ended.
    pub(super) fn ended(&self, run: &Run) {
        let mut table = self.lock();
        let known = table.runs.get(&run.id).is_some_and(|known| std::ptr::eq(&**known, run));
        if known && run.count_end() {
            table.ended.push_back((Instant::now(), run.id.clone()));
        }
        self.count(&mut table);
    }

    /// Notes that events were dropped.
    pub(super) fn dropped(&self, events: usize) {
        self.metrics.dropped.inc_by(events as u64);
    }

    /// Forgets the runs that ended long ago.
    pub(super) fn sweep(&self) {
        let mut table = self.lock();
        while table.ended.front().is_some_and(|(at, _)| at.elapsed() >= self.keep) {
            if let Some((_, id)) = table.ended.pop_front() {
                table.forget(&id);
            }
        }
        self.count(&mut table);
    }

    /// Forgets the runs that ended first, until this many bytes more may be held.
    pub(super) fn make_room(&self, bytes: usize) {
        if self.budget.has_room(bytes) {
            return;
        }
        let mut table = self.lock();
        while !self.budget.has_room(bytes)
            && let Some((_, id)) = table.ended.pop_front()
        {
            table.forget(&id);
        }
        self.count(&mut table);
    }

    /// Counts the runs of this table among those of all.
    fn count(&self, table: &mut Table) {
        let now = [table.underway(), table.ended.len()].map(|count| i64::try_from(count).unwrap_or(i64::MAX));
        for (state, (now, before)) in ["underway", "ended"].into_iter().zip(now.into_iter().zip(table.counted)) {
            self.metrics.runs.with_label_values(&[state]).add(now - before);
        }
        table.counted = now;
    }
}
