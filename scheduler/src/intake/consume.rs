//! One lane's consumer, for as long as the lane is used.
//!
//! A lane that got no job for long is given up. It is unbound first: what is published late finds no queue, and comes by way of the
//! unrouted queue, which makes the lane anew. Then it is drained, and only then deleted.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use thermae_backplane::bus::{Consumer, Delivery, QueueSpec};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Lanes;
use crate::error::Trouble;
use crate::lane::Lane;
use crate::outage::Backoff;

/// How long after it was unbound a queue must stay silent: what was routed to it before has arrived by then.
const SILENCE: Duration = Duration::from_secs(1);
/// How often a lane looks whether its window is still right.
const REVIEW: Duration = Duration::from_secs(10);

/// Why a lane looked up from its deliveries.
#[allow(clippy::large_enum_variant, reason = "made once per delivery, and nearly always the largest")]
enum Next {
    Delivery(Box<Delivery>),
    /// Its queue is gone.
    Gone,
    Idle,
    Review,
    Stopped,
}

impl Lanes {
    /// Jobs that each lane may hold ahead of their turn, so that all of them together fit into the memory for that.
    fn window(&self) -> u16 {
        let options = &self.0.ctx.options;
        let lanes = self.lock().len().max(1) as u64;
        let jobs = options.lane_memory.as_u64() / options.max_job_bytes.as_u64().max(1);
        u16::try_from(jobs / lanes).unwrap_or(u16::MAX).clamp(1, options.window)
    }

    /// Runs a lane until it is stopped, or given up.
    pub(super) async fn consume(self, lane: Lane, stop: CancellationToken) {
        let ctx = &self.0.ctx;
        let spec = QueueSpec::submit(&lane.tenant, lane.class, &lane.pool);
        let mut pause = Backoff::default();
        let mut used = Instant::now();
        loop {
            let window = self.window();
            let opened = tokio::select! {
                () = stop.cancelled() => return,
                opened = ctx.consume(&spec, window) => opened,
            };
            let Ok(mut consumer) = opened else { return };
            let held = Arc::new(());
            loop {
                match self.next(&mut *consumer, &stop, used).await {
                    Next::Delivery(delivery) => {
                        if self.take(&lane, *delivery, &held).await.is_err() {
                            return;
                        }
                        used = Instant::now();
                        pause.reset();
                    }
                    Next::Gone => {
                        tracing::warn!(%lane, "submit queue is gone, declaring it anew");
                        pause.wait().await;
                        break;
                    }
                    // With a job in hand the consumer must stay: its end would give the job back.
                    Next::Idle | Next::Review if Arc::strong_count(&held) > 1 => used = Instant::now(),
                    Next::Review => {
                        let wanted = self.window();
                        if wanted >= window.saturating_mul(2) || wanted <= window / 2 {
                            let _ = consumer.stop().await;
                            break;
                        }
                    }
                    Next::Idle => match self.give_up(&lane, &spec, &mut *consumer, &held, &stop).await {
                        Ok(true) => return,
                        Ok(false) => used = Instant::now(),
                        Err(_) => return,
                    },
                    Next::Stopped => {
                        if ctx.stop.is_cancelled() {
                            // What the dispatcher has half done can still be acknowledged.
                            ctx.drained.cancelled().await;
                        }
                        return;
                    }
                }
            }
        }
    }

    async fn next(&self, consumer: &mut dyn Consumer, stop: &CancellationToken, used: Instant) -> Next {
        let idle = self.0.ctx.options.lane_idle.duration();
        tokio::select! {
            biased;
            () = stop.cancelled() => Next::Stopped,
            delivery = consumer.next() => delivery.map_or(Next::Gone, |delivery| Next::Delivery(Box::new(delivery))),
            () = tokio::time::sleep_until(used + idle) => Next::Idle,
            () = tokio::time::sleep(REVIEW) => Next::Review,
        }
    }

    /// Unbinds, drains and deletes an idle lane; `false`: it is used after all, and bound again.
    async fn give_up(
        &self,
        lane: &Lane,
        spec: &QueueSpec,
        consumer: &mut dyn Consumer,
        held: &Arc<()>,
        stop: &CancellationToken,
    ) -> Result<bool, Trouble> {
        let ctx = &self.0.ctx;
        let Some(used) = self.lock().get(lane).map(|state| state.used.clone()) else { return Ok(true) };
        used.store(false, Ordering::Relaxed);
        ctx.persist(|| async { Ok(ctx.bus.unbind_queue(spec).await?) }).await?;
        while let Ok(Some(delivery)) = tokio::time::timeout(SILENCE, consumer.next()).await {
            self.take(lane, delivery, held).await?;
        }
        let _routing = self.0.routing.lock().await;
        let empty = ctx.persist(|| async { Ok(ctx.bus.queue_depth(&spec.name).await?.unwrap_or(0) == 0) }).await?;
        if !empty || Arc::strong_count(held) > 1 || used.load(Ordering::Relaxed) || stop.is_cancelled() {
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
        tracing::info!(%lane, "the lane was idle for long: its queue is deleted");
        Ok(true)
    }
}
