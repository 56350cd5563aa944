//! The client: submits jobs and asks questions. Its tasks read the reply queue and answer tool calls.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures::future::BoxFuture;
use serde_json::value::RawValue;
use thermae_backplane::bus::SharedBus;
use thermae_schemas::{
    Body, ClientId, Decided, Decision, Event, EventBody, Job, JobId, Query, Request, RunInfo, RunQuery, SessionInfo,
    TenantName, ToolFailure, names,
};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::jobs::{Jobs, Waiting};
use crate::questions::{Answer, Questions};
use crate::requests::{self, Requests};
use crate::tools::Calls;
use crate::turn::Turn;
use crate::{
    Error, Follower, JobHandle, Options, RequestHandle, ToolHandler, decisions, dispatch, publish, questions, runs,
    store, tools, trace,
};

/// What the client and its tasks share.
pub(crate) struct Shared {
    pub(crate) bus: SharedBus,
    pub(crate) tenant: TenantName,
    pub(crate) options: Options,
    pub(crate) jobs: Jobs,
    pub(crate) calls: Calls,
    pub(crate) questions: Questions,
    pub(crate) requests: Requests,
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
}

/// A program's connection to the fleet. Cloning it is cheap. When the last clone is dropped, its tasks end, and handles
/// that still wait get [`Error::Closed`].
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    _stop: Arc<DropGuard>,
}

