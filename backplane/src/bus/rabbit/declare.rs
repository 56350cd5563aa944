//! Declares and deletes exchanges and queues. Each call has its own channel, because an error ends the channel.

use std::time::Duration;

use lapin::options::{
    ExchangeBindOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, ExchangeKind as Kind};

use super::convert::{short, text};
use super::errors::{is_not_found, mapped};
use super::link::{Link, Shared};
use super::look;
use crate::bus::{Error, ExchangeKind, ExchangeSpec, QueueKind, QueueSpec};

/// Expiry of the queue that [`write_names`] declares, in case its deletion fails.
const UNUSED: Duration = Duration::from_secs(60);

/// Stands for "no limit". RabbitMQ 4 uses 20 if no limit is given, and 3.10 has no value that means none.
const NO_LIMIT: u32 = 1_000_000_000;

fn close(channel: Channel) {
    // lapin closes a channel when its last handle is dropped. Nothing depends on the broker's answer.
    drop(channel);
}

pub(super) async fn exchange(link: &Link, spec: &ExchangeSpec) -> Result<(), Error> {
    let channel = link.channel().await?;
    let mut arguments = FieldTable::default();
    if let Some(alternate) = &spec.alternate {
        arguments.insert("alternate-exchange".into(), text(alternate));
    }
    let kind = match spec.kind {
        ExchangeKind::Topic => Kind::Topic,
        ExchangeKind::Fanout => Kind::Fanout,
    };
    let options = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
    let name = short(&spec.name)?;
    channel.exchange_declare(name.clone(), kind, options, arguments).await.map_err(|error| mapped(&error))?;
    for (source, key) in &spec.bindings {
        let options = ExchangeBindOptions::default();
        channel
            .exchange_bind(name.clone(), short(source)?, short(key)?, options, FieldTable::default())
            .await
            .map_err(|error| mapped(&error))?;
    }
    close(channel);
    Ok(())
}

fn arguments(spec: &QueueSpec) -> FieldTable {
    let mut to = FieldTable::default();
    match spec.kind {
        QueueKind::Classic => {
            to.insert("x-queue-type".into(), text("classic"));
        }
        QueueKind::Quorum => {
            to.insert("x-queue-type".into(), text("quorum"));
            let limit = spec.delivery_limit.unwrap_or(NO_LIMIT);
            to.insert("x-delivery-limit".into(), AMQPValue::LongLongInt(limit.into()));
        }
    }
    if let Some(exchange) = &spec.dead_letter {
        to.insert("x-dead-letter-exchange".into(), text(exchange));
        if spec.kind == QueueKind::Quorum {
            // A dead letter leaves its queue only after the next queue has confirmed it. RabbitMQ allows this strategy
            // only with `reject-publish`.
            to.insert("x-dead-letter-strategy".into(), text("at-least-once"));
            to.insert("x-overflow".into(), text("reject-publish"));
        }
    }
    if let Some(expires) = spec.expires {
        to.insert("x-expires".into(), AMQPValue::LongLongInt(expires.as_millis() as i64));
    }
    to
}

/// Declares a queue and binds it. A new quorum queue is bound only after [`write_names`]: no message is routed to it
/// before it would survive a crash of the broker.
pub(super) async fn queue(link: &Link, shared: &Shared, spec: &QueueSpec) -> Result<(), Error> {
    let new = spec.kind == QueueKind::Quorum && look::queue(link, shared, &spec.name).await?.is_none();
    let channel = link.channel().await?;
    let name = short(&spec.name)?;
    let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    channel.queue_declare(name.clone(), options, arguments(spec)).await.map_err(|error| mapped(&error))?;
    if new {
        write_names(&channel).await?;
    }
    for (exchange, key) in &spec.bindings {
        let options = QueueBindOptions::default();
        channel
            .queue_bind(name.clone(), short(exchange)?, short(key)?, options, FieldTable::default())
            .await
            .map_err(|error| mapped(&error))?;
    }
    close(channel);
    Ok(())
}

/// Makes RabbitMQ write the quorum queues that were declared before to disk.
///
/// Ra, RabbitMQ's library for quorum queues, keeps their names in a table. It writes the table to its file only after
/// half a second without use (`ra_directory.erl`: `names.dets`, `auto_save`). A crash before that leaves a queue that
/// never gets a leader again: everything that RabbitMQ had confirmed into it is lost, and its consumers lose their
/// connections. The declaration of another quorum queue reads the table, and reading it writes it first.
async fn write_names(channel: &Channel) -> Result<(), Error> {
    let name = short(&format!("settle.{}", uuid::Uuid::new_v4().simple()))?;
    let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), text("quorum"));
    arguments.insert("x-expires".into(), AMQPValue::LongLongInt(UNUSED.as_millis() as i64));
    channel.queue_declare(name.clone(), options, arguments).await.map_err(|error| mapped(&error))?;
    channel.queue_delete(name, QueueDeleteOptions::default()).await.map_err(|error| mapped(&error))?;
    Ok(())
}

pub(super) async fn delete(link: &Link, queue: &str) -> Result<(), Error> {
    let channel = link.channel().await?;
    match channel.queue_delete(short(queue)?, QueueDeleteOptions::default()).await {
        Ok(_) => close(channel),
        Err(error) if is_not_found(&error) => {}
        Err(error) => return Err(mapped(&error)),
    }
    Ok(())
}

pub(super) async fn unbind(link: &Link, spec: &QueueSpec) -> Result<(), Error> {
    for (exchange, key) in &spec.bindings {
        let channel = link.channel().await?;
        let (queue, exchange, key) = (short(&spec.name)?, short(exchange)?, short(key)?);
        match channel.queue_unbind(queue, exchange, key, FieldTable::default()).await {
            Ok(_) => close(channel),
            Err(error) if is_not_found(&error) => {}
            Err(error) => return Err(mapped(&error)),
        }
    }
    Ok(())
}

pub(super) async fn depth(link: &Link, shared: &Shared, queue: &str) -> Result<Option<u64>, Error> {
    Ok(look::queue(link, shared, queue).await?.map(|found| found.message_count().into()))
}

pub(super) async fn consumers(link: &Link, shared: &Shared, queue: &str) -> Result<Option<u64>, Error> {
    Ok(look::queue(link, shared, queue).await?.map(|found| found.consumer_count().into()))
}
