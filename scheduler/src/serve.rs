//! Consumes one of the fleet's shared queues and handles many messages at once.

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use thermae_backplane::bus::{Delivery, QueueSpec};
use thermae_service::backoff::Backoff;

use crate::answer::{acknowledge, give_back};
use crate::context::Context;
use crate::error::Trouble;

/// The end of a handler: acknowledges the delivery if it was dealt with, or returns it to [`serve`] with the error.
pub(crate) async fn acknowledged(delivery: Delivery, dealt: Result<(), Trouble>) -> Result<(), (Delivery, Trouble)> {
    match dealt {
        Ok(()) => {
            acknowledge(&delivery).await;
            Ok(())
        }
        Err(error) => Err((delivery, error)),
    }
}

/// Passes each message to `handle`, at most `prefetch` at once, until this scheduler no longer leads. The handler
/// acknowledges. A message that it failed on goes back to the queue after a pause.
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
                                // The pause holds up only this message.
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
