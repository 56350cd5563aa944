//! The jobs that a client waits for: where their events go, and how they ended.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use thermae_backplane::bus::Message;
use thermae_schemas::{Event, JobId};
use tokio::sync::oneshot;

use crate::turn::Turn;
use crate::{Error, Follower};

/// One job under way.
pub(crate) struct Waiting {
    pub(crate) follower: Arc<dyn Follower>,
    /// The message with which this client began to follow: the submit, or the question that took the run over. It is
    /// published again if the client has to ask for the outcome.
    pub(crate) message: Message,
    /// The root of the job's trace. It stays open as long as the job is under way.
    pub(crate) span: tracing::Span,
    pub(crate) turn: Turn,
}

/// A run that is being taken over: the fleet was asked, and has not answered yet.
pub(crate) struct Taking {
    pub(crate) job: JobId,
    pub(crate) waiting: Waiting,
    /// What came before the answer. It is handed on after it.
    pub(crate) held: Vec<(Event, Message)>,
    /// Gets the answer, with its text.
    pub(crate) answer: oneshot::Sender<Result<(Event, Bytes), Error>>,
}

/// All jobs under way, by id.
#[derive(Default)]
pub(crate) struct Jobs(Mutex<Table>);

#[derive(Default)]
struct Table {
    jobs: HashMap<JobId, Waiting>,
    /// By the id of the question.
    taking: HashMap<JobId, Taking>,
    closed: Option<Error>,
}

/// Who learns that a job has ended.
pub(crate) struct Ended {
    pub(crate) follower: Option<Arc<dyn Follower>>,
    pub(crate) taking: Vec<Taking>,
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

    /// Removes a job whose submit failed or was given up, or that nobody wants to follow any more. The calls that are
    /// being answered are given up. Returns `false` if nobody follows the job.
    pub(crate) fn forget(&self, id: &JobId) -> bool {
        self.remove(id).is_some()
    }

    /// As [`Jobs::forget`], and tells the follower why.
    pub(crate) fn fail(&self, id: &JobId, why: Error) -> bool {
        let Some(job) = self.remove(id) else { return false };
        job.follower.end(Err(why));
        true
    }

    fn remove(&self, id: &JobId) -> Option<Waiting> {
        let job = self.lock().jobs.remove(id)?;
        job.turn.end();
        Some(job)
    }

    /// Adds a run that is being taken over. This must happen before the question is published.
    pub(crate) fn take(&self, question: &JobId, taking: Taking) -> Result<(), Error> {
        let mut table = self.lock();
        if let Some(error) = &table.closed {
            return Err(error.clone());
        }
        table.taking.insert(question.clone(), taking);
        Ok(())
    }

    /// Ends the wait of a take-over, because its answer is there or the wait is given up. Returns `None` if it has
    /// ended before.
    pub(crate) fn taken(&self, question: &JobId) -> Option<Taking> {
        self.lock().taking.remove(question)
    }

    /// Follows a job from now on. Returns who followed it before.
    pub(crate) fn replace(&self, id: &JobId, waiting: Waiting) -> Option<Waiting> {
        self.lock().jobs.insert(id.clone(), waiting)
    }

    /// Whether this client follows the job since it asked this question.
    pub(crate) fn asked(&self, id: &JobId, question: &JobId) -> bool {
        let table = self.lock();
        table.jobs.get(id).is_some_and(|job| job.message.message_id.as_deref() == Some(question.as_str()))
    }

    /// Keeps an event of a job that is being taken over and that this client does not follow yet. Gives all other
    /// events back.
    pub(crate) fn hold(&self, event: Event, message: &Message) -> Option<Event> {
        let mut table = self.lock();
        if table.taking.is_empty() || table.jobs.contains_key(&event.job) {
            return Some(event);
        }
        let Some(taking) = table.taking.values_mut().find(|taking| taking.job == event.job) else { return Some(event) };
        taking.held.push((event, message.clone()));
        None
    }

    /// Who follows the job, its span and its turn; `None` if nobody waits for the job.
    pub(crate) fn follower(&self, id: &JobId) -> Option<(Arc<dyn Follower>, tracing::Span, Turn)> {
        self.lock().jobs.get(id).map(|job| (job.follower.clone(), job.span.clone(), job.turn.clone()))
    }

    /// Has answers to the job's calls kept back for this time.
    pub(crate) fn hold_answers(&self, id: &JobId, time: Duration) {
        if let Some((_, _, turn)) = self.follower(id) {
            turn.hold(time);
        }
    }

    /// The messages of all jobs under way.
    pub(crate) fn messages(&self) -> Vec<Message> {
        self.lock().jobs.values().map(|job| job.message.clone()).collect()
    }

    /// Hands a streamed event on. Returns `false` if nobody waits for the job.
    pub(crate) fn stream(&self, event: Event, text: &Bytes) -> bool {
        let Some((follower, ..)) = self.follower(&event.job) else { return false };
        follower.event(event, text);
        true
    }

    /// Takes a job that has its first result from the table.
    pub(crate) fn end(&self, id: &JobId) -> Ended {
        let mut table = self.lock();
        let ended = table.jobs.remove(id);
        if let Some(job) = &ended {
            job.turn.over();
        }
        let follower = ended.map(|job| job.follower);
        let taking = match table.taking.is_empty() {
            true => Vec::new(),
            false => table.taking.extract_if(|_, taking| taking.job == *id).map(|(_, taking)| taking).collect(),
        };
        Ended { follower, taking }
    }

    /// Fails every job under way, and every job that is added later.
    pub(crate) fn close(&self, error: Error) {
        let (jobs, taking) = {
            let mut table = self.lock();
            table.closed.get_or_insert_with(|| error.clone());
            (std::mem::take(&mut table.jobs), std::mem::take(&mut table.taking))
        };
        for job in jobs.into_values() {
            job.turn.over();
            job.follower.end(Err(error.clone()));
        }
        for taking in taking.into_values() {
            let _ = taking.answer.send(Err(error.clone()));
        }
    }
}
