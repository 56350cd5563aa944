//! The journal of lanes, which tells the next scheduler which submit queues exist.

use super::Lanes;
use crate::context::Context;
use crate::error::Trouble;
use crate::journal::{AGAIN, Journal};
use crate::lane::Lane;

/// Adds a lane to the journal.
pub(super) async fn remember(ctx: &Context, lane: &Lane) -> Result<(), Trouble> {
    Journal::lanes().remember(ctx, lane.to_string()).await
}

/// Adds all lanes in the journal to `lanes`.
pub(super) async fn read(lanes: &Lanes) -> Result<(), Trouble> {
    let take = |key: &str, fresh: bool| {
        if let Some(lane) = Lane::parse(key) {
            lanes.restore(lane, fresh);
        }
    };
    let all = || lanes.list().iter().map(ToString::to_string).collect();
    Journal::lanes().read(&lanes.0.ctx, take, all).await
}

/// Reads the journal again at intervals, until this scheduler no longer leads.
pub(super) async fn watch(lanes: Lanes) {
    let ctx = &lanes.0.ctx;
    loop {
        tokio::select! {
            () = ctx.stop.cancelled() => return,
            () = tokio::time::sleep(AGAIN) => {}
        }
        if read(&lanes).await.is_err() {
            return;
        }
    }
}
