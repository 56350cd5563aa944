//! Queues for tenants that send much besides jobs.
//!
//! Cancels, questions, requests to sessions, and messages to refuse come through a queue that all tenants share.
//! RabbitMQ writes each of them to disk before the scheduler can refuse it. So a tenant that sends more of them than
//! its allowance gets a queue of its own. Only that queue has to wait. When it is full, RabbitMQ refuses the tenant's
//! messages without writing them.

use std::time::Duration;

use thermae_backplane::bus::{Consumer, Delivery, QueueSpec};
use thermae_schemas::TenantName;
use thermae_service::backoff::Backoff;
use tokio::time::Instant;

use super::Lanes;
use super::consume::SILENCE;
use super::stray::Stray;
use crate::error::Trouble;
use crate::journal::Journal;

/// Reads from the journal which tenants have such a queue, and serves these queues.
pub(super) async fn restore(lanes: &Lanes) -> Result<(), Trouble> {
    let (ctx, rests) = (&lanes.0.ctx, &lanes.0.rests);
    for tenant in rests.read(ctx, &Journal::rests(), TenantName::new).await? {
        Rest::serve(lanes, tenant);
    }
    let lanes = lanes.clone();
    ctx.spawn_for_good("journal of rests", async move {
        let (ctx, rests) = (&lanes.0.ctx, &lanes.0.rests);
        rests.watch(ctx, &Journal::rests(), TenantName::new, |tenant| Rest::serve(&lanes, tenant)).await;
    });
    Ok(())
}

/// Gives a tenant its own queue, unless it has one.
pub(super) fn set_apart(lanes: &Lanes, tenant: &TenantName) {
    if !lanes.0.rests.add(tenant.clone()) {
        return;
    }
    tracing::warn!(%tenant, "the tenant sends too many messages that are not jobs; they get their own queue");
    let (own, tenant) = (lanes.clone(), tenant.clone());
    lanes.0.ctx.spawn("journal of rests", async move {
        let (ctx, journal) = (&own.0.ctx, Journal::rests());
        // The next scheduler must know of the queue before anything can be in it.
        if ctx.persist(|| journal.remember(ctx, tenant.to_string())).await.is_ok() {
            Rest::serve(&own, tenant);
        }
    });
}

/// The queue of one tenant.
struct Rest {
    lanes: Lanes,
    tenant: TenantName,
    spec: QueueSpec,
}

impl Rest {
    fn serve(lanes: &Lanes, tenant: TenantName) {
        let rest = Self { lanes: lanes.clone(), spec: QueueSpec::rest(&tenant), tenant };
        lanes.0.ctx.spawn("rest", async move {
            if let Err(error) = rest.consume().await
                && !matches!(error, Trouble::Stopped)
            {
                let tenant = &rest.tenant;
                tracing::error!(%error, %tenant, "a tenant's queue for messages that are not jobs is not served");
                rest.lanes.0.ctx.failed.cancel();
            }
        });
    }

    async fn consume(&self) -> Result<(), Trouble> {
        let ctx = &self.lanes.0.ctx;
        let (idle, mut pause) = (ctx.options.lane_idle.duration(), Backoff::default());
        loop {
            // One message at a time, because the next one may have to wait.
            let mut consumer = ctx.consume(&self.spec, 1).await?;
            let mut used = Instant::now();
            loop {
                let delivery = tokio::select! {
                    biased;
                    () = ctx.stop.cancelled() => return Err(Trouble::Stopped),
                    delivery = consumer.next() => delivery,
                    () = tokio::time::sleep_until(used + idle) => {
                        if self.give_up(&mut *consumer).await? {
                            return Ok(());
                        }
                        used = Instant::now();
                        continue;
                    }
                };
                let Some(delivery) = delivery else { break };
                pause.reset();
                let wait = self.take(&delivery).await?;
                ctx.stop.run_until_cancelled(tokio::time::sleep(wait)).await;
                used = Instant::now();
            }
            pause.wait().await;
        }
    }

    async fn take(&self, delivery: &Delivery) -> Result<Duration, Trouble> {
        self.lanes.deal(Stray::of(&self.lanes.0.ctx, &delivery.message), delivery).await
    }

    /// Unbinds, drains and deletes an idle queue. `false` if the queue is used after all, and is bound again.
    async fn give_up(&self, consumer: &mut dyn Consumer) -> Result<bool, Trouble> {
        let Self { lanes, tenant, spec } = self;
        let ctx = &lanes.0.ctx;
        ctx.still_leads().await?;
        ctx.persist(|| async { Ok(ctx.bus.unbind_queue(spec).await?) }).await?;
        while let Ok(Some(delivery)) = tokio::time::timeout(SILENCE, consumer.next()).await {
            self.take(&delivery).await?;
        }
        let left = ctx.persist(|| async { Ok(ctx.bus.queue_depth(&spec.name).await?) }).await?;
        ctx.still_leads().await?;
        if left.unwrap_or(0) > 0 {
            ctx.persist(|| async { Ok(ctx.bus.declare_queue(spec).await?) }).await?;
            return Ok(false);
        }
        ctx.persist(|| async { Ok(ctx.bus.delete_queue(&spec.name).await?) }).await?;
        lanes.0.rests.remove(tenant);
        tracing::info!(%tenant, "the tenant sent only jobs for a long time; its queue for other messages is deleted");
        Ok(true)
    }
}
