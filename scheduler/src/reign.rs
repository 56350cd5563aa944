//! A reign: everything that runs while this scheduler leads. If one of its tasks panics or ends too early, the whole
//! reign ends, because a scheduler that leads without one of its parts would hold up all jobs.

use std::sync::Arc;

use thermae_backplane::bus;
use tokio::sync::{mpsc, watch};

use crate::context::Context;
use crate::dispatch::Dispatcher;
use crate::error::{Error, Trouble};
use crate::fleet::FleetView;
use crate::intake::Lanes;
use crate::{deadworkers, resolve, stranded, usage};

/// Most jobs between the lanes and the dispatcher. Beyond that, the lanes wait.
const ARRIVALS: usize = 256;

/// Runs until `ctx.stop` or `ctx.failed` is cancelled. The caller then cancels `ctx.stop` and waits for `ctx.tasks`.
///
/// # Errors
/// The broker refuses for good.
pub(crate) async fn run(ctx: Context, fleet: watch::Sender<Arc<FleetView>>) -> Result<(), Error> {
    let declared = ctx
        .persist(|| async {
            match thermae_backplane::declare_fleet(ctx.bus.as_ref()).await {
                // A retry doesn't help here. The message says what to do.
                Err(error @ (bus::Error::Denied(_) | bus::Error::Topology(_))) => Ok(Err(error)),
                Err(error) => Err(Trouble::from(error)),
                Ok(()) => Ok(Ok(())),
            }
        })
        .await;
    match declared {
        Ok(declared) => declared?,
        Err(Trouble::Stopped) => return Ok(()),
        Err(Trouble::Bus(error)) => return Err(error.into()),
        Err(Trouble::Registry(error)) => return Err(error.into()),
    }
    let (arrived, arrivals) = mpsc::channel(ARRIVALS);
    let lanes = Lanes::new(ctx.clone(), arrived, fleet);
    ctx.spawn_for_good("dispatcher", Dispatcher::new(ctx.clone(), lanes.clone()).run(arrivals));
    ctx.spawn_for_good("resolve", resolve::run(ctx.clone()));
    ctx.spawn_for_good("usage", usage::run(ctx.clone()));
    ctx.spawn_for_good("deadworkers", deadworkers::run(ctx.clone()));
    ctx.spawn_for_good("stranded", stranded::run(ctx.clone()));
    ctx.spawn_for_good("intake", async move {
        match lanes.run().await {
            Ok(()) | Err(Trouble::Stopped) => {}
            Err(error) => tracing::error!(%error, "intake ended"),
        }
    });
    tokio::select! {
        () = ctx.stop.cancelled() => {}
        () = ctx.failed.cancelled() => {}
    }
    Ok(())
}
