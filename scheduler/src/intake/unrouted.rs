//! All that no submit queue takes, of all tenants that have no queue of their own for it (`rest`).

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use thermae_backplane::bus::QueueSpec;

use super::Lanes;
use super::stray::Stray;
use crate::error::Trouble;
use crate::outage::Backoff;

/// Messages held at once. Jobs are dealt with in order; nothing else holds any of them up.
const PREFETCH: u16 = 64;

impl Lanes {
    /// Takes such messages from a queue until this scheduler leads no more.
    pub(super) async fn unrouted(&self, spec: QueueSpec) -> Result<(), Trouble> {
        let ctx = &self.0.ctx;
        let mut pause = Backoff::default();
        loop {
            let mut consumer = ctx.consume(&spec, PREFETCH).await?;
            let mut running = FuturesUnordered::new();
            loop {
                let delivery = tokio::select! {
                    biased;
                    () = ctx.stop.cancelled() => return Err(Trouble::Stopped),
                    Some(done) = running.next(), if !running.is_empty() => {
                        done?;
                        continue;
                    }
                    delivery = consumer.next() => delivery,
                };
                let Some(delivery) = delivery else { break };
                pause.reset();
                let stray = Stray::of(ctx, &delivery.message);
                if matches!(stray, Stray::Job(..)) {
                    self.deal(stray, &delivery).await?;
                    continue;
                }
                // This queue is many tenants': it waits for none of them. Who sends too much gets a queue that does.
                let sender = match &stray {
                    Stray::Cancel(tenant) | Stray::Question(tenant) | Stray::Refused(tenant, ..) => {
                        Some(tenant.clone())
                    }
                    Stray::Job(..) | Stray::Forged(_) => None,
                };
                running.push(async move {
                    let wait = self.deal(stray, &delivery).await?;
                    if let Some(tenant) = sender.filter(|_| !wait.is_zero()) {
                        self.set_apart(&tenant);
                    }
                    Ok::<_, Trouble>(())
                });
            }
            pause.wait().await;
        }
    }
}
