//! The reply queue's consumer: hands each event to the job it belongs to.

use std::sync::Arc;

use thermae_backplane::bus::{self, AckBatch, Consumer, Delivery, QueueSpec};
use thermae_schemas::{Event, EventBody, names};

use crate::client::Shared;
use crate::{Error, publish, tools};

/// Declares the reply queue and subscribes to it.
pub(crate) async fn subscribe(shared: &Shared) -> Result<Box<dyn Consumer>, bus::Error> {
    let spec = QueueSpec::replies(&shared.tenant, &shared.options.client);
    shared.bus.declare_queue(&spec).await?;
    shared.bus.consume(&spec.name, shared.options.prefetch).await
}

/// Runs until the client stops or the bus is closed.
pub(crate) async fn run(shared: Arc<Shared>, mut consumer: Box<dyn Consumer>) {
    let mut done = AckBatch::new(shared.options.prefetch);
    loop {
        tokio::select! {
            biased;
            () = shared.stop.cancelled() => break shared.jobs.close(Error::Closed),
            delivery = consumer.next() => match delivery {
                Some(delivery) => acknowledged(deliver(&shared, delivery, &mut done).await),
                None => match again(&shared).await {
                    Ok(new) => {
                        consumer = new;
                        shared.tasks.spawn(ask_again(shared.clone()));
                    }
                    Err(error) => break shared.jobs.close(error),
                },
            },
            () = done.due() => acknowledged(done.send().await),
        }
    }
    acknowledged(done.send().await);
    shared.questions.close();
}

/// Subscribes anew after the queue was deleted under us (a broker without its data, say).
async fn again(shared: &Shared) -> Result<Box<dyn Consumer>, Error> {
    let mut pause = shared.options.retry_min;
    loop {
        let error = match subscribe(shared).await {
            Ok(consumer) => return Ok(consumer),
            Err(error @ (bus::Error::Closed | bus::Error::Denied(_))) => return Err(error.into()),
            Err(error) => error,
        };
        tracing::warn!(%error, retry.in_ms = pause.as_millis() as u64, "reply queue is gone, declaring it anew");
        publish::wait(shared, &mut pause).await?;
    }
}

/// What came to the queue that is gone is lost with it. So every job under way is submitted again: of one that ended the outcome is
/// sent again, one that runs is left alone, and one that waits is known already.
async fn ask_again(shared: Arc<Shared>) {
    for mut message in shared.jobs.messages() {
        message.headers.set_flag(names::H_RESEND, true);
        let job = message.message_id.clone().unwrap_or_default();
        match publish::confirmed(&shared, message).await {
            Ok(()) => tracing::info!(job.id = job, "the reply queue was lost: asked for the job's outcome again"),
            Err(Error::Closed) => return,
            Err(error) => tracing::warn!(%error, job.id = job, "the job's outcome can't be asked for again"),
        }
    }
}

/// Hands one event on, then acknowledges it: nothing waits for the acknowledgement.
async fn deliver(shared: &Arc<Shared>, delivery: Delivery, done: &mut AckBatch) -> Result<(), bus::Error> {
    let shows_twice = match serde_json::from_slice::<Event>(&delivery.message.body) {
        Ok(event) => hand_on(shared, event, &delivery),
        Err(error) => {
            tracing::warn!(%error, "an event can't be read and is dropped");
            false
        }
    };
    done.push(delivery).await?;
    if shows_twice { done.send().await } else { Ok(()) }
}

fn acknowledged(sent: Result<(), bus::Error>) {
    if let Err(error) = sent {
        tracing::debug!(%error, "events were not acknowledged and will come again");
    }
}

/// Whether the event would show twice if it came again: calls, outcomes and answers are known by then.
fn hand_on(shared: &Arc<Shared>, event: Event, delivery: &Delivery) -> bool {
    let job = event.job.clone();
    let streamed = !matches!(
        event.body,
        EventBody::Result(_) | EventBody::ToolCall(_) | EventBody::Sessions { .. } | EventBody::Unknown
    );
    let known = match event.body {
        EventBody::Result(_) => shared.jobs.end(event),
        EventBody::ToolCall(call) => tools::answer(shared, event.job, call, &delivery.message.headers),
        EventBody::Sessions { sessions } => shared.questions.answered(&event.job, sessions),
        EventBody::Unknown => true,
        _ => shared.jobs.stream(event),
    };
    if !known {
        tracing::debug!(job.id = %job, "event of a job that nobody waits for is dropped");
    }
    streamed
}
