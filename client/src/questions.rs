//! Questions to the fleet that wait for their answers. The client asks them, and the reader of the reply queue answers
//! them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use thermae_schemas::{JobId, SessionInfo};
use tokio::sync::oneshot;

/// What an answer contains.
type Answer = Vec<SessionInfo>;

/// The questions that wait, by id.
#[derive(Default)]
pub(crate) struct Questions(Mutex<HashMap<JobId, oneshot::Sender<Answer>>>);

/// A question that waits. Dropping it gives the question up.
pub(crate) struct Waiting<'a> {
    all: &'a Questions,
    id: JobId,
    answer: oneshot::Receiver<Answer>,
}

impl Questions {
    fn lock(&self) -> MutexGuard<'_, HashMap<JobId, oneshot::Sender<Answer>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a question. This must happen before its message is published, so that the answer is not missed.
    pub(crate) fn ask(&self, id: &JobId) -> Waiting<'_> {
        let (tx, answer) = oneshot::channel();
        self.lock().insert(id.clone(), tx);
        Waiting { all: self, id: id.clone(), answer }
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

impl Waiting<'_> {
    /// The answer; `None` if the client ended first.
    pub(crate) async fn wait(mut self) -> Option<Answer> {
        (&mut self.answer).await.ok()
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.all.lock().remove(&self.id);
    }
}
