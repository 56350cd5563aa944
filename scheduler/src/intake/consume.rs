//! The consumer of one lane.
//!
//! A lane that got no job for a long time is deleted. First it is unbound: a message that is published late finds no
//! queue and comes through the unrouted queue, which makes the lane again. Then it is drained, and only then deleted.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use thermae_backplane::bus::{Consumer, Delivery, QueueSpec};
use thermae_schemas::TenantName;
use thermae_service::backoff::Backoff;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Lanes;
use crate::error::Trouble;
use crate::head::Held;
use crate::lane::Lane;

/// How long an unbound queue must stay silent. Everything that was routed to it before has arrived by then.
pub(super) const SILENCE: Duration = Duration::from_secs(1);
/// How often a lane checks whether its window still has the right size.
const REVIEW: Duration = Duration::from_secs(10);
/// A lane that must wait at least this long puts back the deliveries that it hasn't looked at.
const LONG: Duration = Duration::from_secs(1);
/// How often a consumer that takes no more checks whether everything that it holds is settled.
const LOOK: Duration = Duration::from_secs(1);

/// What a lane has to do next.
#[allow(clippy::large_enum_variant, reason = "made once per delivery, and nearly always the largest")]
enum Next {
    Delivery(Box<Delivery>),
    /// The lane's queue doesn't exist any more.
    Gone,
    Idle,
    Review,
    Stopped,
}

impl Lanes {
    /// How many jobs a lane of this tenant may hold ahead of their turn, so that all lanes together stay within
    /// `lane_memory`. It is one if the tenant was refused a lot, because what it sends may be larger than a job.
    fn window(&self, tenant: &TenantName) -> u16 {
        let options = &self.0.ctx.options;
        if self.0.ctx.allowance.is_low(tenant, Instant::now()) {
            return 1;
        }
        let lanes = self.lock().len().max(1) as u64;
        let jobs = options.lane_memory.as_u64() / options.max_job_bytes.as_u64().max(1);
        u16::try_from(jobs / lanes).unwrap_or(u16::MAX).clamp(1, options.window)
    }

    /// Runs a lane until it is stopped or deleted.
    pub(super) async fn consume(self, lane: Lane, stop: CancellationToken) {
        let ctx = &self.0.ctx;
        let spec = QueueSpec::submit(&lane.tenant, lane.class, &lane.pool);
        let mut pause = Backoff::default();
        let mut used = Instant::now();
        // The `Held` of each consumer of this lane has a clone, so it exists as long as the consumer or one of its
        // jobs.
        let all = Arc::new(());
        loop {
            let window = self.window(&lane.tenant);
            let opened = tokio::select! {
                () = stop.cancelled() => return,
                opened = ctx.consume(&spec, window) => opened,
            };
            let Ok(mut consumer) = opened else { return };
            let held = Held::new(all.clone());
            let in_hand = || Held::strong_count(&held) > 1 || Arc::strong_count(&all) > 2;
            let mut review = Instant::now() + REVIEW;
            loop {
                match self.next(&mut *consumer, &stop, used, review).await {
                    Next::Delivery(delivery) => {
                        let Ok(wait) = self.take(&lane, *delivery, &held).await else { return };
                        used = Instant::now();
                        pause.reset();
                        if wait < LONG {
                            if !wait.is_zero() {
                                stop.run_until_cancelled(tokio::time::sleep(wait)).await;
                            }
                            continue;
                        }
                        tracing::warn!(%lane, ?wait, "the tenant sends too much that never runs; its queue is paused");
                        self.retire(&lane, consumer, held, &stop).await;
                        stop.run_until_cancelled(tokio::time::sleep(wait)).await;
                        break;
                    }
                    Next::Gone => {
                        tracing::warn!(%lane, "the submit queue is gone; declaring it again");
                        pause.wait().await;
                        break;
                    }
                    Next::Review => {
                        review = Instant::now() + REVIEW;
                        let wanted = self.window(&lane.tenant);
                        if wanted >= window.saturating_mul(2) || wanted <= window / 2 {
                            self.retire(&lane, consumer, held, &stop).await;
                            break;
                        }
                    }
                    // While a job is in hand, the consumer must stay, because its end would put the job back.
                    Next::Idle if in_hand() => used = Instant::now(),
                    Next::Idle => match self.give_up(&lane, &spec, &mut *consumer, &held, &stop).await {
                        Ok(true) => return,
                        Ok(false) => used = Instant::now(),
                        Err(_) => return,
                    },
                    Next::Stopped => {
                        self.until_drained().await;
                        return;
                    }
                }
            }
        }
    }

