//! The jobs that a client waits for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use thermae_backplane::bus::Message;
use thermae_schemas::{Event, JobId};
use tokio::sync::{mpsc, watch};

use crate::{Error, ToolHandler};

/// What became of a job, seen from its handle.
#[derive(Debug, Clone)]
pub(crate) enum Fate {
    /// No result yet.
    Waiting,
    /// The first result that came.
    Ended(Arc<Event>),
    /// None will come.
    Failed(Error),
}

/// One job under way.
pub(crate) struct Waiting {
    pub(crate) events: mpsc::Sender<Event>,
    pub(crate) fate: watch::Sender<Fate>,
    pub(crate) tools: Option<Arc<dyn ToolHandler>>,
    /// As it was submitted, to ask for its outcome again.
    pub(crate) message: Message,
    /// Open for as long as the job: the root of its trace.
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

    /// Adds a job, before its message leaves.
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

    /// Forgets a job whose message never left.
    pub(crate) fn remove(&self, id: &JobId) {
        self.lock().jobs.remove(id);
    }

    /// A job's tools and span; `None` for a job that nobody waits for.
    pub(crate) fn tools(&self, id: &JobId) -> Option<(Option<Arc<dyn ToolHandler>>, tracing::Span)> {
        self.lock().jobs.get(id).map(|job| (job.tools.clone(), job.span.clone()))
    }

    /// The messages of all jobs under way.
    pub(crate) fn messages(&self) -> Vec<Message> {
        self.lock().jobs.values().map(|job| job.message.clone()).collect()
    }

    /// Hands a streamed event to the job's handle. `false` for a job that nobody waits for.
    pub(crate) fn stream(&self, event: Event) -> bool {
        let table = self.lock();
        let Some(job) = table.jobs.get(&event.job) else { return false };
        if let Err(mpsc::error::TrySendError::Full(event)) = job.events.try_send(event) {
            tracing::debug!(job.id = %event.job, "events are not read fast enough: one was dropped");
        }
        true
    }

    /// Ends a job with its first result. `false` for a job that nobody waits for: it had one already.
    pub(crate) fn end(&self, event: Event) -> bool {
        let Some(job) = self.lock().jobs.remove(&event.job) else { return false };
        job.fate.send_replace(Fate::Ended(Arc::new(event)));
        true
    }

    /// Fails every job, and every later one.
    pub(crate) fn close(&self, error: Error) {
        let jobs = {
            let mut table = self.lock();
            table.closed.get_or_insert_with(|| error.clone());
            std::mem::take(&mut table.jobs)
        };
        for job in jobs.into_values() {
            job.fate.send_replace(Fate::Failed(error.clone()));
        }
    }
}
