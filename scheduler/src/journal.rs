//! Journals: sets of names that must outlive the registry. Each is in a queue of its own, which is as durable as jobs
//! are.
//!
//! AMQP can't list queues, and a queue that no scheduler knows is a backlog that nobody sees. So the name of a queue is
//! written down before the queue is made: lanes in `submit.lanes`, tenants with their own queue in `submit.rests`,
//! workers in `work.workers`. The registry's first epoch is in `work.epochs`. A scheduler that begins to lead reads
//! each journal and replaces it by one snapshot. It reads again at intervals, because others also write, and because a
//! scheduler that was just ending may have held a part of the journal.

use std::time::Duration;

use thermae_backplane::bus::{Delivery, Message, QueueSpec};
use thermae_schemas::names;

use crate::answer::acknowledge;
use crate::context::Context;
use crate::error::Trouble;

/// How long to wait for the next message of a journal that is not empty.
const NEXT_TIMEOUT: Duration = Duration::from_secs(2);
/// How often a journal is read again.
pub(crate) const AGAIN: Duration = Duration::from_secs(60);

/// Header: the message is a snapshot of the whole journal, and not a new name.
const H_SNAPSHOT: &str = "x-snapshot";

/// One of the journals.
pub(crate) struct Journal {
    spec: QueueSpec,
    key: &'static str,
}

impl Journal {
    /// The submit queues that exist.
    pub(crate) fn lanes() -> Self {
        Self { spec: QueueSpec::lanes(), key: names::LANES_KEY }
    }

    /// The workers that have queues of their own.
    pub(crate) fn workers() -> Self {
        Self { spec: QueueSpec::workers(), key: names::WORKERS_KEY }
    }

    /// The tenants that have a queue of their own for everything that no submit queue takes.
    pub(crate) fn rests() -> Self {
        Self { spec: QueueSpec::rests(), key: names::RESTS_KEY }
    }

    /// The registry's first epoch.
    pub(crate) fn epochs() -> Self {
        Self { spec: QueueSpec::epochs(), key: names::EPOCHS_KEY }
    }

    /// Adds a name.
    pub(crate) async fn remember(&self, ctx: &Context, name: String) -> Result<(), Trouble> {
        ctx.publish(self.message(&[name])).await
    }

    fn message(&self, names: &[String]) -> Message {
        Message {
            exchange: names::WORK.to_owned(),
            key: self.key.to_owned(),
            body: serde_json::to_vec(names).unwrap_or_default().into(),
            mandatory: true,
            persistent: true,
            ..Message::default()
        }
    }

    /// Passes each name to `take`, with whether it was written after the last snapshot. Then replaces the journal by a
    /// snapshot of `all`. Repeats this through outages.
    pub(crate) async fn read(
        &self,
        ctx: &Context,
        take: impl Fn(&str, bool),
        all: impl Fn() -> Vec<String>,
    ) -> Result<(), Trouble> {
        ctx.persist(|| self.read_once(ctx, &take, &all)).await
    }

    async fn read_once(
        &self,
        ctx: &Context,
        take: &impl Fn(&str, bool),
        all: &impl Fn() -> Vec<String>,
    ) -> Result<(), Trouble> {
        ctx.bus.declare_queue(&self.spec).await?;
        let depth = ctx.bus.queue_depth(&self.spec.name).await?.unwrap_or(0);
        if depth == 0 {
            return Ok(());
        }
        let prefetch = u16::try_from(depth).unwrap_or(u16::MAX);
        let mut consumer = ctx.bus.consume(&self.spec.name, prefetch).await?;
        let mut read: Vec<Delivery> = Vec::new();
        while read.len() < usize::from(prefetch) {
            let Ok(Some(delivery)) = tokio::time::timeout(NEXT_TIMEOUT, consumer.next()).await else { break };
            match serde_json::from_slice::<Vec<String>>(&delivery.message.body) {
                Ok(names) => {
                    let fresh = !delivery.message.headers.flag(H_SNAPSHOT);
                    names.iter().for_each(|name| take(name, fresh));
                }
                Err(error) => tracing::warn!(%error, queue = self.spec.name, "an entry of a journal can't be read"),
            }
            read.push(delivery);
        }
        // Even a single message is replaced. Otherwise each read would add to its count of deliveries.
        if !read.is_empty() {
            let mut snapshot = self.message(&all());
            snapshot.headers.set_flag(H_SNAPSHOT, true);
            ctx.publish(snapshot).await?;
            for delivery in &read {
                acknowledge(delivery).await;
            }
        }
        Ok(())
    }
}
