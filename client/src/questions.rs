//! Questions to the fleet, and decisions, that wait for their answers. The client asks them, and the reader of the
//! reply queue answers them.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use thermae_backplane::bus::Message;
use thermae_schemas::{Body, Decided, Event, JobId, Query, SessionInfo, names};
use tokio::sync::oneshot;

use crate::client::Shared;
use crate::{Error, publish};

/// What an answer contains.
pub(crate) enum Answer {
    /// The tenant's live sessions.
    Sessions(Vec<SessionInfo>),
    /// The event `run`, with its text.
    Run(Box<Event>, Bytes),
    /// What came of a decision.
    Decided(Decided),
}

/// The questions that wait, by id.
#[derive(Default)]
pub(crate) struct Questions(Mutex<HashMap<JobId, oneshot::Sender<Answer>>>);

/// A question that waits. Dropping it gives the question up.
struct Waiting<'a> {
    all: &'a Questions,
    id: JobId,
    answer: oneshot::Receiver<Answer>,
}

impl Questions {
    fn lock(&self) -> MutexGuard<'_, HashMap<JobId, oneshot::Sender<Answer>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a question. This must happen before its message is published, so that the answer is not missed.
    fn add(&self, id: &JobId) -> Waiting<'_> {
        let (tx, answer) = oneshot::channel();
        self.lock().insert(id.clone(), tx);
        Waiting { all: self, id: id.clone(), answer }
    }

    /// Whether this question waits.
    pub(crate) fn has(&self, id: &JobId) -> bool {
        self.lock().contains_key(id)
    }

    /// Hands an answer to its question. Returns `false` if the question does not wait any more.
    pub(crate) fn answered(&self, id: &JobId, answer: Answer) -> bool {
        self.lock().remove(id).is_some_and(|tx| tx.send(answer).is_ok())
    }

    /// Gives up all questions.
    pub(crate) fn close(&self) {
        self.lock().clear();
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.all.lock().remove(&self.id);
    }
}

/// Asks a question, and waits for its answer.
pub(crate) async fn ask(shared: &Shared, query: Query, within: Duration) -> Result<Answer, Error> {
    let message = publish::message(shared, names::query_key(&shared.tenant), &query.id, query.to_json()?.into());
    wait(shared, &query.id, message, within).await
}

/// Publishes a message that has this id until it is answered.
pub(crate) async fn wait(shared: &Shared, id: &JobId, message: Message, within: Duration) -> Result<Answer, Error> {
    let mut waiting = shared.questions.add(id);
    answered(shared, message, within, &mut waiting.answer).await?.map_err(|_| Error::Closed)
}

/// Publishes a question until its answer is there. An answer can get lost, for example with the worker that gives it.
pub(crate) async fn answered<T>(
    shared: &Shared,
    mut message: Message,
    within: Duration,
    answer: impl Future<Output = T>,
) -> Result<T, Error> {
    let asked = async {
        let (mut answer, mut pause) = (pin!(answer), shared.options.ask_again);
        loop {
            publish::confirmed(shared, message.clone()).await?;
            tokio::select! {
                answer = &mut answer => return Ok(answer),
                () = tokio::time::sleep(pause) => {}
            }
            message.headers.set_flag(names::H_RESEND, true);
            pause *= 2;
        }
    };
    tokio::time::timeout(within, asked).await.map_err(|_| Error::NoAnswer(within))?
}