    /// When this scheduler stops leading, the dispatcher can still acknowledge the jobs that it has half handed out.
    /// The consumer must stay until then.
    async fn until_drained(&self) {
        if self.0.ctx.stop.is_cancelled() {
            self.0.ctx.drained.cancelled().await;
        }
    }

    /// Takes no more deliveries from a consumer. A task keeps the consumer until everything that it holds is settled,
    /// because its end would put that back. Returns when no more is left than the lane's next consumer may hold.
    async fn retire(&self, lane: &Lane, mut consumer: Box<dyn Consumer>, held: Held, stop: &CancellationToken) {
        let _ = consumer.stop().await;
        let (lanes, rest, end) = (self.clone(), held.clone(), stop.clone());
        self.0.ctx.spawn("lane's last consumer", async move {
            while Held::strong_count(&rest) > 1 {
                if end.run_until_cancelled(tokio::time::sleep(LOOK)).await.is_none() {
                    lanes.until_drained().await;
                    break;
                }
            }
            drop(consumer);
        });
        // One clone is held here, and one by the task.
        while Held::strong_count(&held) > 2 + usize::from(self.window(&lane.tenant)) {
            if stop.run_until_cancelled(tokio::time::sleep(LOOK)).await.is_none() {
                return;
            }
        }
    }

    async fn next(
        &self,
        consumer: &mut dyn Consumer,
        stop: &CancellationToken,
        used: Instant,
        review: Instant,
    ) -> Next {
        let idle = self.0.ctx.options.lane_idle.duration();
        tokio::select! {
            biased;
            () = stop.cancelled() => Next::Stopped,
            () = tokio::time::sleep_until(review) => Next::Review,
            delivery = consumer.next() => delivery.map_or(Next::Gone, |delivery| Next::Delivery(Box::new(delivery))),
            () = tokio::time::sleep_until(used + idle) => Next::Idle,
        }
    }

    /// Unbinds, drains and deletes an idle lane. `false` if the lane is used after all, and is bound again.
    async fn give_up(
        &self,
        lane: &Lane,
        spec: &QueueSpec,
        consumer: &mut dyn Consumer,
        held: &Held,
        stop: &CancellationToken,
    ) -> Result<bool, Trouble> {
        let ctx = &self.0.ctx;
        let Some(used) = self.lock().get(lane).map(|state| state.used.clone()) else { return Ok(true) };
        used.store(false, Ordering::Relaxed);
        ctx.still_leads().await?;
        ctx.persist(|| async { Ok(ctx.bus.unbind_queue(spec).await?) }).await?;
        while let Ok(Some(delivery)) = tokio::time::timeout(SILENCE, consumer.next()).await {
            self.take(lane, delivery, held).await?;
        }
        let _routing = self.0.routing.lock().await;
        let empty = ctx.persist(|| async { Ok(ctx.bus.queue_depth(&spec.name).await?.unwrap_or(0) == 0) }).await?;
        ctx.still_leads().await?;
        if !empty || Held::strong_count(held) > 1 || used.load(Ordering::Relaxed) || stop.is_cancelled() {
            ctx.persist(|| async { Ok(ctx.bus.declare_queue(spec).await?) }).await?;
            return Ok(false);
        }
        ctx.persist(|| async { Ok(ctx.bus.delete_queue(&spec.name).await?) }).await?;
        self.given_up().insert(lane.clone());
        let left = {
            let mut lanes = self.lock();
            lanes.remove(lane);
            lanes.len()
        };
        ctx.metrics.lanes(left);
        tracing::info!(%lane, "the lane was idle for a long time; its queue is deleted");
        Ok(true)
    }
}
