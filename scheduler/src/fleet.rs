//! The workers as they were last seen: the credit and the languages of each pool, and who can hold one more session.
//!
//! A [`FleetView`] is a snapshot. One task makes a new one at each notice about workers, and at every tick. All other
//! tasks read the last one. A pool that was seen once stays known as long as this process lives. So a pool doesn't
//! become unknown while its workers restart.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use thermae_backplane::registry::{Notice, SharedRegistry};
use thermae_schemas::{ErrorInfo, Heartbeat, Language, OLDEST, PROTOCOL, PoolName, WorkerId, WorkerState};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::admit;
use crate::error::Trouble;
use crate::options::{Options, PoolOptions};
use crate::session_workers::SessionWorkers;

/// A snapshot of the workers.
#[derive(Debug, Clone)]
pub(crate) struct FleetView {
    /// Newest version of the protocol that this scheduler reads.
    pub(crate) newest: u32,
    pub(crate) pools: BTreeMap<PoolName, PoolView>,
    /// All living workers, whatever their state, including those whose heartbeats can't be read.
    pub(crate) alive: BTreeSet<WorkerId>,
    /// The living workers that don't speak the newest version, and the newest one that each speaks.
    older: BTreeMap<WorkerId, u32>,
}

/// The workers of one pool, added up.
#[derive(Debug, Clone, Default)]
pub(crate) struct PoolView {
    /// How many jobs may be handed out at once. 0 if there are no workers.
    pub(crate) credit: u32,
    /// How many jobs its workers can run at once.
    pub(crate) slots: u32,
    /// How many jobs were handed out when the snapshot was made.
    pub(crate) used: u32,
    pub(crate) languages: Vec<Language>,
    /// Workers that can hold one more session.
    pub(crate) session_workers: SessionWorkers,
    /// Since when no worker can run the pool's jobs, and why. `None` if one can. Counted from this process's start at
    /// the earliest.
    pub(crate) unserved: Option<(Instant, Unserved)>,
    /// Newest version of the protocol that one of its workers speaks; [`OLDEST`] if there are none. Jobs of a newer one
    /// wait.
    pub(crate) protocol: u32,
    /// Since when no worker speaks a newer version than [`PoolView::protocol`]; `None` if that is the newest. Counted
    /// like `unserved`.
    pub(crate) older_since: Option<Instant>,
}

impl PoolView {
    /// Why to reject jobs of this version of the protocol. `None` unless no worker has served them for this time.
    pub(crate) fn refusal(&self, pool: &PoolName, protocol: u32, patience: Duration) -> Option<ErrorInfo> {
        let long = |since: Instant| Some(since.elapsed()).filter(|elapsed| *elapsed >= patience);
        if let Some((since, why)) = self.unserved {
            return long(since).map(|elapsed| admit::unserved(pool, why, elapsed));
        }
        let since = self.older_since.filter(|_| protocol > self.protocol)?;
        long(since).map(|elapsed| admit::unspoken(pool, protocol, elapsed))
    }
}

/// Why no worker serves a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unserved {
    /// No living worker has the pool.
    NoWorker,
    /// Workers have the pool, but none of them can make containers.
    NoBackend,
}

impl Default for FleetView {
    fn default() -> Self {
        Self::new(PROTOCOL)
    }
}

impl FleetView {
    /// A snapshot of no workers, for a scheduler that reads the protocol up to this version.
    pub(crate) fn new(newest: u32) -> Self {
        Self { newest, pools: BTreeMap::new(), alive: BTreeSet::new(), older: BTreeMap::new() }
    }

    /// Whether this scheduler reads messages of this version of the protocol.
    pub(crate) fn reads(&self, protocol: u32) -> bool {
        (OLDEST..=self.newest).contains(&protocol)
    }

    /// Languages that a pool runs. `None` if the pool is unknown.
    pub(crate) fn languages(&self, options: &Options, pool: &PoolName) -> Option<Vec<Language>> {
        let seen = self.pools.get(pool).map(|view| &view.languages).filter(|l| !l.is_empty());
        let told = seen.or_else(|| options.pools.get(pool).map(|pool| &pool.languages)).cloned();
        // A pool may be known only by its submit queues. Until a worker announces more, assume the defaults.
        told.or_else(|| self.pools.contains_key(pool).then(|| PoolOptions::default().languages))
    }

    /// Whether a worker speaks this version of the protocol. A worker that is not known is one that has just started.
    pub(crate) fn speaks(&self, worker: &WorkerId, protocol: u32) -> bool {
        self.older.get(worker).is_none_or(|newest| *newest >= protocol)
    }

    /// Names of all known pools.
    pub(crate) fn pool_names(&self, options: &Options) -> Vec<String> {
        let names: BTreeSet<&PoolName> = self.pools.keys().chain(options.pools.keys()).collect();
        names.into_iter().map(ToString::to_string).collect()
    }

