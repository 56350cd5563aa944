//! Consuming one of the fleet's shared queues, many messages at once.

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use thermae_backplane::bus::{Delivery, QueueSpec};

use crate::answer::{acknowledge, give_back};
use crate::context::Context;
use crate::error::Trouble;
use crate::outage::Backoff;

/// What a handler gives that has dealt with a message, or could not: acknowledged, or handed back for [`serve`].
pub(crate) async fn acknowledged(delivery: Delivery, dealt: Result<(), Trouble>) -> Result<(), (Delivery, Trouble)> {
    match dealt {
        Ok(()) => {
            acknowledge(&delivery).await;
            Ok(())
        }
        Err(error) => Err((delivery, error)),
    }
}

/// Hands every message to `handle`, at most `prefetch` at once, until this scheduler leads no more. The handler acknowledges;
/// what it fails on goes back after a pause.
pub(crate) async fn serve<F>(ctx: &Context, spec: &QueueSpec, prefetch: u16, handle: impl Fn(Delivery) -> F)
where
    F: Future<Output = Result<(), (Delivery, Trouble)>>,
{
    let mut pause = Backoff::default();
    loop {
        let Ok(mut consumer) = ctx.consume(spec, prefetch).await else { return };
        let mut running = FuturesUnordered::new();
        loop {
            tokio::select! {
                biased;
                () = ctx.stop.cancelled() => return,
                Some(()) = running.next(), if !running.is_empty() => {}
                delivery = consumer.next() => {
                    let Some(delivery) = delivery else { break };
                    let work = handle(delivery);
                    running.push(async move {
                        match work.await {
                            Ok(()) => ctx.outages.over(),
                            Err((_, Trouble::Stopped)) => {}
                            Err((delivery, error)) => {
                                ctx.outages.note(&error);
                                // One's trouble holds only its own message.
                                Backoff::default().wait().await;
                                give_back(&delivery).await;
                            }
                        }
                    });
                }
            }
        }
        pause.wait().await;
    }
}
