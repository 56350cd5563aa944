//! Reads the reply queue, and hands each event to the job, request or question that it belongs to.

use std::sync::Arc;
use std::time::Duration;

use thermae_backplane::bus::{self, AckBatch, Consumer, Delivery, Message, QueueSpec};
use thermae_schemas::{Body, Event, EventBody, names};

use crate::client::Shared;
use crate::questions::Answer;
use crate::{Error, decisions, publish, runs, tools};

/// Longest time for which answers are kept back after one event.
const LONGEST_HOLD: Duration = Duration::from_secs(60);

/// Declares the reply queue and subscribes to it.
pub(crate) async fn subscribe(shared: &Shared) -> Result<Box<dyn Consumer>, bus::Error> {
    let spec = QueueSpec::replies(&shared.tenant, &shared.options.client);
    shared.bus.declare_queue(&spec).await?;
    shared.bus.consume(&spec.name, shared.options.prefetch).await
}

/// Runs until the client stops or the bus is closed.
pub(crate) async fn run(shared: Arc<Shared>, mut consumer: Box<dyn Consumer>) {
    let mut done = AckBatch::new(shared.options.prefetch);
    let end = loop {
        tokio::select! {
            biased;
            () = shared.stop.cancelled() => break Error::Closed,
            delivery = consumer.next() => match delivery {
                Some(delivery) => acknowledged(deliver(&shared, delivery, &mut done).await),
                None => match again(&shared).await {
                    Ok(new) => {
                        consumer = new;
                        shared.tasks.spawn(ask_again(shared.clone()));
                    }
                    Err(error) => break error,
                },
            },
            () = done.due() => acknowledged(done.send().await),
        }
    };
    shared.requests.close(&end);
    shared.jobs.close(end);
    acknowledged(done.send().await);
    shared.questions.close();
}

/// Subscribes again after the reply queue was deleted, for example because the broker lost its data.
async fn again(shared: &Shared) -> Result<Box<dyn Consumer>, Error> {
    let mut pause = shared.options.retry_min;
    loop {
        let error = match subscribe(shared).await {
            Ok(consumer) => return Ok(consumer),
            Err(error @ (bus::Error::Closed | bus::Error::Denied(_))) => return Err(error.into()),
            Err(error) => error,
        };
        tracing::warn!(%error, retry.in_ms = pause.as_millis() as u64, "the reply queue is gone; declaring it again");
        publish::wait(shared, &mut pause).await?;
    }
}

/// Sends every request, submit and take-over under way again, because the events in the deleted queue are lost. If a
/// job has ended, its outcome is sent again. If it waits or runs, this changes nothing.
async fn ask_again(shared: Arc<Shared>) {
    shared.requests.ask_again();
    for mut message in shared.jobs.messages() {
        message.headers.set_flag(names::H_RESEND, true);
        let job = message.message_id.clone().unwrap_or_default();
        match publish::confirmed(&shared, message).await {
            Ok(()) => tracing::info!(job.id = job, "the reply queue was lost: asked for the job's outcome again"),
            Err(Error::Closed) => return,
            Err(error) => tracing::warn!(%error, job.id = job, "can't ask for the job's outcome again"),
        }
    }
}

/// Hands one event on. Its acknowledgement is sent later together with others, or at once if the client would notice a
/// repeat of the event.
async fn deliver(shared: &Arc<Shared>, delivery: Delivery, done: &mut AckBatch) -> Result<(), bus::Error> {
    let shows_twice = match Event::parse(&delivery.message.body) {
        Ok(event) => hand_on(shared, event, &delivery.message),
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

/// Hands an event to its job, request or question. Returns whether the client would notice a repeat of the event.
/// Repeats of calls, outcomes and answers, and those about requests, are recognized.
pub(crate) fn hand_on(shared: &Arc<Shared>, event: Event, message: &Message) -> bool {
    let (job, text) = (event.job.clone(), &message.body);
    let streamed = !matches!(
        event.body,
        EventBody::Result(_)
            | EventBody::ToolCall(_)
            | EventBody::Sessions { .. }
            | EventBody::Run(_)
            | EventBody::Hold { .. }
            | EventBody::Superseded {}
            | EventBody::Decided(_)
            | EventBody::Opened { .. }
            | EventBody::Output { .. }
            | EventBody::Credit { .. }
            | EventBody::Done(_)
            | EventBody::Unknown
    );
    let known = match event.body {
        EventBody::Result(_) => runs::ended(shared, event, text),
        EventBody::Run(_) => runs::answered(shared, event, message),
        EventBody::Superseded {} => shared.jobs.fail(&job, Error::Superseded(job.clone())),
        EventBody::Sessions { sessions } => shared.questions.answered(&job, Answer::Sessions(sessions)),
        EventBody::Decided(ref decided) if decisions::answered(shared, &job, decided) => true,
        body
        @ (EventBody::Opened { .. } | EventBody::Output { .. } | EventBody::Credit { .. } | EventBody::Done(_)) => {
            shared.requests.event(&job, body)
        }
        _ => match shared.jobs.hold(event, message) {
            None => true,
            Some(Event { body: EventBody::ToolCall(call), .. }) => tools::answer(shared, job.clone(), call, message),
            Some(event) => {
                if let EventBody::Hold { for_ms } = event.body {
                    shared.jobs.hold_answers(&job, Duration::from_millis(for_ms).min(LONGEST_HOLD));
                }
                shared.jobs.stream(event, text)
            }
        },
    };
    if !known {
        tracing::debug!(job.id = %job, "event of a job that nobody waits for is dropped");
    }
    streamed
}
