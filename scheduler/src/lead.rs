//! Leadership: one scheduler at a time consumes, so that fairness is decided in one place. Correctness never depends on
//! it.

use std::sync::Arc;
use std::time::Duration;

use thermae_service::http::Condition;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::context::Context;
use crate::error::{Error, Trouble};
use crate::fleet::FleetView;
use crate::reign;

/// Name of the lead in the registry. There is only one.
const SHARD: &str = "main";

impl Context {
    /// Asks the registry for the lead for `ttl`, or to keep it.
    async fn claim(&self, ttl: Duration) -> Result<bool, Trouble> {
        Ok(self.registry.lead(SHARD, &self.who, ttl).await?)
    }

    /// Makes sure that this scheduler leads, and will for a while. It must be called before a queue is unbound or
    /// deleted: if this process was paused, another scheduler may lead by now and use the queue.
    ///
    /// # Errors
    /// This scheduler no longer leads.
    pub(crate) async fn still_leads(&self) -> Result<(), Trouble> {
        let ttl = self.options.lead_ttl.duration();
        loop {
            let asked = Instant::now();
            let leads = self.persist(|| self.claim(ttl)).await?;
            if self.stop.is_cancelled() {
                return Err(Trouble::Stopped);
            }
            if !leads {
                // The caller leaves its work half done, so this reign must end.
                self.failed.cancel();
                return Err(Trouble::Stopped);
            }
            if asked.elapsed() < ttl / 2 {
                return Ok(());
            }
        }
    }
}

/// Takes turns with other schedulers.
pub(crate) struct Leadership {
    pub(crate) ctx: Context,
    pub(crate) fleet: watch::Sender<Arc<FleetView>>,
    pub(crate) condition: Condition,
}

impl Leadership {
    /// Runs until it is stopped.
    ///
    /// # Errors
    /// The broker refuses for good.
    pub(crate) async fn run(self, stop: CancellationToken) -> Result<(), Error> {
        let mut known = false;
        while !stop.is_cancelled() {
            match self.ctx.claim(self.ctx.options.lead_ttl.duration()).await {
                Ok(true) => {
                    self.condition.ready();
                    let whole = self.reign(&stop).await?;
                    known = false;
                    if whole {
                        continue;
                    }
                    // The pause below lets another scheduler take over, and keeps a part that panics at once from
                    // panicking all the time.
                    self.condition.not_ready("a part of the scheduler failed; the scheduler starts over");
                }
                Ok(false) => {
                    self.ctx.outages.over();
                    self.condition.ready();
                    if !known {
                        tracing::info!("another scheduler leads; standing by");
                        known = true;
                    }
                }
                Err(error) => {
                    self.condition.not_ready("the registry does not say who leads");
                    self.ctx.outages.note(&error);
                }
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(self.ctx.options.lead_renew.duration()) => {}
            }
        }
        Ok(())
    }

    /// Leads until the lead is lost or the process stops (`true`), or until a part of the scheduler has failed
    /// (`false`).
    async fn reign(&self, stop: &CancellationToken) -> Result<bool, Error> {
        tracing::info!(who = %self.ctx.who, "leading");
        self.ctx.metrics.leads(true);
        let ctx = Context {
            stop: stop.child_token(),
            drained: CancellationToken::new(),
            failed: CancellationToken::new(),
            first_epoch: Arc::default(),
            tasks: TaskTracker::new(),
            ..self.ctx.clone()
        };
        let end = ctx.stop.clone();
        let (tasks, failed) = (ctx.tasks.clone(), ctx.failed.clone());
        let reign = reign::run(ctx, self.fleet.clone());
        tokio::pin!(reign);
        let ended = tokio::select! {
            ended = &mut reign => ended,
            () = self.renew() => Ok(()),
            () = stop.cancelled() => Ok(()),
        };
        end.cancel();
        tasks.close();
        tasks.wait().await;
        self.ctx.metrics.leads(false);
        let whole = !failed.is_cancelled();
        if stop.is_cancelled() || !whole {
            // Gives the lead up, so that other schedulers need not wait until it expires.
            if let Err(error) = self.ctx.claim(Duration::from_millis(1)).await {
                tracing::debug!(%error, "leadership could not be given up; it will expire");
            }
        }
        if !stop.is_cancelled() && ended.is_ok() {
            tracing::warn!(who = %self.ctx.who, whole, "this scheduler no longer leads");
        }
        ended.map(|()| whole)
    }

    /// Returns when the lead is lost: another scheduler has it, or the registry has not answered until it expired.
    async fn renew(&self) {
        let ttl = self.ctx.options.lead_ttl.duration();
        let mut until = Instant::now() + ttl;
        loop {
            tokio::time::sleep(self.ctx.options.lead_renew.duration()).await;
            let asked = Instant::now();
            match tokio::time::timeout_at(until, self.ctx.claim(ttl)).await {
                Ok(Ok(true)) => until = asked + ttl,
                Ok(Ok(false)) | Err(_) => return,
                Ok(Err(error)) => self.ctx.outages.note(&error),
            }
            if Instant::now() >= until {
                return;
            }
        }
    }
}
