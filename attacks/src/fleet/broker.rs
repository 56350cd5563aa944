//! A plain AMQP connection to RabbitMQ: for the attacker, and for a witness that sees what the broker did.

use anyhow::{Context, Result, ensure};
use futures::StreamExt;
use lapin::options::{
    BasicConsumeOptions, BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions,
    QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, ExchangeKind};
use serde_json::{Value, json};

/// Codes of RabbitMQ's refusals, as they appear in its error messages.
const REFUSALS: [&str; 6] =
    ["ACCESS_REFUSED", "PRECONDITION_FAILED", "NOT_ALLOWED", "NOT_FOUND", "RESOURCE_LOCKED", "COMMAND_INVALID"];

/// A connection of any user. With the user of the fleet it is a witness, or an attacker without guards.
pub struct Attacker {
    /// The connection.
    pub connection: Connection,
    /// The user's name.
    pub user: String,
}

/// A string as a value of an AMQP table.
pub fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.as_bytes().into())
}

/// An AMQP table of strings.
pub fn table(pairs: &[(&str, &str)]) -> FieldTable {
    let mut table = FieldTable::default();
    for (key, value) in pairs {
        table.insert((*key).into(), text(value));
    }
    table
}

/// A name that nobody else uses.
pub fn unique(what: &str) -> String {
    format!("{what}-{}", &uuid::Uuid::new_v4().simple().to_string()[..12])
}

/// `worked`, or the code of RabbitMQ's refusal, or else the error's message.
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

    /// Opens a channel with publisher confirms. A refusal closes the channel that it happened on, so most attempts need
    /// a new one.
    ///
    /// # Errors
    /// RabbitMQ refuses.
    pub async fn channel(&self) -> Result<Channel> {
        let channel = self.connection.create_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        Ok(channel)
    }

    /// Properties that name this connection's user. If that is not the tenant `tenant` (the guards are off), a header
    /// says that the message is the tenant's.
    pub fn signed(&self, tenant: &str) -> BasicProperties {
        let properties = BasicProperties::default().with_delivery_mode(2).with_user_id(self.user.as_str().into());
        if self.user == tenant { properties } else { properties.with_headers(table(&[("x-tenant", tenant)])) }
    }

    /// Publishes a message on a new channel. Gives `worked` or the refusal.
    ///
    /// # Errors
    /// No channel can be opened.
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

    /// Declares an exchange of the attacker's own. Gives its name.
    ///
    /// # Errors
    /// RabbitMQ refuses.
    pub async fn exchange(&self, kind: ExchangeKind, arguments: FieldTable) -> Result<String> {
        let name = format!("replies.acme.{}", unique("x"));
        let options = ExchangeDeclareOptions { auto_delete: true, ..ExchangeDeclareOptions::default() };
        self.channel().await?.exchange_declare(name.as_str().into(), kind, options, arguments).await?;
        Ok(name)
    }

    /// Declares an exclusive queue and binds it to an exchange.
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

    /// Starts a consumer and waits 200 ms for a message. Gives `worked` or the refusal.
    ///
    /// # Errors
    /// No channel can be opened.
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

/// A queue that gets a copy of what an exchange routes under the bound key.
pub struct Tap {
    channel: Channel,
    /// Name of the queue.
    pub queue: String,
}

impl Tap {
    /// Takes all messages that have come since the last call, as routing key and body.
    ///
    /// # Errors
    /// The connection to RabbitMQ is lost.
    pub async fn take(&self) -> Result<Vec<(String, String)>> {
        let mut all = Vec::new();
        let options = BasicGetOptions { no_ack: true };
        while let Some(got) = self.channel.basic_get(self.queue.as_str().into(), options).await? {
            all.push((got.routing_key.to_string(), String::from_utf8_lossy(&got.data).into_owned()));
        }
        Ok(all)
    }

    /// Takes all messages that have come, and counts those whose key begins with `key` and whose body contains `words`.
    ///
    /// # Errors
    /// The connection to RabbitMQ is lost.
    pub async fn count(&self, key: &str, words: &str) -> Result<usize> {
        Ok(self.take().await?.iter().filter(|(k, body)| k.starts_with(key) && body.contains(words)).count())
    }
}

/// Checks a step that the attack needs, but that is not what it attacks.
///
/// # Errors
/// The step did not work.
pub fn must(answer: &Value) -> Result<()> {
    ensure!(answer == "worked", "what the attack needs did not work: {answer}");
    Ok(())
}

impl Attacker {
    /// Whether a queue with this name exists.
    ///
    /// # Errors
    /// No channel can be opened.
    pub async fn exists(&self, queue: &str) -> Result<bool> {
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        Ok(self.channel().await?.queue_declare(queue.into(), options, FieldTable::default()).await.is_ok())
    }
}
