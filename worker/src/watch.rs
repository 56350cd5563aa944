//! Keeps the worker's state and its readiness conditions in step with its pools and its connection to the bus.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use thermae_schemas::WorkerState;
use thermae_service::health;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::error::Error;
use crate::pool::{Condition, Pool};

/// Waits until a pool has only one wall, although its options require two.
pub(crate) async fn refusal(ctx: &Context) -> Error {
    let waits: FuturesUnordered<_> = ctx.pools.values().map(|pool| one_wall(pool)).collect();
    match waits.into_future().await {
        (Some(error), _) => error,
        (None, _) => std::future::pending().await,
    }
}

async fn one_wall(pool: &Pool) -> Error {
    let mut condition = pool.condition();
    if let Ok(found) = condition.wait_for(|c| matches!(c, Condition::Unwalled(_))).await
        && let Condition::Unwalled(why) = &*found
    {
        return Error::NoInnerWall { pool: pool.name().clone(), why: why.clone() };
    }
    // The pool is gone, and so is the worker.
    std::future::pending().await
}

/// Keeps the worker's state and the readiness condition in step with its pools.
pub(crate) async fn watch_pools(ctx: &Context, state: &watch::Sender<WorkerState>, condition: &health::Condition) {
    let mut pools: Vec<_> = ctx.pools.values().map(|p| (p.name().clone(), p.condition(), p.warm())).collect();
    let mut registered = ctx.registered.subscribe();
    loop {
        let mut problems = Vec::new();
        let (mut any, mut unhealthy) = (false, false);
        for (name, pool, warm) in &mut pools {
            let pool = pool.borrow_and_update().clone();
            let warm = *warm.borrow_and_update();
            any |= pool == Condition::Ready;
            match pool {
                Condition::Ready if warm => {}
                Condition::Ready | Condition::Starting => problems.push(format!("{name}: making its first containers")),
                Condition::Unhealthy(why) | Condition::Unwalled(why) => {
                    unhealthy = true;
                    problems.push(format!("{name}: {why}"));
                }
            }
        }
        if ctx.draining.is_cancelled() {
            return;
        }
        let registered_now = *registered.borrow_and_update();
        if !registered_now {
            problems.push("the worker's own queue is not consumed".to_owned());
        }
        let now = match (any, unhealthy) {
            (true, _) if registered_now => WorkerState::Ready,
            (false, true) => WorkerState::Unhealthy,
            _ => WorkerState::Starting,
        };
        if problems.is_empty() {
            let lacking = ctx.pools.values().filter(|p| p.lacks_wall());
            let notes = lacking.map(|p| format!("{}: no inner wall, one container for each job", p.name()));
            condition.ready_with(notes.collect::<Vec<_>>().join("; "));
        } else {
            condition.not_ready(problems.join("; "));
        }
        state.send_if_modified(|s| *s != WorkerState::Draining && std::mem::replace(s, now) != now);
        let changes = pools.iter_mut().map(|(_, pool, warm)| {
            Box::pin(async {
                tokio::select! {
                    changed = pool.changed() => changed,
                    changed = warm.changed() => changed,
                }
            })
        });
        let changed = futures::future::select_all(changes);
        let changed = async {
            tokio::select! {
                _ = changed => {}
                _ = registered.changed() => {}
            }
        };
        if ctx.draining.run_until_cancelled(changed).await.is_none() {
            return;
        }
    }
}

/// Keeps the readiness condition in step with the bus's connection.
pub(crate) async fn watch_bus(ctx: &Context, condition: &health::Condition, end: CancellationToken) {
    loop {
        if ctx.bus.is_connected() {
            condition.ready();
        } else {
            condition.not_ready("not connected");
        }
        if end.run_until_cancelled(tokio::time::sleep(Duration::from_millis(500))).await.is_none() {
            return;
        }
    }
}
