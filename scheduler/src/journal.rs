//! Sets of names that must outlive the registry, each in a queue of its own that is as durable as the jobs.
//!
//! AMQP can't list queues, and a queue that nobody knows of would be a backlog that nobody sees. So whoever makes one writes its name
//! down first: lanes on `submit.lanes`, workers on `work.workers`. So is the registry's first epoch, on `work.epochs`. A scheduler that begins to lead reads all of it and puts one
//! snapshot in its place. It looks again now and then: others write, and another scheduler, on its way out, may have held a part.

use std::time::Duration;

use thermae_backplane::bus::{Delivery, Message, QueueSpec};
use thermae_schemas::names;

use crate::answer::acknowledge;
use crate::context::Context;
use crate::error::Trouble;

/// How long the next message of a queue that is not empty may take.
const NEXT_TIMEOUT: Duration = Duration::from_secs(2);
/// How often a journal is read again.
pub(crate) const AGAIN: Duration = Duration::from_secs(60);

/// Header: the message is all that the journal held when it was written, and not one name more.
const H_SNAPSHOT: &str = "x-snapshot";

/// One of the journals.
pub(crate) struct Journal {
    spec: QueueSpec,
    key: &'static str,
}

impl Journal {
    /// Which submit queues exist.
    pub(crate) fn lanes() -> Self {
        Self { spec: QueueSpec::lanes(), key: names::LANES_KEY }
    }

    /// Which workers have queues of their own.
    pub(crate) fn workers() -> Self {
        Self { spec: QueueSpec::workers(), key: names::WORKERS_KEY }
    }

    /// Which tenants have a queue for all that no submit queue takes.
    pub(crate) fn rests() -> Self {
        Self { spec: QueueSpec::rests(), key: names::RESTS_KEY }
    }

    /// Which epoch of the registry was the first.
    pub(crate) fn epochs() -> Self {
        Self { spec: QueueSpec::epochs(), key: names::EPOCHS_KEY }
    }

    /// Writes a name down.
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

    /// Hands every name that is written down to `take`, with whether it was written since the last snapshot; then writes `all` in
    /// its place. Repeated through outages.
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
        // Even a single message is replaced: coming back again and again would count as deliveries.
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
