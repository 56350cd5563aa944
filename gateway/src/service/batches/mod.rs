//! Batches: many runs that are submitted together, counted together, and whose results come as lines.
//!
//! A batch holds the ids of its runs only. The runs are kept as all others are, and a batch is forgotten with the last
//! of them.

mod request;
mod results;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::stream::{self, StreamExt};
use schemars::JsonSchema;
use serde::Serialize;
use sha2::{Digest, Sha256};
use thermae_client::{Client, Follower as _};
use thermae_schemas::{ErrorCode, JobId, Scope, Status};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::job;
use super::places::Place;
use super::run::Run;
use super::runs::confirmed;
use super::table::{Begun, Runs};
use super::views::{LostView, RunState, RunSummary};
use crate::budget::{Budget, Held};
use crate::hold::Holder;
use crate::identity::Caller;
use crate::problem::Problem;

use request::Line;

pub(crate) use request::BatchRequest;
pub(crate) use results::ResultLine;

/// Submits and cancels of one batch at once.
const AT_ONCE: usize = 64;

/// Most runs of all batches together. A run counts once for each batch that has it.
const MOST_IN_BATCHES: usize = 50_000;

/// What a batch takes in memory for each run, besides the run's id.
const PER_RUN: usize = 256;

/// A batch as it is.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct BatchView {
    /// Id of the batch.
    pub(crate) id: JobId,
    /// Whether runs of it are under way.
    pub(crate) state: BatchState,
    /// Ids of its runs, in the order of its jobs.
    pub(crate) runs: Vec<JobId>,
    /// Number of its runs that are under way.
    pub(crate) underway: usize,
    /// Numbers of its runs that ended, by status.
    pub(crate) ended: BTreeMap<Status, usize>,
    /// Number of its runs of which no outcome will come here: they could not be submitted, another client took them
    /// over, or they ended too long ago.
    pub(crate) unknown: usize,
}

impl BatchView {
    /// The batch without how its runs ended, for callers who may not read runs.
    pub(crate) fn state_alone(self) -> Self {
        Self { ended: BTreeMap::new(), ..self }
    }
}

/// Where a batch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BatchState {
    /// Some of its runs are under way.
    Underway,
    /// None of its runs is under way.
    Ended,
}

/// The batches of a tenant.
pub(crate) struct Batches {
    client: Client,
    runs: Arc<Runs>,
    budget: Budget,
    /// Batches whose jobs are being submitted. They go on if the client that asked is gone.
    tasks: TaskTracker,
    draining: CancellationToken,
    /// How long a batch is kept in any case.
    keep: Duration,
    table: Mutex<HashMap<JobId, Arc<Batch>>>,
}

/// A batch, by the ids of its runs.
pub(crate) struct Batch {
    pub(crate) id: JobId,
    digest: [u8; 32],
    begun: Instant,
    entries: Vec<Entry>,
    /// Numbers of the entries whose runs have ended, in the order of their ends. All who follow the batch share it.
    ended: watch::Sender<Vec<usize>>,
    /// The bytes of the ids.
    _held: Held,
}

impl Batch {
    fn has_ended(&self, at: usize) {
        self.ended.send_modify(|ended| ended.push(at));
    }
}

struct Entry {
    id: JobId,
    digest: [u8; 32],
    /// Why the job was not submitted.
    refused: OnceLock<LostView>,
}

impl Entry {
    fn refuse(&self, problem: Problem) {
        // Each entry is submitted once.
        let _ = self.refused.set(problem.into());
    }
}

