//! What the gateway can do, as functions. Routes call them, and nothing else talks to the fleet.

mod artifacts;
mod batches;
mod elsewhere;
mod exec;
mod files;
pub(crate) mod job;
mod places;
mod run;
mod runs;
mod sessions;
mod table;
mod tokens;
mod uploads;
mod views;

use std::sync::Arc;
use std::time::Duration;

use thermae_client::Client;
use thermae_fleet::Fleet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::batches::Batches;
use self::elsewhere::Taking;
use self::sessions::Sessions;
use self::table::Runs;
use self::uploads::Uploads;
use crate::budget::{Budget, Held};
use crate::identity::Caller;
use crate::problem::Problem;
use crate::usage::Meter;
use crate::{Metrics, Options};

pub(crate) use artifacts::{Content, artifact, content};
pub(crate) use batches::{Batch, BatchRequest, BatchState, BatchView, ResultLine};
pub(crate) use exec::{ExecRequest, ExecView, Running};
pub(crate) use files::{FileRead, etag, path, regular};
pub(crate) use places::{Place, Places};
pub(crate) use run::{Follow, Next, Run};
pub(crate) use sessions::Restore;
pub use tokens::Tokens;
pub(crate) use tokens::{MintRequest, NarrowRequest, ShowRequest, ShownView, TokenView, narrow};
pub(crate) use uploads::{Upload, UploadView, Wanted};
pub(crate) use views::{AnswerRequest, RunState, RunView, RunsView, SessionsView};

/// How long a scheduler may take to answer a question.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// The functions, for one tenant of a fleet.
pub(crate) struct Service {
    fleet: Arc<Fleet>,
    client: Client,
    runs: Arc<Runs>,
    /// The live sessions.
    pub(crate) sessions: Sessions,
    /// Runs that were submitted together.
    pub(crate) batches: Batches,
    /// Files that come in parts.
    pub(crate) uploads: Uploads,
    /// What the tenant uses.
    pub(crate) meter: Meter,
    taking: Taking,
    /// Submits under way. They go on if the client that asked is gone.
    tasks: TaskTracker,
    draining: CancellationToken,
}

/// Reads a job, as a submit does.
#[cfg(test)]
pub(crate) fn read_job(text: &[u8], key: Option<&str>) -> Result<thermae_schemas::Job, crate::problem::Problem> {
    job::read(text, key, |_| Ok(())).map(|(job, _)| job)
}

/// Reads a command.
#[cfg(test)]
pub(crate) fn read_command(text: &[u8]) -> Result<ExecRequest, crate::problem::Problem> {
    exec::read(text)
}

impl Service {
    pub(crate) fn new(
        fleet: Arc<Fleet>,
        options: &Options,
        budget: Budget,
        places: Places,
        meter: Meter,
        metrics: Metrics,
        draining: CancellationToken,
    ) -> Self {
        let runs = Runs::new(options, budget.clone(), places, meter.clone(), metrics.clone());
        let (client, taking, tasks) = (fleet.client().clone(), Taking::default(), TaskTracker::new());
        let sessions = Sessions { client: client.clone() };
        let uploads = Uploads::new(client.clone(), budget.clone(), metrics, tasks.clone());
        let batches = Batches::new(client.clone(), runs.clone(), budget, tasks.clone(), draining.clone(), options.keep);
        Self { fleet, client, runs, sessions, batches, uploads, meter, taking, tasks, draining }
    }

    /// Forgets runs that ended long ago, batches without runs, and old uploads.
    pub(crate) fn sweep(&self) {
        self.runs.sweep();
        self.batches.sweep();
        self.uploads.sweep();
    }

    /// Forgets runs that have ended, so that this many bytes more may be held.
    pub(crate) fn make_room(&self, bytes: usize) {
        self.runs.make_room(bytes);
    }

    /// Whether it holds no run, neither one under way nor one that has ended, and no upload that is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.tasks.is_empty() && self.runs.is_empty() && self.uploads.is_idle()
    }

    /// The fleet, as the tenant.
    pub(crate) fn fleet(&self) -> Arc<Fleet> {
        self.fleet.clone()
    }

    /// A place among the runs under way.
    pub(crate) fn place(&self, caller: &Caller) -> Result<Place, Problem> {
        self.runs.place(caller)
    }

    /// Begins to hold bytes for the tenant.
    pub(crate) fn hold(&self) -> Held {
        self.runs.hold()
    }

    /// Waits for what still has to end, and disconnects, unless others have the fleet, too.
    pub(crate) async fn close(self) {
        self.uploads.end();
        self.tasks.close();
        let _ = tokio::time::timeout(Duration::from_secs(1), self.tasks.wait()).await;
        if let Some(fleet) = Arc::into_inner(self.fleet) {
            fleet.close().await;
        }
    }
}
