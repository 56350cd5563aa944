//! The handle of a job that was submitted.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use async_trait::async_trait;
use bytes::Bytes;
use futures::{Stream, StreamExt};
use serde_json::value::RawValue;
use thermae_schemas::{Event, EventBody, JobId, Outcome, ToolCall, ToolFailure};
use tokio::sync::{mpsc, watch};

use crate::client::Shared;
use crate::{Error, Follower, ToolHandler, publish};

/// The fate of a job, as its handle sees it.
#[derive(Debug, Clone)]
enum Fate {
    /// No result yet.
    Waiting,
    /// The first result that arrived.
    Ended(Arc<Event>),
    /// No result will arrive.
    Failed(Error),
}

/// Feeds a job's handle, and answers the job's tool calls.
pub(crate) struct Feed {
    job: JobId,
    /// Boxed, because a channel at once takes the memory of 32 messages.
    events: mpsc::Sender<Box<Event>>,
    fate: watch::Sender<Fate>,
    tools: Option<Arc<dyn ToolHandler>>,
}

#[async_trait]
impl Follower for Feed {
    fn event(&self, event: Event, _: &Bytes) {
        if matches!(event.body, EventBody::Unknown | EventBody::Run(_) | EventBody::Hold { .. }) {
            return;
        }
        if let Err(mpsc::error::TrySendError::Full(event)) = self.events.try_send(Box::new(event)) {
            tracing::debug!(job.id = %event.job, "events are not read fast enough: one was dropped");
        }
    }

    async fn tool_call(&self, call: ToolCall, _: Bytes) -> Result<Box<RawValue>, ToolFailure> {
        let Some(tools) = &self.tools else {
            return Err(format!("the client answers no tool calls for this job ({:?} was called)", call.tool).into());
        };
        tools.call(&self.job, &call.tool, call.arguments.into_raw()).await
    }

    fn end(&self, end: Result<(Event, Bytes), Error>) {
        self.fate.send_replace(match end {
            Ok((event, _)) => Fate::Ended(Arc::new(event)),
            Err(error) => Fate::Failed(error),
        });
    }
}

/// A job that was submitted, or a run that was taken over. If you drop the handle, you only give up the events and
/// its result: the job continues to run, and its tool calls are answered.
pub struct JobHandle {
    id: JobId,
    shared: Arc<Shared>,
    events: Option<mpsc::Receiver<Box<Event>>>,
    fate: watch::Receiver<Fate>,
}

impl JobHandle {
    /// The handle of a job, and what feeds it.
    pub(crate) fn new(job: &JobId, shared: &Arc<Shared>, tools: Option<Arc<dyn ToolHandler>>) -> (Self, Feed) {
        let (events, streamed) = mpsc::channel(shared.options.event_buffer.max(1));
        let (fate, end) = watch::channel(Fate::Waiting);
        let handle = Self { id: job.clone(), shared: shared.clone(), events: Some(streamed), fate: end };
        (handle, Feed { job: job.clone(), events, fate, tools })
    }

    /// Id of the job.
    pub fn id(&self) -> &JobId {
        &self.id
    }

    /// The job's streamed events, and then its result. Tool calls are not among them, because the job's
    /// [`crate::ToolHandler`] answers them. A second call returns a stream of the result alone.
    pub fn events(&mut self) -> Events {
        Events { events: self.events.take(), fate: Some(Box::pin(end(self.fate.clone()))) }
    }

    /// Waits for the outcome. Further calls return the same outcome.
    ///
    /// # Errors
    /// If the client ends first: [`Error::Closed`], or the error that ended the client. [`Error::Superseded`] if
    /// somebody else has taken the run over.
    pub async fn result(&self) -> Result<Outcome, Error> {
        match end(self.fate.clone()).await?.body.clone() {
            EventBody::Result(outcome) => Ok(outcome),
            _ => Err(Error::Closed),
        }
    }

    /// Asks the fleet to stop the job. Returns when the broker has confirmed the request. The outcome arrives as usual,
    /// and is `cancelled` unless the job ended first.
    ///
    /// # Errors
    /// As for [`crate::Client::submit`].
    pub async fn cancel(&self) -> Result<(), Error> {
        publish::cancel(&self.shared, &self.id).await
    }
}

impl std::fmt::Debug for JobHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JobHandle").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Waits for a job's first result.
async fn end(mut fate: watch::Receiver<Fate>) -> Result<Arc<Event>, Error> {
    let ended = fate.wait_for(|fate| !matches!(fate, Fate::Waiting)).await;
    match ended.as_deref() {
        Ok(Fate::Ended(event)) => Ok(event.clone()),
        Ok(Fate::Failed(error)) => Err(error.clone()),
        Ok(Fate::Waiting) | Err(_) => Err(Error::Closed),
    }
}

type End = Pin<Box<dyn Future<Output = Result<Arc<Event>, Error>> + Send>>;

/// A stream of a job's events: the streamed ones in order, and then the result. If the client ends first, there is no
/// result.
pub struct Events {
    events: Option<mpsc::Receiver<Box<Event>>>,
    fate: Option<End>,
}

impl Events {
    /// The next event; `None` after the last one.
    pub async fn next(&mut self) -> Option<Event> {
        StreamExt::next(self).await
    }
}

impl Stream for Events {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        if let Some(events) = &mut self.events {
            match events.poll_recv(cx) {
                Poll::Ready(Some(event)) => return Poll::Ready(Some(*event)),
                // The job has left the table, so its fate is decided.
                Poll::Ready(None) => self.events = None,
                Poll::Pending => return Poll::Pending,
            }
        }
        let Some(fate) = &mut self.fate else { return Poll::Ready(None) };
        let ended = std::task::ready!(fate.as_mut().poll(cx));
        self.fate = None;
        Poll::Ready(ended.ok().map(|event| (*event).clone()))
    }
}