impl Batches {
    pub(super) fn new(
        client: Client,
        runs: Arc<Runs>,
        budget: Budget,
        tasks: TaskTracker,
        draining: CancellationToken,
        keep: Duration,
    ) -> Self {
        Self { client, runs, budget, tasks, draining, keep, table: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<JobId, Arc<Batch>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The batch with this id.
    pub(crate) fn get(&self, id: &JobId) -> Result<Arc<Batch>, Problem> {
        let batch = self.lock().get(id).cloned();
        batch.ok_or_else(|| Problem::new("unknown_batch", format!("this gateway holds no batch {:?}", id.as_str())))
    }

    /// Forgets old batches of which no run is kept.
    pub(super) fn sweep(&self) {
        let has_runs = |batch: &Batch| batch.entries.iter().any(|entry| self.run(entry).is_some());
        self.lock().retain(|_, batch| batch.begun.elapsed() < self.keep || has_runs(batch));
    }

    fn run(&self, entry: &Entry) -> Option<Arc<Run>> {
        Self::run_of(&self.runs, entry)
    }

    /// The run of an entry, if the gateway has it.
    fn run_of(runs: &Runs, entry: &Entry) -> Option<Arc<Run>> {
        let run = runs.get(&entry.id).ok().filter(|_| entry.refused.get().is_none())?;
        // Once a run is forgotten, its id may be another job's. A run that was taken back has no digest.
        run.digest.is_none_or(|digest| digest == entry.digest).then_some(run)
    }

    /// Submits the jobs of the batch in `text`. All of them are read before the first is submitted. A job that the
    /// fleet refuses later does not stop the others.
    pub(crate) async fn submit(
        &self,
        text: Bytes,
        mut held: Held,
        caller: &Caller,
        holder: &Holder,
    ) -> Result<Arc<Batch>, Problem> {
        if self.draining.is_cancelled() {
            return Err(Problem::new("draining", "the gateway is stopping"));
        }
        let (id, jobs) = request::read(&text, &mut held, |held, bytes| holder.grow(held, bytes))?;
        if jobs.iter().any(|job| job.has_session) {
            caller.needs(Scope::Sessions)?;
        }
        let (batch, mut places) = match self.begin(id, &jobs, caller)? {
            (batch, None) => return Ok(batch),
            (batch, Some(places)) => (batch, places),
        };
        let begun = jobs.into_iter().enumerate().filter_map(|(at, job)| {
            let run = self.begin_run(&batch, at, &job, places.pop()?)?;
            Some((at, job, run))
        });
        let begun: Vec<_> = begun.collect();
        let (client, runs, submitting) = (self.client.clone(), self.runs.clone(), batch.clone());
        let submitted = self.tasks.spawn(async move {
            // The text is there until the last job of it is sent.
            let (text, _held) = (text, held);
            let submits = begun.into_iter().map(|(at, line, run)| {
                let (client, runs, entry) = (&client, &runs, &submitting.entries[at]);
                let job = &text[line.place.clone()];
                async move {
                    let sent = match job::read_again(job, &line.identity) {
                        Ok(job) => {
                            client.follow(job, run.clone()).await.map_err(|error| (Problem::from(error.clone()), error))
                        }
                        Err(problem) => Err((problem, thermae_client::Error::Closed)),
                    };
                    if let Err((problem, error)) = sent {
                        entry.refuse(problem);
                        runs.remove(&entry.id);
                        run.end(Err(error));
                    }
                }
            });
            stream::iter(submits).buffer_unordered(AT_ONCE).collect::<()>().await;
        });
        match confirmed(submitted).await {
            Ok(submitted) => submitted.map_err(|_| Problem::new("internal_error", "the submit failed"))?,
            // The jobs are on their way, and may run.
            Err(problem) => return Err(problem.with("batch", batch.id.as_str())),
        }
        Ok(batch)
    }

    /// Adds a batch, unless the same one was submitted before. Returns the places for the runs of a new one.
    fn begin(
        &self,
        id: Option<JobId>,
        jobs: &[Line],
        caller: &Caller,
    ) -> Result<(Arc<Batch>, Option<Vec<Place>>), Problem> {
        let mut digest = Sha256::new();
        let mut entries = Vec::with_capacity(jobs.len());
        for Line { identity, .. } in jobs {
            digest.update(identity.digest);
            entries.push(Entry { id: identity.id.clone(), digest: identity.digest, refused: OnceLock::new() });
        }
        let (named, id, digest) = (id.is_some(), id.unwrap_or_else(JobId::random), digest.finalize().into());
        let mut table = self.lock();
        if let Some(batch) = table.get(&id).filter(|_| named) {
            let detail = format!("the id {:?} was used for another batch", id.as_str());
            let same = batch.digest == digest;
            return if same { Ok((batch.clone(), None)) } else { Err((ErrorCode::IdConflict, detail).into()) };
        }
        let places = entries.iter().map(|_| self.runs.place(caller)).collect::<Result<_, _>>()?;
        self.make_room(&mut table, entries.len())?;
        let mut held = self.budget.hold();
        held.take(entries.iter().map(|entry| entry.id.as_str().len() + PER_RUN).sum())?;
        let (begun, ended) = (Instant::now(), watch::Sender::default());
        let batch = Arc::new(Batch { id: id.clone(), digest, begun, entries, ended, _held: held });
        table.insert(id, batch.clone());
        Ok((batch, Some(places)))
    }

    /// Forgets the oldest batches that have ended, until this many runs more may belong to batches.
    fn make_room(&self, table: &mut HashMap<JobId, Arc<Batch>>, runs: usize) -> Result<(), Problem> {
        let is_underway = |entry: &Entry| self.run(entry).is_some_and(|run| !run.has_ended());
        while table.values().map(|batch| batch.entries.len()).sum::<usize>() + runs > MOST_IN_BATCHES {
            let ended = table.values().filter(|batch| !batch.entries.iter().any(is_underway));
            let Some(oldest) = ended.min_by_key(|batch| batch.begun).map(|batch| batch.id.clone()) else {
                let detail = format!("the batches under way have {MOST_IN_BATCHES} runs, or nearly");
                return Err(Problem::new("too_many_runs", detail));
            };
            table.remove(&oldest);
        }
        Ok(())
    }

    /// Adds the run of a job. `None` if there is nothing to submit.
    fn begin_run(&self, batch: &Arc<Batch>, at: usize, line: &Line, place: Place) -> Option<Arc<Run>> {
        let mut held = self.budget.hold();
        held.set(line.place.len());
        let (run, is_new) = match self.runs.begin(&line.identity, held, || Ok(place)) {
            Ok(Begun::New(run)) => (run, true),
            Ok(Begun::Same(run)) => (run, false),
            Err(problem) => {
                batch.entries[at].refuse(problem);
                batch.has_ended(at);
                return None;
            }
        };
        let of = batch.clone();
        run.at_end(move || of.has_ended(at));
        is_new.then_some(run)
    }

    /// What a batch is now.
    pub(crate) fn view(&self, batch: &Batch) -> BatchView {
        let (mut underway, mut unknown, mut ended) = (0, 0, BTreeMap::new());
        for entry in &batch.entries {
            match self.run(entry).map(|run| run.summary()) {
                Some(RunSummary { state: RunState::Underway, .. }) => underway += 1,
                Some(RunSummary { status: Some(status), .. }) => *ended.entry(status).or_default() += 1,
                _ => unknown += 1,
            }
        }
        let state = if underway > 0 { BatchState::Underway } else { BatchState::Ended };
        let runs = batch.entries.iter().map(|entry| entry.id.clone()).collect();
        BatchView { id: batch.id.clone(), state, runs, underway, ended, unknown }
    }

    /// Waits until none of the batch's runs is under way; at most for this time, and not while the gateway stops.
    pub(crate) async fn wait(&self, batch: &Batch, within: Duration) {
        let mut ended = batch.ended.subscribe();
        tokio::select! {
            _ = ended.wait_for(|ended| ended.len() == batch.entries.len()) => {}
            () = self.draining.cancelled() => {}
            () = tokio::time::sleep(within) => {}
        }
    }

    /// Asks the fleet to cancel the runs that are under way.
    pub(crate) async fn cancel(&self, batch: &Batch) -> Result<(), Problem> {
        let runs = batch.entries.iter().filter_map(|entry| self.run(entry)).filter(|run| !run.has_ended());
        let cancel = |run: Arc<Run>| {
            let client = self.client.clone();
            async move { client.cancel(&run.id).await }
        };
        let cancels = stream::iter(runs.map(cancel).collect::<Vec<_>>()).buffer_unordered(AT_ONCE).collect::<Vec<_>>();
        Ok(confirmed(cancels).await?.into_iter().collect::<Result<(), _>>()?)
    }
}
