//! The slot of a run: given back while the run is paused, and taken again before the run goes on.

use std::pin::Pin;
use std::sync::Arc;

use thermae_backplane::bus::Delivery;
use tokio::sync::OwnedSemaphorePermit;

use super::to_resolve;
use crate::context::Context;
use crate::pool::{Paused, Pool};
use crate::running::Entry;
use crate::work::Work;

/// What a run holds of its pool while it goes on.
pub(crate) struct Seat<'a> {
    ctx: &'a Context,
    work: &'a Work,
    delivery: &'a Delivery,
    pool: Arc<Pool>,
    lent: bool,
    slot: Option<OwnedSemaphorePermit>,
    paused: Option<Paused>,
    /// Waits for a slot. It is kept until it has one, because the slots go to those who have waited longest.
    returning: Option<Pin<Box<dyn Future<Output = Option<OwnedSemaphorePermit>> + Send>>>,
    /// Hands the delivery to `resolve`.
    handing: Option<Pin<Box<dyn Future<Output = ()> + Send + 'a>>>,
}

impl<'a> Seat<'a> {
    /// The seat of a run that has this slot. `lent` says whether its container counts as lent to a job.
    pub(crate) fn new(
        ctx: &'a Context,
        work: &'a Work,
        delivery: &'a Delivery,
        pool: &Arc<Pool>,
        slot: OwnedSemaphorePermit,
        lent: bool,
    ) -> Self {
        let (pool, slot) = (Arc::clone(pool), Some(slot));
        Self { ctx, work, delivery, pool, lent, slot, paused: None, returning: None, handing: None }
    }

    /// Whether the run is paused, and has no slot.
    pub(super) fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// Pauses the run: gives its slot and its credit back. `false` if too many runs are paused.
    ///
    /// The first pause also hands the delivery to `resolve`. Otherwise it would count against the worker's prefetch, so
    /// that another job could not come in its place, and RabbitMQ would close the channel after half an hour.
    pub(super) fn pause(&mut self, entry: &Entry) -> bool {
        if self.paused.is_none() {
            let Some(paused) = Paused::begin(&self.pool, &self.work.key.tenant, self.lent) else { return false };
            self.paused = Some(paused);
            self.slot = None;
            entry.course.pauses();
            self.ctx.pulse.hasten();
            self.hand_over();
        }
        true
    }

    /// Takes note that the run waits in its slot. It may wait for as long as a paused one.
    pub(super) fn stay(&mut self, entry: &Entry) {
        entry.course.waits();
        self.hand_over();
    }

    /// Hands the delivery to `resolve`, unless that is done.
    fn hand_over(&mut self) {
        if !self.delivery.is_settled() && self.handing.is_none() {
            self.handing = Some(Box::pin(to_resolve(self.ctx, self.delivery, "paused")));
        }
    }

    /// Waits until the paused run has a slot again, if `wanted`; otherwise it never ends. Meanwhile, goes on with the
    /// handing of the delivery to `resolve`. Cancel-safe.
    pub(super) async fn resumed(&mut self, entry: &Entry, wanted: bool) {
        let Self { pool, returning, handing, .. } = self;
        if wanted && returning.is_none() {
            let slots = Arc::clone(pool.slots());
            *returning = Some(Box::pin(async move { slots.acquire_owned().await.ok() }));
        }
        loop {
            tokio::select! {
                slot = held(returning), if wanted => {
                    self.slot = slot;
                    break;
                }
                () = held(handing) => *handing = None,
            }
        }
        self.returning = None;
        self.end_pause(entry);
    }

    /// Notes that the run has ended, so that it needs no slot. Whether the delivery is settled is known after this.
    pub(super) async fn end(&mut self, entry: &Entry) {
        if self.handing.is_some() {
            held(&mut self.handing).await;
            self.handing = None;
        }
        self.end_pause(entry);
    }

    fn end_pause(&mut self, entry: &Entry) {
        if self.paused.take().is_some() {
            entry.course.runs();
            self.ctx.pulse.hasten();
        }
    }
}

/// Waits for a future that there may be.
async fn held<T>(future: &mut Option<Pin<Box<dyn Future<Output = T> + Send + '_>>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}
