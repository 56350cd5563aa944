//! Messages that no submit queue takes, of all tenants that have no queue of their own for them (see `rest`).

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use thermae_backplane::bus::QueueSpec;
use thermae_service::backoff::Backoff;

use super::stray::Stray;
use super::{Lanes, rest};
use crate::error::Trouble;

/// Messages held at once. Jobs are handled one after the other. All other messages are handled at the same time.
const PREFETCH: u16 = 64;

/// Handles these messages from one queue, until this scheduler no longer leads.
pub(super) async fn serve(lanes: &Lanes, spec: QueueSpec) -> Result<(), Trouble> {
    let ctx = &lanes.0.ctx;
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
                lanes.deal(stray, &delivery).await?;
                continue;
            }
            // Many tenants share this queue, so it never waits for one of them. A tenant that sends too much gets
            // its own queue.
            let sender = match &stray {
                Stray::Cancel(tenant)
                | Stray::Question(tenant)
                | Stray::Request(tenant)
                | Stray::Refused(tenant, ..) => Some(tenant.clone()),
                Stray::Job(..) | Stray::Forged(_) => None,
            };
            running.push(async move {
                let wait = lanes.deal(stray, &delivery).await?;
                if let Some(tenant) = sender.filter(|_| !wait.is_zero()) {
                    rest::set_apart(lanes, &tenant);
                }
                Ok::<_, Trouble>(())
            });
        }
        pause.wait().await;
    }
}
