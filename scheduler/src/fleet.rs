//! The workers as last seen: what each pool can take, which languages it runs, who can hold one more session.
//!
//! A [`FleetView`] is a snapshot. One task makes a new one when the registry brings news of workers, and every tick; everything else
//! reads the last one. Pools that were seen once stay known while this process lives, so that a pool whose workers restart does not
//! become an unknown one.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use thermae_backplane::registry::{Notice, SharedRegistry};
use thermae_schemas::{Heartbeat, Language, PoolName, WorkerId, WorkerState};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::error::Trouble;
use crate::options::Options;
use crate::session_workers::SessionWorkers;

/// A snapshot of the workers.
#[derive(Debug, Clone, Default)]
pub(crate) struct FleetView {
    pub(crate) pools: BTreeMap<PoolName, PoolView>,
    /// All living workers, whatever their state, those included whose words can't be read.
    pub(crate) alive: BTreeSet<WorkerId>,
}

/// What the workers of one pool say together.
#[derive(Debug, Clone, Default)]
pub(crate) struct PoolView {
    /// Jobs that may be handed out at once; 0 without workers.
    pub(crate) credit: u32,
    /// Jobs that its workers run at once.
    pub(crate) slots: u32,
    /// Jobs that are handed out, as of this snapshot.
    pub(crate) used: u32,
    pub(crate) languages: Vec<Language>,
    /// Workers that can hold sessions.
    pub(crate) session_workers: SessionWorkers,
    /// Since when no worker can run its jobs, and why not; counted while this process lives.
    pub(crate) unserved: Option<(Instant, Unserved)>,
}

/// Why nobody serves a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unserved {
    /// No living worker has it.
    NoWorker,
    /// Workers have it, and none can make containers.
    NoBackend,
}

impl FleetView {
    /// Languages that a pool runs; `None` for an unknown pool.
    pub(crate) fn languages<'a>(&'a self, options: &'a Options, pool: &PoolName) -> Option<&'a [Language]> {
        let seen = self.pools.get(pool).map(|view| view.languages.as_slice()).filter(|l| !l.is_empty());
        seen.or_else(|| options.pools.get(pool).map(|pool| pool.languages.as_slice())).or_else(|| {
            // Known by its submit queues alone: until a worker says more, it is taken for an ordinary one.
            self.pools.contains_key(pool).then_some(&[Language::Python])
        })
    }

    /// Names of all known pools.
    pub(crate) fn pool_names(&self, options: &Options) -> Vec<String> {
        let names: BTreeSet<&PoolName> = self.pools.keys().chain(options.pools.keys()).collect();
        names.into_iter().map(ToString::to_string).collect()
    }

    /// Adds up what living workers say. Of pools without workers only the names and languages remain.
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
                        view.languages.push(*language);
                    }
                }
                let held = beat.sessions.iter().filter(|session| session.pool == *name).count();
                view.session_workers.add(beat.worker.clone(), held, capacity);
            }
        }
        for (name, view) in &mut pools {
            view.credit = credit(view.slots, factor);
            let since = self.pools.get(name).and_then(|old| old.unserved).map_or_else(Instant::now, |(since, _)| since);
            view.unserved = unserved(workers, name).map(|why| (since, why));
        }
        let alive = workers.iter().map(|beat| beat.worker.clone()).collect();
        Self { pools, alive }
    }
}

/// Whether, and why, no living worker will serve this pool unless something changes. One that starts or drains may yet, or be
/// followed by another.
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
    // Never less than the slots, whatever rounding does.
    let credit = (f64::from(slots) * factor).ceil().min(f64::from(u32::MAX));
    (credit as u32).max(slots)
}

/// Keeps the snapshot fresh.
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
            // With thousands of workers a look takes its time: at most a twentieth of it is spent looking.
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
                        // The registry is gone for good; the timer goes on.
                        Err(RecvError::Closed) => { timer.as_mut().await; break }
                    },
                }
            }
        }
    }

    /// Looks once.
    pub(crate) async fn refresh(&self) -> Result<(), Trouble> {
        let workers = self.registry.workers().await?;
        let mut next = self.fleet.borrow().next(&workers, self.options.credit_factor);
        for (name, view) in &mut next.pools {
            view.used = self.registry.credit_used(name).await?;
        }
        let unreadable = self.registry.unreadable_workers();
        self.metrics.fleet(&next, &workers, unreadable.len());
        if !unreadable.is_empty() {
            // Nobody knows which pools they serve.
            next.pools.values_mut().for_each(|view| view.unserved = None);
        }
        next.alive.extend(unreadable);
        self.warn_of_empty_pools(&next);
        // Lanes may have made pools known meanwhile.
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

/// Makes a pool known that has submit queues.
pub(crate) fn remember_pool(fleet: &watch::Sender<Arc<FleetView>>, pool: &PoolName) {
    fleet.send_if_modified(|fleet| {
        let new = !fleet.pools.contains_key(pool);
        if new {
            Arc::make_mut(fleet).pools.entry(pool.clone()).or_default();
        }
        new
    });
}

/// A worker that can hold one more session of this pool.
pub(crate) type Candidate = Option<WorkerId>;
