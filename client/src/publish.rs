//! Publishes messages to the fleet until the broker confirms them.

use std::time::Duration;

use bytes::Bytes;
use thermae_backplane::bus::{self, Message};
use thermae_schemas::{Body, Cancel, JobId, names};
use tokio::time::Instant;

use crate::Error;
use crate::client::Shared;

/// A message to the exchange for jobs. It is persistent and mandatory.
pub(crate) fn message(shared: &Shared, key: String, job: &JobId, body: Bytes) -> Message {
    let mut message = Message {
        exchange: names::SUBMIT.to_owned(),
        key,
        body,
        message_id: Some(job.to_string()),
        correlation_id: Some(job.to_string()),
        reply_to: Some(names::reply_key(&shared.tenant, &shared.options.client)),
        mandatory: true,
        persistent: true,
        ..Message::default()
    };
    message.sign(shared.bus.as_ref(), &shared.tenant);
    message
}

/// Asks the fleet to stop a job.
pub(crate) async fn cancel(shared: &Shared, job: &JobId) -> Result<(), Error> {
    let body = Cancel::new(job.clone()).to_json()?.into();
    confirmed(shared, message(shared, names::cancel_key(&shared.tenant), job, body)).await
}

/// Publishes a message, and waits until the broker confirms it.
pub(crate) async fn once(shared: &Shared, message: Message) -> Result<(), bus::Error> {
    shared.bus.publish(message).await?.wait().await
}

/// Publishes a message until the broker confirms it; an outage only delays this. Once a copy of the message may have
/// arrived, every repeat is marked (`x-resend`).
pub(crate) async fn confirmed(shared: &Shared, mut message: Message) -> Result<(), Error> {
    let mut pause = shared.options.retry_min;
    // Whether the fleet may already have the job. Then the caller must not be told that nothing was submitted.
    let mut in_doubt = message.headers.flag(names::H_RESEND);
    let mut refused: Option<Instant> = None;
    loop {
        let sent = shared.bus.publish(message.clone()).await;
        let was_sent = sent.is_ok();
        let error = match sent {
            Ok(confirm) => match confirm.wait().await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            },
            Err(error) => error,
        };
        match error {
            // No scheduler has ever run on this broker if the exchange, or a queue behind it, is missing.
            bus::Error::Unroutable { .. } | bus::Error::Topology(_) => return Err(Error::NoScheduler),
            // A broker also refuses messages for a moment after a restart, until its queues are back. And a refused
            // message may still be in a queue.
            bus::Error::Refused { .. } => {
                let since = *refused.get_or_insert_with(Instant::now);
                if !in_doubt && since.elapsed() >= shared.options.full_after {
                    return Err(Error::QueueFull);
                }
                message.headers.set_flag(names::H_RESEND, true);
            }
            error if !error.is_transient() => return Err(error.into()),
            error => {
                if was_sent && matches!(error, bus::Error::Disconnected(_)) {
                    in_doubt = true;
                    message.headers.set_flag(names::H_RESEND, true);
                }
                tracing::warn!(%error, retry.in_ms = pause.as_millis() as u64, "publishing failed; trying again");
            }
        }
        wait(shared, &mut pause).await?;
    }
}

/// Pauses before a repeat. The pause doubles each time, up to `retry_max`.
pub(crate) async fn wait(shared: &Shared, pause: &mut Duration) -> Result<(), Error> {
    tokio::select! {
        () = tokio::time::sleep(*pause) => {}
        () = shared.stop.cancelled() => return Err(Error::Closed),
    }
    *pause = (*pause * 2).min(shared.options.retry_max);
    Ok(())
}
