//! The jobs that were handed out and have a deadline. One that waits in a worker's queue until then is ended: the worker
//! sees it only when a slot is free.

use std::collections::BTreeMap;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;

use crate::admit::{HandedOut, end_unstarted};
use crate::context::{Context, now_ms};

/// Jobs that are looked up at once.
const AT_ONCE: usize = 16;

/// The jobs by deadline. It is no promise: another scheduler that leads later does not know them.
#[derive(Default)]
pub(super) struct Handed {
    due: BTreeMap<(u64, u64), HandedOut>,
    /// How many jobs came here.
    came: u64,
    ending: FuturesUnordered<BoxFuture<'static, ()>>,
}

impl Handed {
    pub(super) fn push(&mut self, job: HandedOut) {
        self.came += 1;
        self.due.insert((job.deadline, self.came), job);
    }

    /// The next deadline, if there is room to look a job up then.
    pub(super) fn first_deadline(&self) -> Option<u64> {
        let (deadline, _) = self.due.first_key_value().filter(|_| self.ending.len() < AT_ONCE)?.0;
        Some(*deadline)
    }

    /// Begins to end the jobs whose deadline has passed and that have not started.
    pub(super) fn end_late(&mut self, ctx: &Context) {
        while self.first_deadline().is_some_and(|deadline| deadline <= now_ms()) {
            let Some((_, job)) = self.due.pop_first() else { return };
            let ctx = ctx.clone();
            self.ending.push(Box::pin(async move {
                if let Err(trouble) = end_unstarted(&ctx, job).await {
                    // The job's worker will see that it is late.
                    ctx.outages.note(&trouble);
                }
            }));
        }
    }

    /// Waits for the end of one of them. Pending if none is being ended.
    pub(super) async fn ended(&mut self) {
        if self.ending.next().await.is_none() {
            std::future::pending().await
        }
    }
}
