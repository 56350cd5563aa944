//! Queues for tenants that send much besides jobs.
//!
//! Cancels, questions and messages that are not jobs come through a queue that all tenants share. RabbitMQ writes each
//! of them to disk before the scheduler can refuse it. So a tenant that sends more of them than its allowance gets a
//! queue of its own. Only that queue has to wait. When it is full, RabbitMQ refuses the tenant's messages without
//! writing them.

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

impl Lanes {
    /// Reads from the journal which tenants have such a queue, and serves these queues.
    pub(super) async fn restore_rests(&self) -> Result<(), Trouble> {
        let (ctx, rests) = (&self.0.ctx, &self.0.rests);
        for tenant in rests.read(ctx, &Journal::rests(), TenantName::new).await? {
            self.serve_rest(tenant);
        }
        let lanes = self.clone();
        ctx.spawn_for_good("journal of rests", async move {
            let (ctx, rests) = (&lanes.0.ctx, &lanes.0.rests);
            rests.watch(ctx, &Journal::rests(), TenantName::new, |tenant| lanes.serve_rest(tenant)).await;
        });
        Ok(())
    }

    /// Gives a tenant its own queue, unless it has one.
    pub(super) fn set_apart(&self, tenant: &TenantName) {
        if !self.0.rests.add(tenant.clone()) {
            return;
        }
        tracing::warn!(%tenant, "the tenant sends too many messages that are not jobs; they get their own queue");
        let (lanes, tenant) = (self.clone(), tenant.clone());
        self.0.ctx.spawn("journal of rests", async move {
            let (ctx, journal) = (&lanes.0.ctx, Journal::rests());
            // The next scheduler must know of the queue before anything can be in it.
            if ctx.persist(|| journal.remember(ctx, tenant.to_string())).await.is_ok() {
                lanes.serve_rest(tenant);
            }
        });
    }

    fn serve_rest(&self, tenant: TenantName) {
        let lanes = self.clone();
        self.0.ctx.spawn("rest", async move {
            if let Err(error) = lanes.consume_rest(&tenant).await
                && !matches!(error, Trouble::Stopped)
            {
                tracing::error!(%error, %tenant, "a tenant's queue for messages that are not jobs is not served");
                lanes.0.ctx.failed.cancel();
            }
        });
    }

    async fn consume_rest(&self, tenant: &TenantName) -> Result<(), Trouble> {
        let (ctx, spec) = (&self.0.ctx, QueueSpec::rest(tenant));
        let (idle, mut pause) = (ctx.options.lane_idle.duration(), Backoff::default());
        loop {
            // One message at a time, because the next one may have to wait.
            let mut consumer = ctx.consume(&spec, 1).await?;
            let mut used = Instant::now();
            loop {
                let delivery = tokio::select! {
                    biased;
                    () = ctx.stop.cancelled() => return Err(Trouble::Stopped),
                    delivery = consumer.next() => delivery,
                    () = tokio::time::sleep_until(used + idle) => {
                        if self.give_up_rest(tenant, &spec, &mut *consumer).await? {
                            return Ok(());
                        }
                        used = Instant::now();
                        continue;
                    }
                };
                let Some(delivery) = delivery else { break };
                pause.reset();
                let wait = self.take_stray(&delivery).await?;
                ctx.stop.run_until_cancelled(tokio::time::sleep(wait)).await;
                used = Instant::now();
            }
            pause.wait().await;
        }
    }

    async fn take_stray(&self, delivery: &Delivery) -> Result<Duration, Trouble> {
        self.deal(Stray::of(&self.0.ctx, &delivery.message), delivery).await
    }

    /// Unbinds, drains and deletes an idle queue. `false` if the queue is used after all, and is bound again.
    async fn give_up_rest(
        &self,
        tenant: &TenantName,
        spec: &QueueSpec,
        consumer: &mut dyn Consumer,
    ) -> Result<bool, Trouble> {
        let ctx = &self.0.ctx;
        ctx.still_leads().await?;
        ctx.persist(|| async { Ok(ctx.bus.unbind_queue(spec).await?) }).await?;
        while let Ok(Some(delivery)) = tokio::time::timeout(SILENCE, consumer.next()).await {
            self.take_stray(&delivery).await?;
        }
        let left = ctx.persist(|| async { Ok(ctx.bus.queue_depth(&spec.name).await?) }).await?;
        ctx.still_leads().await?;
        if left.unwrap_or(0) > 0 {
            ctx.persist(|| async { Ok(ctx.bus.declare_queue(spec).await?) }).await?;
            return Ok(false);
        }
        ctx.persist(|| async { Ok(ctx.bus.delete_queue(&spec.name).await?) }).await?;
        self.0.rests.remove(tenant);
        tracing::info!(%tenant, "the tenant sent only jobs for a long time; its queue for other messages is deleted");
        Ok(true)
    }
}
