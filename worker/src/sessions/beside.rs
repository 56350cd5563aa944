//! What a session's requests need of it: its sandbox, a turn, and the news that it ends.

use std::sync::Arc;
use std::time::Duration;

use thermae_backplane::registry::Gone;
use thermae_schemas::{SessionName, TenantName};
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::Session;
use super::queue::Why;
use crate::conn::Conn;
use crate::pool::Pool;

/// Requests of one session that may be open at once.
pub(super) const MOST_OPEN: usize = 256;

/// How long the requests of a session may take to end when the session does.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// What a session has for its requests.
pub(super) struct Beside {
    /// The container with the session's sandbox, once the sandbox is made.
    home: watch::Sender<Option<Arc<Conn>>>,
    turns: Semaphore,
    open: TaskTracker,
    stop: CancellationToken,
}

impl Beside {
    pub(super) fn new(at_once: u32) -> Self {
        Self {
            home: watch::Sender::new(None),
            turns: Semaphore::new(at_once as usize),
            open: TaskTracker::new(),
            stop: CancellationToken::new(),
        }
    }

    /// Lets the requests begin in this container. With `None`, they wait.
    pub(super) fn set_home(&self, home: Option<Arc<Conn>>) {
        self.home.send_replace(home);
    }

    /// Waits until all requests have ended. No new ones come, because the worker drains.
    pub(super) async fn wait(&self) {
        self.open.close();
        self.open.wait().await;
    }

    /// Ends all requests. Returns when nothing of them runs in the sandbox.
    pub(super) async fn end(&self) {
        self.stop.cancel();
        self.open.close();
        if tokio::time::timeout(END_TIMEOUT, self.open.wait()).await.is_err() {
            tracing::warn!("requests to a session did not end with it");
        }
    }
}

/// Why a request can't begin.
pub(crate) enum Absent {
    /// There is no such session here.
    Gone(Gone),
    /// As many requests to the session are open as may be.
    Full(usize),
    /// The tenant's open requests would make the worker hold too much.
    NoRoom,
    /// The worker drains.
    Draining,
}

/// A request's hold on its session. While it exists, the session is not idle.
pub(crate) struct Presence {
    session: Arc<Session>,
    _open: TaskTrackerToken,
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.session.queue.request_ended();
    }
}

impl Presence {
    /// Lets a request into its session.
    pub(super) fn begin(session: &Arc<Session>) -> Result<Self, Why> {
        session.queue.request_begins(MOST_OPEN)?;
        Ok(Self { session: Arc::clone(session), _open: session.beside.open.token() })
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.session.pool
    }

    pub(crate) fn tenant(&self) -> &TenantName {
        &self.session.key.0
    }

    /// Name of the session.
    pub(crate) fn name(&self) -> &SessionName {
        &self.session.key.1
    }

    /// Waits until the session ends.
    pub(crate) async fn stopped(&self) {
        self.session.beside.stop.cancelled().await;
    }

    /// Waits for a turn, and for the session's container. `None` if the session ends first.
    pub(crate) async fn seat(&self) -> Option<(SemaphorePermit<'_>, Arc<Conn>)> {
        let beside = &self.session.beside;
        let seat = async {
            let turn = beside.turns.acquire().await.ok()?;
            let mut home = beside.home.subscribe();
            let home = home.wait_for(Option::is_some).await.ok()?.clone()?;
            Some((turn, home))
        };
        beside.stop.run_until_cancelled(seat).await?
    }
}