    /// The next snapshot, from the heartbeats of all living workers. A pool without workers keeps its name and
    /// languages.
    fn next(&self, workers: &[Heartbeat], factor: f64) -> Self {
        let mut pools: BTreeMap<PoolName, PoolView> = BTreeMap::new();
        for (name, view) in &self.pools {
            pools.insert(name.clone(), PoolView { languages: view.languages.clone(), ..PoolView::default() });
        }
        let mut fresh: HashSet<PoolName> = HashSet::new();
        for beat in workers.iter().filter(|beat| beat.state == WorkerState::Ready) {
            for (name, capacity) in &beat.pools {
                let view = pools.entry(name.clone()).or_default();
                if fresh.insert(name.clone()) {
                    view.languages.clear();
                }
                view.slots = view.slots.saturating_add(capacity.slots);
                for language in &capacity.languages {
                    if !view.languages.contains(language) {
                        view.languages.push(language.clone());
                    }
                }
                let held = || beat.sessions.iter().filter(|session| session.pool == *name);
                let evictable = held().filter(|session| session.evictable).map(|session| session.tenant.clone());
                view.session_workers.add(beat.worker.clone(), beat.protocol, held().count(), capacity, evictable);
            }
        }
        for (name, view) in &mut pools {
            view.credit = credit(view.slots, factor);
            let since = self.pools.get(name).and_then(|old| old.unserved).map_or_else(Instant::now, |(since, _)| since);
            view.unserved = unserved(workers, name).map(|why| (since, why));
            let of_pool = workers.iter().filter(|beat| beat.pools.contains_key(name));
            view.protocol = of_pool.map(|beat| beat.protocol).max().unwrap_or(OLDEST);
            let before = self.pools.get(name).filter(|old| old.protocol <= view.protocol);
            let since = before.and_then(|old| old.older_since).unwrap_or_else(Instant::now);
            view.older_since = (view.protocol < self.newest).then_some(since);
        }
        let alive = workers.iter().map(|beat| beat.worker.clone()).collect();
        let older = workers.iter().filter(|beat| beat.protocol < self.newest);
        let older = older.map(|beat| (beat.worker.clone(), beat.protocol)).collect();
        Self { newest: self.newest, pools, alive, older }
    }
}

/// Why no living worker serves this pool. `None` if one does, or may do so soon: one that is starting, or one that
/// drains and may be followed by another.
fn unserved(workers: &[Heartbeat], pool: &PoolName) -> Option<Unserved> {
    let mut why = Some(Unserved::NoWorker);
    for (beat, capacity) in workers.iter().filter_map(|beat| Some((beat, beat.pools.get(pool)?))) {
        match beat.state {
            WorkerState::Unhealthy => why = Some(Unserved::NoBackend),
            WorkerState::Ready if capacity.slots == 0 => why = Some(Unserved::NoBackend),
            _ => return None,
        }
    }
    why
}

fn credit(slots: u32, factor: f64) -> u32 {
    // Rounding must not make the credit less than the slots.
    let credit = (f64::from(slots) * factor).ceil().min(f64::from(u32::MAX));
    (credit as u32).max(slots)
}

/// Keeps the snapshot up to date.
pub(crate) struct Watcher {
    pub(crate) registry: SharedRegistry,
    pub(crate) options: Arc<Options>,
    pub(crate) fleet: watch::Sender<Arc<FleetView>>,
    pub(crate) metrics: crate::metrics::Metrics,
    pub(crate) outages: crate::outage::Outages,
}

impl Watcher {
    /// Runs until it is stopped.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let mut notices = self.registry.notices();
        let mut pause = self.options.tick.duration();
        loop {
            let began = std::time::Instant::now();
            match self.refresh().await {
                Ok(()) => self.outages.over(),
                Err(error) => self.outages.note(&error),
            }
            // With thousands of workers, a look takes long. The pause keeps it to a twentieth of the time.
            pause = self.options.tick.duration().max(began.elapsed() * 20).min(pause * 2);
            let timer = tokio::time::sleep(pause);
            tokio::pin!(timer);
            loop {
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = &mut timer => break,
                    notice = notices.recv() => match notice {
                        Ok(Notice::Workers | Notice::Epoch) | Err(RecvError::Lagged(_)) => break,
                        Ok(Notice::Credit(_)) => {}
                        // The registry is gone for good. Goes on by the timer.
                        Err(RecvError::Closed) => { timer.as_mut().await; break }
                    },
                }
            }
        }
    }

    /// Makes one new snapshot.
    pub(crate) async fn refresh(&self) -> Result<(), Trouble> {
        let workers = self.registry.workers().await?;
        let mut next = self.fleet.borrow().next(&workers, self.options.credit_factor);
        for (name, view) in &mut next.pools {
            view.used = self.registry.credit_used(name).await?;
        }
        let unreadable = self.registry.unreadable_workers();
        self.metrics.workers(&workers, unreadable.len());
        for (name, view) in &next.pools {
            self.metrics.credit(name, view.credit, view.used);
        }
        if !unreadable.is_empty() {
            // The pools of these workers are unknown, so any pool may have a worker.
            let newest = next.newest;
            next.pools.values_mut().for_each(|view| (view.unserved, view.protocol) = (None, newest));
        }
        next.alive.extend(unreadable);
        self.warn_of_empty_pools(&next);
        // In the meantime, a new lane may have made a pool known.
        self.fleet.send_modify(|fleet| {
            for name in fleet.pools.keys() {
                next.pools.entry(name.clone()).or_default();
            }
            *fleet = Arc::new(next);
        });
        Ok(())
    }

    fn warn_of_empty_pools(&self, next: &FleetView) {
        let before = self.fleet.borrow();
        for (name, view) in &next.pools {
            let had = before.pools.get(name).is_some_and(|view| view.credit > 0);
            if view.credit == 0 && had {
                tracing::warn!(pool = %name, "no worker serves this pool any more: its jobs wait");
            } else if view.credit > 0 && !had {
                tracing::info!(pool = %name, credit = view.credit, "workers serve this pool");
            }
        }
    }
}

/// Makes the pool of a submit queue known.
pub(crate) fn remember_pool(fleet: &watch::Sender<Arc<FleetView>>, pool: &PoolName) {
    fleet.send_if_modified(|fleet| {
        let new = !fleet.pools.contains_key(pool);
        if new {
            Arc::make_mut(fleet).pools.entry(pool.clone()).or_default();
        }
        new
    });
}

/// The worker for a new session of this pool. `None` if no worker can take one more.
pub(crate) type Candidate = Option<WorkerId>;
