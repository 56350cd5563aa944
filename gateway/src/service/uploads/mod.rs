//! Uploads that can be continued: a file for a live session comes in parts, after broken connections, too.
//!
//! The gateway keeps no content. It writes each block to the session, and knows how much it wrote. So an upload ends
//! with the session, with the gateway, or with its age.

mod upload;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use schemars::JsonSchema;
use serde::Serialize;
use thermae_client::Client;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::sessions::Sessions;
use crate::Metrics;
use crate::budget::Budget;
use crate::problem::Problem;

pub(crate) use upload::{Upload, Wanted};

/// Most uploads of a tenant that are not complete.
const MOST: usize = 64;
/// Uploads of a tenant that are remembered in all, so that clients which lost the last answer learn of their end.
const REMEMBERED: usize = 256;
/// Most bytes of all uploads of a tenant that are not complete. They are in sessions, which have bounds of their own.
const MOST_BYTES: u64 = 16 << 30;
/// How long an upload can take.
const KEPT: Duration = Duration::from_secs(6 * 3600);
/// What an upload takes in memory, besides its path.
const PER_UPLOAD: usize = 1024;

/// An upload as it is.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct UploadView {
    /// Id of the upload.
    pub(crate) id: String,
    /// How many bytes the session has.
    pub(crate) offset: u64,
    /// Bytes of the whole content.
    pub(crate) length: u64,
    /// Whether the file is there.
    pub(crate) complete: bool,
    /// When the gateway gives the upload up (RFC 3339).
    pub(crate) expires_at: String,
}

fn unknown(id: &str) -> Problem {
    Problem::new("unknown_upload", format!("this gateway holds no upload {id:?}"))
}

/// The uploads of a tenant.
pub(crate) struct Uploads {
    sessions: Arc<Sessions>,
    budget: Budget,
    metrics: Metrics,
    /// Writes and removals under way.
    pub(crate) tasks: TaskTracker,
    table: Mutex<HashMap<String, Arc<Upload>>>,
}

impl Uploads {
    pub(super) fn new(client: Client, budget: Budget, metrics: Metrics, tasks: TaskTracker) -> Self {
        Self { sessions: Arc::new(Sessions { client }), budget, metrics, tasks, table: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Upload>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether all uploads are over.
    pub(super) fn is_idle(&self) -> bool {
        self.lock().values().all(|upload| upload.is_over())
    }

    /// Begins an upload.
    pub(crate) async fn create(&self, wanted: Wanted) -> Result<Arc<Upload>, Problem> {
        let upload = self.add(wanted)?;
        // In a task: if the request is given up, the upload is there or not.
        let beginning = upload.clone();
        let begun = self.tasks.spawn(async move { beginning.begin().await }).await;
        match begun.map_err(|_| Problem::new("internal_error", "the file could not be made")) {
            Ok(Ok(())) => Ok(upload),
            Ok(Err(problem)) | Err(problem) => {
                self.lock().remove(&upload.id);
                Err(problem)
            }
        }
    }

    /// Adds an upload within the bounds.
    fn add(&self, wanted: Wanted) -> Result<Arc<Upload>, Problem> {
        let mut table = self.lock();
        let open = || table.values().filter(|upload| !upload.is_over());
        let bytes = open().fold(wanted.length, |sum, upload| sum.saturating_add(upload.wanted.length));
        if open().count() >= MOST || bytes > MOST_BYTES {
            self.metrics.refused.with_label_values(&["uploads"]).inc();
            let detail =
                format!("the tenant has {MOST} uploads under way, or they would have more than {MOST_BYTES} bytes");
            return Err(Problem::new("too_many_uploads", detail));
        }
        if table.len() >= REMEMBERED {
            let over = table.values().filter(|upload| upload.is_over()).min_by_key(|upload| upload.begun);
            if let Some(oldest) = over.map(|upload| upload.id.clone()) {
                table.remove(&oldest);
            }
        }
        let mut held = self.budget.hold();
        held.take(PER_UPLOAD + 2 * wanted.path.0.len())?;
        let id = Uuid::new_v4().simple().to_string();
        let expires = SystemTime::now() + KEPT;
        let upload = Arc::new(Upload::new(id.clone(), wanted, self.sessions.clone(), expires, held));
        table.insert(id, upload.clone());
        Ok(upload)
    }

    /// The upload with this id.
    pub(crate) fn get(&self, id: &str) -> Result<Arc<Upload>, Problem> {
        let upload = self.lock().get(id).cloned();
        upload.ok_or_else(|| unknown(id))
    }

    /// Gives an upload up. A file that is complete stays.
    pub(crate) async fn give_up(&self, id: &str) -> Result<(), Problem> {
        let upload = self.get(id)?;
        self.lock().remove(id);
        let given_up = self.tasks.spawn(async move { upload.give_up().await });
        given_up.await.map_err(|_| Problem::new("internal_error", "the file could not be removed"))
    }

    /// Gives up what is too old.
    pub(super) fn sweep(&self) {
        self.give_up_where(|upload| upload.begun.elapsed() >= KEPT);
    }

    /// Gives up everything.
    pub(super) fn end(&self) {
        self.give_up_where(|_| true);
    }

    fn give_up_where(&self, wanted: impl Fn(&Upload) -> bool) {
        let gone: Vec<_> = self.lock().extract_if(|_, upload| wanted(upload)).map(|(_, upload)| upload).collect();
        for upload in gone {
            self.tasks.spawn(async move { upload.give_up().await });
        }
    }
}
