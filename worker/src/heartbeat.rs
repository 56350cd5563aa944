//! Heartbeats: every few seconds, the worker reports itself to the registry. A heartbeat keeps the worker alive and
//! renews the leases of its running jobs. The answer names the claims that are no longer valid.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use thermae_backplane::registry::JobKey;
use thermae_schemas::{Heartbeat, PROTOCOL, PoolCapacity, WorkerState};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::clock::Moment;
use crate::context::Context;
use crate::pool::Condition;
use crate::sessions::Sessions;

/// Asks for a heartbeat at once, and waits until it has arrived.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    /// Number of heartbeats that were asked for.
    asked: AtomicU64,
    now: Notify,
    /// Value of `asked` when the last heartbeat that arrived was written.
    arrived: watch::Sender<u64>,
}

impl Pulse {
    /// Waits until a heartbeat has arrived that was written after this call.
    pub(crate) async fn beat(&self) {
        let own = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        self.now.notify_one();
        // The sender lives at least as long as this borrow.
        let _ = self.arrived.subscribe().wait_for(|arrived| *arrived >= own).await;
    }
}

/// Sends the heartbeats of a worker.
pub(crate) struct Heart {
    pub ctx: Arc<Context>,
    /// The sessions that heartbeats name.
    pub sessions: Arc<Sessions>,
    /// The worker's state. Every change is announced at once.
    pub state: watch::Receiver<WorkerState>,
    /// Asks for heartbeats at once.
    pub pulse: Arc<Pulse>,
    /// Readiness condition: whether the registry answers.
    pub condition: thermae_service::health::Condition,
}

impl Heart {
    /// Sends heartbeats until `end`.
    pub(crate) async fn run(mut self, end: CancellationToken) {
        let mut failing = false;
        loop {
            let (began, leased) = (Instant::now(), Moment::now());
            let asked = self.pulse.asked.load(Ordering::SeqCst);
            let beat = tokio::time::timeout(self.ctx.options.lease.0, self.beat(leased));
            let outcome = tokio::select! {
                outcome = beat => outcome.unwrap_or_else(|_| Err("no answer".into())),
                () = end.cancelled() => return,
            };
            match outcome {
                Ok(()) => {
                    if std::mem::take(&mut failing) {
                        tracing::info!("heartbeats arrive again");
                    }
                    self.condition.ready();
                    self.pulse.arrived.send_replace(asked);
                }
                Err(why) => {
                    self.ctx.metrics.heartbeat_failures.inc();
                    self.condition.not_ready(why.clone());
                    if !std::mem::replace(&mut failing, true) {
                        tracing::warn!(
                            error = why,
                            "heartbeats don't arrive; if none does, running jobs are killed when their leases end"
                        );
                    }
                }
            }
            tokio::select! {
                () = tokio::time::sleep_until(began + self.ctx.options.heartbeat_every.0) => {}
                changed = self.state.changed() => if changed.is_err() { return },
                () = self.pulse.now.notified() => {}
                () = end.cancelled() => return,
            }
        }
    }

    async fn beat(&mut self, began: Moment) -> Result<(), String> {
        let running = self.ctx.table.started();
        let heartbeat = self.word(running.iter().map(|e| e.announce()).collect());
        let lease = self.ctx.options.lease.0;
        let beat = self.ctx.registry.heartbeat(&heartbeat, lease).await.map_err(|e| e.to_string())?;
        for entry in running {
            if revoked(&beat.revoked, &entry.key) {
                entry.revoke();
            } else {
                entry.stands_until(began + lease);
            }
        }
        Ok(())
    }

    fn word(&mut self, running: Vec<thermae_schemas::RunningJob>) -> Heartbeat {
        let pools: BTreeMap<_, _> = self
            .ctx
            .pools
            .iter()
            .map(|(name, pool)| {
                let options = pool.options();
                let capacity = PoolCapacity {
                    // A pool that is not ready takes no jobs, so it offers no slots.
                    slots: if *pool.condition().borrow() == Condition::Ready { options.slots() } else { 0 },
                    busy: options.slots() - (pool.slots().available_permits() as u32).min(options.slots()),
                    max_sessions: options.max_sessions,
                    languages: pool.languages(),
                };
                (name.clone(), capacity)
            })
            .collect();
        Heartbeat {
            protocol: PROTOCOL,
            worker: self.ctx.id.clone(),
            state: *self.state.borrow_and_update(),
            pools,
            running,
            sessions: self.sessions.held(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

fn revoked(revoked: &[JobKey], key: &JobKey) -> bool {
    revoked.contains(key)
}
