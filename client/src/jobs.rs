//! The jobs that a client waits for: where their events go, and how they ended.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use thermae_backplane::bus::Message;
use thermae_schemas::{Event, JobId};

use crate::{Error, Follower};

/// One job under way.
pub(crate) struct Waiting {
    pub(crate) follower: Arc<dyn Follower>,
    /// The message as it was submitted. It is published again if the client has to ask for the outcome.
    pub(crate) message: Message,
    /// The root of the job's trace. It stays open as long as the job is under way.
    pub(crate) span: tracing::Span,
}

/// All jobs under way, by id.
#[derive(Default)]
pub(crate) struct Jobs(Mutex<Table>);

#[derive(Default)]
struct Table {
    jobs: HashMap<JobId, Waiting>,
    closed: Option<Error>,
}

impl Jobs {
    fn lock(&self) -> std::sync::MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a job. This must happen before its message is published, so that no event is missed.
    pub(crate) fn add(&self, id: &JobId, waiting: Waiting) -> Result<(), Error> {
        let mut table = self.lock();
        if let Some(error) = &table.closed {
            return Err(error.clone());
        }
        if table.jobs.contains_key(id) {
            return Err(Error::AlreadySubmitted(id.clone()));
        }
        table.jobs.insert(id.clone(), waiting);
        Ok(())
    }

    /// Removes a job whose submit failed or was given up.
    pub(crate) fn remove(&self, id: &JobId) {
        self.lock().jobs.remove(id);
    }

    /// Who follows the job, and its span; `None` if nobody waits for the job.
    pub(crate) fn follower(&self, id: &JobId) -> Option<(Arc<dyn Follower>, tracing::Span)> {
        self.lock().jobs.get(id).map(|job| (job.follower.clone(), job.span.clone()))
    }

    /// The messages of all jobs under way.
    pub(crate) fn messages(&self) -> Vec<Message> {
        self.lock().jobs.values().map(|job| job.message.clone()).collect()
    }

    /// Hands a streamed event on. Returns `false` if nobody waits for the job.
    pub(crate) fn stream(&self, event: Event, text: &Bytes) -> bool {
        let Some((follower, _)) = self.follower(&event.job) else { return false };
        follower.event(event, text);
        true
    }

    /// Ends a job with its first result. Returns `false` if nobody waits for the job, because it already has a result.
    pub(crate) fn end(&self, event: Event, text: Bytes) -> bool {
        let Some(job) = self.lock().jobs.remove(&event.job) else { return false };
        job.follower.end(Ok((event, text)));
        true
    }

    /// Fails every job under way, and every job that is added later.
    pub(crate) fn close(&self, error: Error) {
        let jobs = {
            let mut table = self.lock();
            table.closed.get_or_insert_with(|| error.clone());
            std::mem::take(&mut table.jobs)
        };
        for job in jobs.into_values() {
            job.follower.end(Err(error.clone()));
        }
    }
}
