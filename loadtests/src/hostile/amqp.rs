//! AMQP as the hostile tenant uses it: everything that its user may do, without regard for anyone.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, PublisherConfirm};
use serde::Deserialize;
use thermae_schemas::names;

/// How often each means was used. Clones count together.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally(Arc<Mutex<BTreeMap<&'static str, u64>>>);

impl Tally {
    pub(super) fn count(&self, means: &'static str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(means).or_default() += 1;
    }

    pub(super) fn all(&self) -> BTreeMap<&'static str, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The fields of a tool call that an answer needs.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Call {
    pub(super) call: String,
    pub(super) reply_to: String,
}

/// The hostile tenant's identity and tally.
#[derive(Debug, Clone)]
pub(super) struct Enemy {
    pub(super) url: String,
    /// Name of the tenant, and of its user.
    pub(super) tenant: String,
    pub(super) tally: Tally,
    /// Groups of means, and kinds of jobs, that this tenant leaves out.
    pub(super) without: Vec<String>,
    /// A call from one of this tenant's own jobs. It names the worker that garbage is sent to; `None` if no call came
    /// in time.
    pub(super) first_call: Option<Call>,
}

impl Enemy {
    /// Whether this tenant leaves out this group of means or this kind of jobs.
    pub(super) fn lacks(&self, means: &str) -> bool {
        self.without.iter().any(|left_out| left_out == means)
    }

    pub(super) async fn connect(&self) -> Result<Connection> {
        Connection::connect(&self.url, ConnectionProperties::default()).await.context("connect to RabbitMQ")
    }

    /// A new connection, and a channel on it with publisher confirms.
    pub(super) async fn channel(&self) -> Result<(Connection, Channel)> {
        let connection = self.connect().await?;
        let channel = connection.create_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        Ok((connection, channel))
    }

    /// Declares and binds a reply queue for this client name. Gives the queue's name.
    pub(super) async fn queue(&self, channel: &Channel, client: &str) -> Result<String> {
        let (queue, key) = (format!("replies.{}.{client}", self.tenant), self.reply_key(client));
        let durable = QueueDeclareOptions { durable: true, ..Default::default() };
        channel.queue_declare(queue.as_str().into(), durable, FieldTable::default()).await?;
        let (exchange, bind) = (names::REPLIES.into(), QueueBindOptions::default());
        channel.queue_bind(queue.as_str().into(), exchange, key.as_str().into(), bind, FieldTable::default()).await?;
        Ok(queue)
    }

    pub(super) fn reply_key(&self, client: &str) -> String {
        format!("{}.{client}", self.tenant)
    }

    /// Publishes as this tenant. Answers go to the reply queue of the client `reply_to`.
    pub(super) async fn publish(
        &self,
        channel: &Channel,
        exchange: &str,
        key: &str,
        body: &[u8],
        reply_to: &str,
    ) -> Result<PublisherConfirm> {
        let properties = BasicProperties::default()
            .with_user_id(self.tenant.as_str().into())
            .with_delivery_mode(2)
            .with_reply_to(self.reply_key(reply_to).as_str().into());
        let options = BasicPublishOptions::default();
        Ok(channel.basic_publish(exchange.into(), key.into(), options, body, properties).await?)
    }
}
