//! The bus over RabbitMQ (3.10 and later), by way of lapin.
//!
//! ```text
//!  Rabbit ── Shared ── watch ─▶ Link (one connection) ── Publishers: a channel per confirm, one for the rest
//!                 └─ keeper task: lost? connect anew     Subscription: a channel per consumer
//! ```
//!
//! When the connection is lost, publishes in flight fail with [`Error::Disconnected`], new ones fail at once, consumers
//! wait and subscribe anew, and acknowledgements of what came before fail, because the broker delivers it again.

mod consume;
mod convert;
mod declare;
mod errors;
mod link;
mod options;
mod publish;

use std::sync::Arc;

use async_trait::async_trait;

use super::{Bus, Confirm, Consumer, Error, ExchangeSpec, Message, QueueSpec};
use link::Shared;
pub use options::RabbitOptions;

/// A connection to RabbitMQ that is made anew whenever it is lost.
pub struct Rabbit {
    shared: Arc<Shared>,
}

impl Rabbit {
    /// Connects; while no broker answers, waits (and says so in the log) up to the deadline.
    ///
    /// # Errors
    /// [`Error::Denied`] at once for wrong credentials, a forbidden or missing vhost, or a URL that is none;
    /// [`Error::Disconnected`] when the deadline has passed.
    pub async fn connect(options: RabbitOptions) -> Result<Self, Error> {
        let shared = Arc::new(Shared::new());
        let link = link::establish(&options, &shared, true).await?;
        shared.set(Some(link.clone()));
        shared.tasks.spawn(link::keep(options, shared.clone(), link));
        Ok(Self { shared })
    }
}

#[async_trait]
impl Bus for Rabbit {
    async fn declare_exchange(&self, spec: &ExchangeSpec) -> Result<(), Error> {
        declare::exchange(&self.shared.link()?.connection, spec).await
    }

    async fn declare_queue(&self, spec: &QueueSpec) -> Result<(), Error> {
        declare::queue(&self.shared.link()?.connection, spec).await
    }

    async fn delete_queue(&self, queue: &str) -> Result<(), Error> {
        declare::delete(&self.shared.link()?.connection, queue).await
    }

    async fn queue_depth(&self, queue: &str) -> Result<Option<u64>, Error> {
        declare::depth(&self.shared.link()?.connection, queue).await
    }

    async fn publish(&self, message: Message) -> Result<Confirm, Error> {
        let link = self.shared.link()?;
        link.publishers.publish(&link.connection, message).await
    }

    async fn flush(&self) -> Result<(), Error> {
        self.shared.link()?.publishers.flush().await
    }

    async fn consume(&self, queue: &str, prefetch: u16) -> Result<Box<dyn Consumer>, Error> {
        let link = self.shared.link()?;
        Ok(Box::new(consume::RabbitConsumer::open(self.shared.clone(), link, queue, prefetch).await?))
    }

    fn is_connected(&self) -> bool {
        self.shared.link().is_ok()
    }

    async fn close(&self) {
        let link = self.shared.link();
        self.shared.closed.cancel();
        if let Ok(link) = link
            && let Err(error) = link.connection.close(200, "closed by the client".into()).await
        {
            tracing::debug!(%error, "closing the connection to RabbitMQ");
        }
        self.shared.set(None);
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }
}

impl Drop for Rabbit {
    fn drop(&mut self) {
        self.shared.closed.cancel();
        self.shared.set(None);
    }
}
