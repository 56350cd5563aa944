//! Sends one request, and what the client says about it.

use std::convert::Infallible;
use std::sync::Arc;

use thermae_backplane::bus::{self, Message};
use thermae_schemas::{Body, JobId, RequestInput, Say, names};

use super::course::{Course, State};
use crate::client::Shared;
use crate::{Error, publish};

/// Runs until the request ends. `request` is its message.
pub(super) async fn run(shared: Arc<Shared>, course: Arc<Course>, request: Message) {
    let driven = async { tokio::try_join!(ask(&shared, &course, request), speak(&shared, &course)) };
    tokio::select! {
        biased;
        () = course.when(|state| state.end.is_some().then_some(())) => {}
        Err(error) = driven => course.end(Err(error)),
    }
    shared.requests.remove(&course.id);
}

/// Sends the request, and again after every silence: the fleet answers a repeat, but carries the request out once.
async fn ask(shared: &Shared, course: &Course, mut request: Message) -> Result<Infallible, Error> {
    publish::confirmed(shared, request.clone()).await?;
    request.headers.set_flag(names::H_RESEND, true);
    let mut first = shared.options.first_answer;
    loop {
        course.asked();
        course.silent(first, &shared.options).await;
        first = (2 * first).min(shared.options.silence);
        tracing::debug!(request.id = %course.id, "a request is sent again");
        match publish::confirmed(shared, request.clone()).await {
            // The fleet was there before.
            Err(error @ Error::NoScheduler) => tracing::warn!(%error, request.id = %course.id, "can't ask again"),
            sent => sent?,
        }
    }
}

/// Says what waits to be said, one message after another, so that input keeps its order.
async fn speak(shared: &Shared, course: &Course) -> Result<Infallible, Error> {
    loop {
        let (key, say) = course.when(State::next_say).await;
        let message = message(shared, &course.id, key, say)?;
        let mut pause = shared.options.retry_min;
        loop {
            match publish::once(shared, message.clone()).await {
                Ok(()) => break,
                // The worker is gone, unless the broker has just restarted. The scheduler knows.
                Err(bus::Error::Unroutable { .. }) => {
                    if pause == shared.options.retry_min {
                        course.ask_again();
                    }
                }
                Err(error) if error.is_transient() => {
                    tracing::debug!(%error, "a message about a request could not be sent; trying again");
                }
                Err(error) => return Err(error.into()),
            }
            publish::wait(shared, &mut pause).await?;
        }
    }
}

fn message(shared: &Shared, id: &JobId, key: String, say: Say) -> Result<Message, Error> {
    let body = RequestInput::new(id.clone(), say).to_json()?.into();
    let mut message = Message { exchange: names::CALLS.to_owned(), key, body, mandatory: true, ..Message::default() };
    message.headers.set_text(names::H_REQUEST, id.as_str());
    message.sign(shared.bus.as_ref(), &shared.tenant);
    Ok(message)
}
