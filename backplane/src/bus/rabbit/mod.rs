//! The bus over RabbitMQ (3.10 and later), with the client library lapin.
//!
//! ```text
//!  Rabbit ── Shared ── watch ─▶ Link ─┬─ a connection ── Publishers: a channel per confirm, one for the rest
//!                 │                   ├─ connections ─── Subscription: a channel per consumer
//!                 │                   └─ a connection ── Looks: questions about queues
//!                 └─ keeper task: lost? connect anew
//! ```
//!
//! If one connection of a link is lost, the whole link is given up. Publishes in flight fail with
//! [`Error::Disconnected`], and new ones fail at once until there is a new link. Consumers wait and subscribe again.
//! Acknowledgements of older deliveries fail, because the broker delivers those again.

mod channel;
mod consume;
mod convert;
mod declare;
mod errors;
mod frames;
mod link;
mod look;
mod options;
mod publish;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;

use super::{Bus, Confirm, Consumer, Error, ExchangeSpec, Message, QueueSpec};
use link::Shared;
pub use options::RabbitOptions;

/// How long each step of closing may take. RabbitMQ notices anyway that a connection is gone.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);

/// A link to RabbitMQ. When it is lost, a new one is made.
pub struct Rabbit {
    shared: Arc<Shared>,
    user: String,
}

impl Rabbit {
    /// Connects. While no broker answers, it logs this and waits, up to the deadline.
    ///
    /// # Errors
    /// [`Error::Denied`] at once if the credentials are wrong, the vhost is forbidden or missing, or the URL is
    /// invalid. [`Error::Disconnected`] when the deadline has passed.
    pub fn connect(options: RabbitOptions) -> BoxFuture<'static, Result<Self, Error>> {
        // Boxed here, so that this crate compiles the AMQP client, and not each crate that connects.
        Box::pin(async move {
            let shared = Arc::new(Shared::new());
            let user = options.user()?;
            let link = link::establish(&options, &shared, true).await?;
            shared.set(Some(link.clone()));
            shared.tasks.spawn(link::keep(options, shared.clone(), link));
            Ok(Self { shared, user })
        })
    }
}

#[async_trait]
impl Bus for Rabbit {
    async fn declare_exchange(&self, spec: &ExchangeSpec) -> Result<(), Error> {
        let link = self.shared.link()?;
        link.answer(declare::exchange(&link, spec)).await
    }

    async fn declare_queue(&self, spec: &QueueSpec) -> Result<(), Error> {
        let link = self.shared.link()?;
        link.answer(declare::queue(&link, &self.shared, spec)).await
    }

    async fn delete_queue(&self, queue: &str) -> Result<(), Error> {
        let link = self.shared.link()?;
        link.answer(declare::delete(&link, queue)).await
    }

    async fn unbind_queue(&self, spec: &QueueSpec) -> Result<(), Error> {
        let link = self.shared.link()?;
        link.answer(declare::unbind(&link, spec)).await
    }

    async fn queue_consumers(&self, queue: &str) -> Result<Option<u64>, Error> {
        let link = self.shared.link()?;
        link.answer(declare::consumers(&link, &self.shared, queue)).await
    }

    async fn queue_depth(&self, queue: &str) -> Result<Option<u64>, Error> {
        let link = self.shared.link()?;
        link.answer(declare::depth(&link, &self.shared, queue)).await
    }

    async fn publish(&self, message: Message) -> Result<Confirm, Error> {
        let link = self.shared.link()?;
        link.answer(link.publishers.publish(&link.publishing, message)).await
    }

    async fn flush(&self) -> Result<(), Error> {
        let link = self.shared.link()?;
        link.answer(link.publishers.flush()).await
    }

    async fn consume(&self, queue: &str, prefetch: u16) -> Result<Box<dyn Consumer>, Error> {
        let link = self.shared.link()?;
        Ok(Box::new(consume::RabbitConsumer::open(self.shared.clone(), link, queue, prefetch).await?))
    }

    fn user(&self) -> &str {
        &self.user
    }

    fn is_connected(&self) -> bool {
        self.shared.link().is_ok()
    }

    async fn close(&self) {
        let link = self.shared.link();
        self.shared.closed.cancel();
        let within = |step: &'static str| move |_| tracing::warn!(step, "gave up closing a connection to RabbitMQ");
        if let Ok(link) = link {
            tokio::time::timeout(CLOSE_WITHIN, link.close()).await.unwrap_or_else(within("closing it"));
        }
        self.shared.set(None);
        self.shared.tasks.close();
        tokio::time::timeout(CLOSE_WITHIN, self.shared.tasks.wait()).await.unwrap_or_else(within("ending its tasks"));
    }
}

impl Drop for Rabbit {
    fn drop(&mut self) {
        self.shared.closed.cancel();
        self.shared.set(None);
    }
}
