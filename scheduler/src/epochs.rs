//! Finds out whether the registry was ever emptied.
//!
//! Redis can't tell: after it was emptied, it looks as new as in a new fleet. So the first scheduler writes the
//! registry's epoch to RabbitMQ. While that epoch lasts, no record was ever lost. Then a job without a record has never
//! been handed out, unless its message says that it is older than the epoch. In any later epoch, the age of the message
//! decides, with a margin for clocks (see [`crate::age`]).

use std::collections::BTreeSet;
use std::sync::Mutex;

use thermae_backplane::registry::Epoch;
use thermae_schemas::names;

use crate::context::Context;
use crate::error::Trouble;
use crate::journal::Journal;

/// Finds out the first epoch, before any job is handed out.
///
/// # Errors
/// The scheduler stops.
pub(crate) async fn look(ctx: &Context) -> Result<(), Trouble> {
    let epoch = ctx.persist(|| async { Ok(ctx.registry.epoch().await?) }).await?;
    if read(ctx).await? {
        return Ok(());
    }
    // An earlier release without this journal has used this RabbitMQ, so nobody knows which epoch was the first.
    let used = ctx.persist(|| async { Ok(ctx.bus.queue_depth(names::LANES_QUEUE).await?) }).await?;
    let first = if used.is_some_and(|depth| depth > 0) { "unknown".to_owned() } else { epoch.0 };
    let journal = Journal::epochs();
    ctx.persist(|| journal.remember(ctx, first.clone())).await?;
    // The journal may have seemed empty because another scheduler, which was just ending, was reading it.
    let later = ctx.clone();
    ctx.spawn("epochs", async move {
        tokio::select! {
            () = later.stop.cancelled() => {}
            () = tokio::time::sleep(later.options.lead_ttl.duration()) => drop(read(&later).await),
        }
    });
    Ok(())
}

/// Reads the journal. `false` if it is empty.
async fn read(ctx: &Context) -> Result<bool, Trouble> {
    let seen = Mutex::new(BTreeSet::new());
    let locked = || seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let take = |epoch: &str, _fresh: bool| {
        locked().insert(epoch.to_owned());
    };
    Journal::epochs().read(ctx, take, || locked().iter().cloned().collect()).await?;
    let seen = locked();
    // With several entries, nobody knows which epoch was the first.
    if let (1, Some(first)) = (seen.len(), seen.first()) {
        let _ = ctx.first_epoch.set(Epoch(first.clone()));
    }
    Ok(!seen.is_empty())
}
