//! A bare connection to RabbitMQ: the attacker's, and the witness's who sees what the broker did.

use anyhow::{Context, Result, ensure};
use futures::StreamExt;
use lapin::options::{
    BasicConsumeOptions, BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions,
    QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, ExchangeKind};
use serde_json::{Value, json};

/// What RabbitMQ answers to what it refuses.
const REFUSALS: [&str; 6] =
    ["ACCESS_REFUSED", "PRECONDITION_FAILED", "NOT_ALLOWED", "NOT_FOUND", "RESOURCE_LOCKED", "COMMAND_INVALID"];

/// Somebody who speaks AMQP.
pub struct Attacker {
    /// The connection.
    pub connection: Connection,
    /// The user's name.
    pub user: String,
}

/// A text in a table.
pub fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.as_bytes().into())
}

/// A table of texts.
pub fn table(pairs: &[(&str, &str)]) -> FieldTable {
    let mut table = FieldTable::default();
    for (key, value) in pairs {
        table.insert((*key).into(), text(value));
    }
    table
}

/// A name that nobody else has.
pub fn unique(what: &str) -> String {
    format!("{what}-{}", &uuid::Uuid::new_v4().simple().to_string()[..12])
}

/// `worked`, or the name of the refusal.
pub fn answer<T>(result: lapin::Result<T>) -> Value {
    match result {
        Ok(_) => json!("worked"),
        Err(error) => {
            let error = error.to_string();
            json!(REFUSALS.iter().find(|name| error.contains(**name)).map_or(error.clone(), |name| (*name).to_owned()))
        }
    }
}

impl Attacker {
    /// Connects as the URL's user.
    ///
    /// # Errors
    /// RabbitMQ refuses.
    pub async fn connect(url: &str) -> Result<Self> {
        let user = url.split("//").nth(1).and_then(|rest| rest.split(':').next()).context("no user in the URL")?;
        let connection =
            Connection::connect(url, ConnectionProperties::default()).await.context("connect to RabbitMQ")?;
        Ok(Self { connection, user: user.to_owned() })
    }

    /// A new channel with confirms: a refusal ends the one that it happened on.
    ///
    /// # Errors
    /// RabbitMQ refuses.
    pub async fn channel(&self) -> Result<Channel> {
        let channel = self.connection.create_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        Ok(channel)
    }

    /// What this user may truly say of itself; without the guards it speaks for the victim.
    pub fn signed(&self, tenant: &str) -> BasicProperties {
        let properties = BasicProperties::default().with_delivery_mode(2).with_user_id(self.user.as_str().into());
        if self.user == tenant { properties } else { properties.with_headers(table(&[("x-tenant", tenant)])) }
    }

    /// Publishes on a channel of its own.
    ///
    /// # Errors
    /// There is no channel to be had.
    pub async fn publish(&self, exchange: &str, key: &str, body: &[u8], properties: BasicProperties) -> Result<Value> {
        let channel = self.channel().await?;
        let (exchange, key): (ShortString, ShortString) = (exchange.into(), key.into());
        let sent = channel.basic_publish(exchange, key, BasicPublishOptions::default(), body, properties).await;
        let confirmed = match sent {
            Ok(confirm) => confirm.await,
            Err(error) => Err(error),
        };
        let answer = answer(confirmed);
        let _ = channel.close(200, "done".into()).await;
        Ok(answer)
    }

    /// Declares an exchange of the attacker's own.
    ///
    /// # Errors
    /// RabbitMQ refuses.
    pub async fn exchange(&self, kind: ExchangeKind, arguments: FieldTable) -> Result<String> {
        let name = format!("replies.acme.{}", unique("x"));
        let options = ExchangeDeclareOptions { auto_delete: true, ..ExchangeDeclareOptions::default() };
        self.channel().await?.exchange_declare(name.as_str().into(), kind, options, arguments).await?;
        Ok(name)
    }

    /// Declares a queue that only this connection uses, bound to an exchange.
    ///
    /// # Errors
    /// RabbitMQ refuses.
    pub async fn tap(&self, exchange: &str, key: &str) -> Result<Tap> {
        let (channel, queue) = (self.channel().await?, format!("replies.acme.{}", unique("tap")));
        let options = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
        channel.queue_declare(queue.as_str().into(), options, FieldTable::default()).await?;
        let (name, from, key) = (queue.as_str().into(), exchange.into(), key.into());
        channel.queue_bind(name, from, key, QueueBindOptions::default(), FieldTable::default()).await?;
        Ok(Tap { channel, queue })
    }

    /// Opens a consumer and takes one message, if one comes soon.
    ///
    /// # Errors
    /// There is no channel to be had.
    pub async fn consume(&self, queue: &str) -> Result<Value> {
        let options = BasicConsumeOptions::default();
        let consumer =
            self.channel().await?.basic_consume(queue.into(), "".into(), options, FieldTable::default()).await;
        Ok(match consumer {
            Err(error) => answer::<()>(Err(error)),
            Ok(mut consumer) => {
                let first = tokio::time::timeout(std::time::Duration::from_millis(200), consumer.next()).await;
                answer(first.ok().flatten().transpose())
            }
        })
    }
}

/// A queue that sees what an exchange gets.
pub struct Tap {
    channel: Channel,
    /// Its name.
    pub queue: String,
}

impl Tap {
    /// What has come since, as key and body.
    ///
    /// # Errors
    /// RabbitMQ is gone.
    pub async fn take(&self) -> Result<Vec<(String, String)>> {
        let mut all = Vec::new();
        let options = BasicGetOptions { no_ack: true };
        while let Some(got) = self.channel.basic_get(self.queue.as_str().into(), options).await? {
            all.push((got.routing_key.to_string(), String::from_utf8_lossy(&got.data).into_owned()));
        }
        Ok(all)
    }

    /// How many of these have come under a key that begins so, with these words in them.
    ///
    /// # Errors
    /// RabbitMQ is gone.
    pub async fn count(&self, key: &str, words: &str) -> Result<usize> {
        Ok(self.take().await?.iter().filter(|(k, body)| k.starts_with(key) && body.contains(words)).count())
    }
}

/// Makes sure of what the attack needs: not what is attacked.
///
/// # Errors
/// It did not work.
pub fn must(answer: &Value) -> Result<()> {
    ensure!(answer == "worked", "what the attack needs did not work: {answer}");
    Ok(())
}

impl Attacker {
    /// Whether a queue of that name is there.
    ///
    /// # Errors
    /// There is no channel to be had.
    pub async fn exists(&self, queue: &str) -> Result<bool> {
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        Ok(self.channel().await?.queue_declare(queue.into(), options, FieldTable::default()).await.is_ok())
    }
}
