//! Questions that wait for their answers.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use thermae_schemas::{JobId, SessionInfo};
use tokio::sync::oneshot;

/// What an answer holds.
type Answer = Vec<SessionInfo>;

/// All that wait, by the question's id.
#[derive(Default)]
pub(crate) struct Questions(Mutex<HashMap<JobId, oneshot::Sender<Answer>>>);

/// One that waits. Dropped, it waits no longer.
pub(crate) struct Waiting<'a> {
    all: &'a Questions,
    id: JobId,
    answer: oneshot::Receiver<Answer>,
}

impl Questions {
    fn lock(&self) -> MutexGuard<'_, HashMap<JobId, oneshot::Sender<Answer>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a question, before its message leaves.
    pub(crate) fn ask(&self, id: &JobId) -> Waiting<'_> {
        let (tx, answer) = oneshot::channel();
        self.lock().insert(id.clone(), tx);
        Waiting { all: self, id: id.clone(), answer }
    }

    /// Hands an answer on. `false` where nobody waits for it.
    pub(crate) fn answered(&self, id: &JobId, answer: Answer) -> bool {
        self.lock().remove(id).is_some_and(|tx| tx.send(answer).is_ok())
    }

    /// Gives all up.
    pub(crate) fn close(&self) {
        self.lock().clear();
    }
}

impl Waiting<'_> {
    /// The answer; `None` when the client ended first.
    pub(crate) async fn wait(mut self) -> Option<Answer> {
        (&mut self.answer).await.ok()
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.all.lock().remove(&self.id);
    }
}
