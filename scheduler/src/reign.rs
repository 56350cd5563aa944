//! Everything that runs while this scheduler leads.

use std::sync::Arc;

use thermae_backplane::bus;
use tokio::sync::{mpsc, watch};

use crate::context::Context;
use crate::dispatch::Dispatcher;
use crate::error::{Error, Trouble};
use crate::fleet::Fleet;
use crate::intake::Lanes;
use crate::{cancel, deadworkers, query, resolve};

/// Arrivals between the lanes and the dispatcher; the lanes' windows bound the rest.
const ARRIVALS: usize = 256;

/// Runs until `ctx.stop` is cancelled. The caller cancels it and waits for `ctx.tasks`.
///
/// # Errors
/// The broker refuses for good.
pub(crate) async fn run(ctx: Context, fleet: watch::Sender<Arc<Fleet>>) -> Result<(), Error> {
    let declared = ctx
        .persist(|| async {
            match thermae_backplane::declare_fleet(ctx.bus.as_ref()).await {
                // No repetition mends these; the message says what to do.
                Err(error @ (bus::Error::Denied(_) | bus::Error::Topology(_))) => Ok(Err(error)),
                Err(error) => Err(Trouble::from(error)),
                Ok(()) => Ok(Ok(())),
            }
        })
        .await;
    match declared {
        Ok(declared) => declared?,
        Err(_) => return Ok(()),
    }
    let (arrived, arrivals) = mpsc::channel(ARRIVALS);
    let lanes = Lanes::new(ctx.clone(), arrived, fleet);
    ctx.tasks.spawn(Dispatcher::new(ctx.clone(), lanes.clone()).run(arrivals));
    ctx.tasks.spawn(cancel::run(ctx.clone()));
    ctx.tasks.spawn(query::run(ctx.clone()));
    ctx.tasks.spawn(resolve::run(ctx.clone()));
    ctx.tasks.spawn(deadworkers::run(ctx.clone()));
    match lanes.run().await {
        Ok(()) | Err(Trouble::Stopped) => {}
        Err(error) => tracing::error!(%error, "intake ended"),
    }
    ctx.stop.cancelled().await;
    Ok(())
}