impl Client {
    /// Declares this client's reply queue and begins to read from it.
    ///
    /// # Errors
    /// [`Error::NoScheduler`] if the fleet's exchanges do not exist, and [`Error::Bus`] if the broker refuses or can't
    /// be reached.
    pub fn connect(bus: SharedBus, tenant: TenantName, options: Options) -> BoxFuture<'static, Result<Self, Error>> {
        // Boxed here, so that this crate compiles the client, and not each crate that connects.
        Box::pin(Self::subscribed(bus, tenant, options))
    }

    async fn subscribed(bus: SharedBus, tenant: TenantName, options: Options) -> Result<Self, Error> {
        let stop = CancellationToken::new();
        let shared = Arc::new(Shared {
            bus,
            tenant,
            options,
            jobs: Jobs::default(),
            calls: Calls::default(),
            questions: Questions::default(),
            requests: Requests::default(),
            stop: stop.clone(),
            tasks: TaskTracker::new(),
        });
        let consumer = match dispatch::subscribe(&shared).await {
            // Only a scheduler makes the exchanges that the queue is bound to.
            Err(thermae_backplane::bus::Error::Topology(_)) => return Err(Error::NoScheduler),
            subscribed => subscribed?,
        };
        shared.tasks.spawn(dispatch::run(shared.clone(), consumer));
        Ok(Self { shared, _stop: Arc::new(stop.drop_guard()) })
    }

    /// The tenant whose jobs this client submits.
    pub fn tenant(&self) -> &TenantName {
        &self.shared.tenant
    }

    /// Name of this client.
    pub fn id(&self) -> &ClientId {
        &self.shared.options.client
    }

    /// Submits a job. Returns when the broker has confirmed the job; an outage only delays this. From then on, the job
    /// will have an outcome. `tools` answers its tool calls.
    ///
    /// # Errors
    /// [`Error::NoScheduler`], [`Error::QueueFull`], [`Error::AlreadySubmitted`], [`Error::Store`], or [`Error::Bus`] if
    /// the broker refuses. What is wrong with the *job* is reported in its outcome.
    pub fn submit(&self, job: Job, tools: Option<Arc<dyn ToolHandler>>) -> BoxFuture<'_, Result<JobHandle, Error>> {
        Box::pin(self.submitted(job, tools))
    }

    async fn submitted(&self, job: Job, tools: Option<Arc<dyn ToolHandler>>) -> Result<JobHandle, Error> {
        let (handle, feed) = JobHandle::new(&job.id, &self.shared, tools);
        self.followed(job, Arc::new(feed)).await?;
        Ok(handle)
    }

    /// As [`Client::submit`], for a program that takes the job's events as the fleet sent them. `follower` also answers
    /// the tool calls. It may hear of the job before this returns, and nothing more after an error.
    ///
    /// # Errors
    /// As for [`Client::submit`].
    pub fn follow(&self, job: Job, follower: Arc<dyn Follower>) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(self.followed(job, follower))
    }

    /// As [`JobHandle::cancel`].
    ///
    /// # Errors
    /// As for [`Client::submit`].
    pub fn cancel<'a>(&'a self, job: &'a JobId) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(publish::cancel(&self.shared, job))
    }

    async fn followed(&self, mut job: Job, follower: Arc<dyn Follower>) -> Result<(), Error> {
        let shared = &self.shared;
        if let Some(kept) = &shared.options.store {
            store::put(&**kept, &shared.tenant, &mut job).await?;
        }
        let span = tracing::info_span!(
            "job",
            otel.kind = "producer",
            messaging.system = "rabbitmq",
            messaging.destination.name = names::SUBMIT,
            job.id = %job.id,
        );
        let key = names::submit_key(&shared.tenant, job.class, &job.pool);
        let mut message = publish::message(shared, key, &job.id, job.to_json()?.into());
        trace::inject(&span, &mut message.headers);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        message.headers.set_int(names::H_SUBMITTED, i64::try_from(now.as_millis()).unwrap_or(i64::MAX));

        let waiting = Waiting { follower, message: message.clone(), span, turn: Turn::default() };
        shared.jobs.add(&job.id, waiting)?;
        let forget = Forget { jobs: &shared.jobs, id: Some(&job.id) };
        publish::confirmed(shared, message).await?;
        forget.keep();
        Ok(())
    }

    /// Sends a request to a live session. Returns at once, and must be called in a Tokio runtime. The request is sent
    /// again if no answer comes, and is carried out once.
    pub fn request(&self, request: Request) -> RequestHandle {
        requests::start(&self.shared, request)
    }

    /// The tenant's live sessions, as their workers reported them last.
    ///
    /// # Errors
    /// As for [`Client::submit`]; [`Error::NoAnswer`] if no scheduler answers within `within`.
    pub async fn sessions(&self, within: Duration) -> Result<Vec<SessionInfo>, Error> {
        match questions::ask(&self.shared, Query::sessions(JobId::random()), within).await? {
            Answer::Sessions(sessions) => Ok(sessions),
            Answer::Run(..) | Answer::Decided(_) => Err(Error::NoAnswer(within)),
        }
    }

    /// What the fleet knows of a run of the tenant, whoever submitted it. Takes nothing over. A run that the fleet does
    /// not know has the state `unknown`; this is asked for again during [`Options::unknown_for`].
    ///
    /// # Errors
    /// As for [`Client::sessions`].
    pub async fn run_info(&self, query: RunQuery, within: Duration) -> Result<RunInfo, Error> {
        match self.ask_for_run(query, within).await?.0.body {
            EventBody::Run(info) => Ok(info),
            _ => Err(Error::NoAnswer(within)),
        }
    }

    /// As [`Client::run_info`], for a program that takes the answer as the fleet sent it: the event `run`.
    ///
    /// # Errors
    /// As for [`Client::sessions`].
    pub async fn ask_for_run(&self, query: RunQuery, within: Duration) -> Result<(Event, Bytes), Error> {
        runs::info(&self.shared, RunQuery { take_over: false, ..query }, within).await
    }

    /// Takes a run of the tenant over: from now on, this client gets its calls, output and result, and whoever got them
    /// before gets [`Error::Superseded`], a follower on this client too. `tools` answers the calls that wait already,
    /// and those to come. A run that has ended gives its result.
    ///
    /// # Errors
    /// As for [`Client::sessions`]; [`Error::UnknownRun`]. After [`Error::NoAnswer`], the run may have been taken over,
    /// and can be attached again.
    pub fn attach<'a>(
        &'a self,
        job: &'a JobId,
        tools: Option<Arc<dyn ToolHandler>>,
        within: Duration,
    ) -> BoxFuture<'a, Result<(RunInfo, JobHandle), Error>> {
        Box::pin(async move {
            let (handle, feed) = JobHandle::new(job, &self.shared, tools);
            let (event, _) = self.take_over(RunQuery::new(job.clone()), Arc::new(feed), within).await?;
            match event.body {
                EventBody::Run(info) => Ok((info, handle)),
                _ => Err(Error::NoAnswer(within)),
            }
        })
    }

    /// As [`Client::attach`], for a program that takes the run's events as the fleet sent them. The first one is the
    /// answer, the event `run`, which this also returns; the calls in it follow as calls of [`Follower::tool_call`].
    /// (If the run ends just now, its result can be faster: then the client itself writes the event `run`.) Should the
    /// reply queue get lost, a further event `run` tells what the run is like after that.
    ///
    /// # Errors
    /// As for [`Client::attach`]. The follower then hears nothing more.
    pub fn take_over(
        &self,
        query: RunQuery,
        follower: Arc<dyn Follower>,
        within: Duration,
    ) -> BoxFuture<'_, Result<(Event, Bytes), Error>> {
        Box::pin(runs::take_over(&self.shared, query, follower, within))
    }

    /// Forgets a job without cancelling it: nothing more of it is heard here, and its calls that are being answered are
    /// given up. They go on to wait for whoever attaches to the run. Returns `false` if this client does not follow the
    /// job.
    pub fn detach(&self, job: &JobId) -> bool {
        self.shared.jobs.forget(job)
    }

    /// Waits while answers to calls of this job should be kept back, because it does not read those that it has; at
    /// most for this time. Returns at once if this client does not follow the job. Answers of a follower wait by
    /// themselves.
    pub fn may_answer<'a>(&'a self, job: &JobId, at_most: Duration) -> BoxFuture<'a, ()> {
        let followed = self.shared.jobs.follower(job);
        Box::pin(async move {
            if let Some((_, _, turn)) = followed {
                turn.may_answer(at_most).await;
            }
        })
    }

    /// Answers a call of any run of the tenant, such as one in [`RunInfo::calls`]. Returns when the broker has
    /// confirmed the answer. The first answer to a call counts; others change nothing. If a tool of this client is
    /// about to answer the call, it is given up.
    ///
    /// # Errors
    /// [`Error::UnknownCall`] if no worker of the tenant takes answers under `reply_to`; otherwise as for
    /// [`Client::submit`].
    pub fn answer<'a>(
        &'a self,
        call: &'a str,
        reply_to: &'a str,
        reply: Result<Box<RawValue>, ToolFailure>,
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(tools::answer_by_hand(&self.shared, call, reply_to, reply))
    }

    /// Decides about a call of any run of the tenant that waits for approval: one of the event `approval`, or of
    /// [`RunInfo::approvals`]. The first decision about a call counts; a second one that says the same gets the same
    /// answer. [`Decided::error`] says why a decision does not count. Without `reply_to`, the fleet is asked for it.
    ///
    /// # Errors
    /// [`Error::UnknownCall`] if no worker of the tenant takes decisions under `reply_to`, or the run has ended;
    /// [`Error::UnknownRun`]; [`Error::NoAnswer`] if nobody answers within `within`; [`Error::Bus`] if RabbitMQ does
    /// not let this user approve.
    pub fn decide<'a>(
        &'a self,
        decision: &'a Decision,
        reply_to: Option<&'a str>,
        within: Duration,
    ) -> BoxFuture<'a, Result<Decided, Error>> {
        Box::pin(async move {
            let asked;
            let reply_to = match reply_to {
                Some(reply_to) => reply_to,
                None => {
                    asked = decisions::reply_key(&self.shared, &decision.run, &decision.call, within).await?;
                    &asked
                }
            };
            decisions::decide(&self.shared, decision, reply_to, within).await
        })
    }

    /// Ends the client: handles that still wait get [`Error::Closed`], tool calls are given up, and the reply queue is
    /// deleted. The jobs continue to run.
    pub async fn close(&self) {
        self.shared.stop.cancel();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
        let queue = names::reply_queue(&self.shared.tenant, &self.shared.options.client);
        if let Err(error) = self.shared.bus.delete_queue(&queue).await {
            tracing::debug!(%error, "the reply queue was not deleted and will expire");
        }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("tenant", self.tenant()).field("id", self.id()).finish_non_exhaustive()
    }
}

/// Removes a job from the table if its submit fails or is dropped.
struct Forget<'a> {
    jobs: &'a Jobs,
    id: Option<&'a thermae_schemas::JobId>,
}

impl Forget<'_> {
    fn keep(mut self) {
        self.id = None;
    }
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.jobs.forget(id);
        }
    }
}
