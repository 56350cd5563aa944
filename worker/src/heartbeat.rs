//! Heartbeats: every few seconds, the worker reports itself to the registry. A heartbeat keeps the worker alive and
//! renews the leases of its running jobs. The answer names the claims that are no longer valid.

use std::collections::BTreeMap;
use std::sync::Arc;

use thermae_backplane::registry::{self, JobKey};
use thermae_schemas::{Heartbeat, PROTOCOL, PoolCapacity, WorkerState};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::clock::Moment;
use crate::context::Context;
use crate::pool::Condition;
use crate::sessions::Sessions;

/// Why a heartbeat did not arrive.
#[derive(Debug, thiserror::Error)]
enum Error {
    /// The registry did not answer within the lease.
    #[error("no answer")]
    NoAnswer,
    /// The registry refused it, or is away.
    #[error(transparent)]
    Registry(#[from] registry::Error),
}

/// Sends the heartbeats of a worker.
pub(crate) struct Heart {
    pub ctx: Arc<Context>,
    /// The sessions that heartbeats name.
    pub sessions: Arc<Sessions>,
    /// The worker's state. Every change is announced at once.
    pub state: watch::Receiver<WorkerState>,
    /// Readiness condition: whether the registry answers.
    pub condition: thermae_service::health::Condition,
}

impl Heart {
    /// Sends heartbeats until `end`.
    pub(crate) async fn run(mut self, end: CancellationToken) {
        let mut failing = false;
        loop {
            let (began, leased) = (Instant::now(), Moment::now());
            let asked = self.ctx.pulse.asked();
            let beat = tokio::time::timeout(self.ctx.options.lease.0, self.beat(leased));
            let outcome = tokio::select! {
                outcome = beat => outcome.unwrap_or(Err(Error::NoAnswer)),
                () = end.cancelled() => return,
            };
            match outcome {
                Ok(()) => {
                    if std::mem::take(&mut failing) {
                        tracing::info!("heartbeats arrive again");
                    }
                    self.condition.ready();
                    self.ctx.pulse.arrived(asked);
                }
                Err(error) => {
                    self.ctx.metrics.heartbeat_failures.inc();
                    self.condition.not_ready(error.to_string());
                    if !std::mem::replace(&mut failing, true) {
                        tracing::warn!(
                            %error,
                            "heartbeats don't arrive; if none does, running jobs are killed when their leases end"
                        );
                    }
                }
            }
            tokio::select! {
                () = tokio::time::sleep_until(began + self.ctx.options.heartbeat_every.0) => {}
                changed = self.state.changed() => if changed.is_err() { return },
                () = self.ctx.pulse.wanted() => {}
                () = end.cancelled() => return,
            }
        }
    }

    async fn beat(&mut self, began: Moment) -> Result<(), Error> {
        let running = self.ctx.table.started();
        let heartbeat = self.word(running.iter().map(|e| e.announce()).collect());
        let lease = self.ctx.options.lease.0;
        let beat = self.ctx.registry.heartbeat(&heartbeat, lease).await?;
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
