//! Requests to sessions: commands and file operations that run beside a session's programs.
//!
//! ```text
//! control queue ─ Request ─▶ Requests ─▶ a task for each: waits for its session ─▶ relays ◀─ frames ─▶ runner
//! calls queue ─ RequestInput ─▶ its inbox ──────────────────────────────────────────┘  └─▶ events to the client
//! ```
//!
//! Nothing of a request is recorded. The worker remembers how the last ones ended, so that one that comes again is
//! answered and not carried out again. Both sides may send only what the other one has allowed, so the worker holds
//! little, however slow a client or a command is.

mod events;
mod inbox;
mod order;
mod relay;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thermae_backplane::bus::Message;
use thermae_backplane::registry::Gone;
use thermae_schemas::{Body, ErrorCode, ErrorInfo, JobId, Request, RequestDone, RequestEnd, RequestInput, TenantName};
use thermae_service::supervise::caught;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::context::Context;
use crate::ended::{Ended, Key};
use crate::sessions::{Absent, Presence, Sessions};
use events::Events;
use inbox::{Inbox, Unwanted};

/// Bytes that the open requests of one tenant may make the worker hold: their messages and windows together.
const MOST_HELD: usize = 256 << 20;

/// Bytes that a message may have in addition to its content.
const ENVELOPE: usize = 64 << 10;

/// The requests of this worker's sessions.
pub(crate) struct Requests {
    ctx: Arc<Context>,
    sessions: Arc<Sessions>,
    tasks: TaskTracker,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    open: HashMap<Key, Arc<Open>>,
    /// What the open requests of each tenant may make the worker hold, in bytes.
    held: HashMap<TenantName, usize>,
    ended: Ended,
}

/// A request that has not ended.
struct Open {
    inbox: Inbox,
    events: Events,
    /// What it may make the worker hold, in bytes.
    holds: usize,
}

impl Table {
    /// Adds a request. Returns whether it fits beside the tenant's others.
    fn add(&mut self, key: &Key, open: &Arc<Open>) -> bool {
        self.open.insert(key.clone(), Arc::clone(open));
        let held = self.held.entry(key.0.clone()).or_default();
        *held += open.holds;
        *held <= MOST_HELD
    }

    fn remove(&mut self, key: &Key) {
        let Some(open) = self.open.remove(key) else { return };
        if let Some(held) = self.held.get_mut(&key.0) {
            *held -= open.holds;
            if *held == 0 {
                self.held.remove(&key.0);
            }
        }
    }
}

impl Requests {
    /// No requests yet. They will run on `tasks`.
    pub(crate) fn new(ctx: Arc<Context>, sessions: Arc<Sessions>, tasks: TaskTracker) -> Arc<Self> {
        Arc::new(Self { ctx, sessions, tasks, table: Mutex::default() })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a request that a scheduler has sent for this tenant.
    pub(crate) fn take(self: &Arc<Self>, tenant: TenantName, message: &Message) {
        let Ok(mut request) = Request::parse(&message.body) else {
            // A scheduler has read it, so it is of another release.
            tracing::warn!(job.tenant = %tenant, "a request to a session can't be read and is dropped");
            return;
        };
        let Some(events) = Events::new(&self.ctx, &tenant, &request.id, message) else { return };
        let key = (tenant, request.id.clone());
        let (open, fits) = {
            let mut table = self.table();
            if let Some(open) = table.open.get(&key) {
                // It came again. Its client may have a new reply queue.
                open.events.send_to(&events);
                let open = Arc::clone(open);
                self.tasks.spawn(async move { open.events.catch_up(open.inbox.allow(0)).await });
                return;
            }
            if let Some(done) = table.ended.find(&key) {
                self.tasks.spawn(async move { events.done(done).await });
                return;
            }
            let inbox = Inbox::new(request.window, std::mem::take(&mut request.input).into(), !request.more_input);
            let open = Arc::new(Open { inbox, events, holds: request.window as usize + message.body.len() });
            let fits = table.add(&key, &open);
            (open, fits)
        };
        let presence = if fits { self.sessions.enter(&key.0, &request.session) } else { Err(Absent::NoRoom) };
        let requests = Arc::clone(self);
        self.tasks.spawn(async move {
            let served = caught("request to a session", Box::pin(requests.serve(&open, request, presence))).await;
            let done = served.unwrap_or_else(|_| failed(ErrorCode::Internal, "the worker failed; its log says more"));
            requests.end(key, &open, done).await;
        });
    }

    /// Takes what a client says about one of its requests. Returns whether somebody waits for it, or did lately.
    pub(crate) fn say(&self, tenant: &TenantName, request: &str, body: &[u8]) -> bool {
        let largest = Request::CHUNK.div_ceil(3) * 4 + ENVELOPE;
        let Ok(request) = JobId::new(request) else { return false };
        let key = (tenant.clone(), request);
        let open = {
            let table = self.table();
            let Some(open) = table.open.get(&key) else { return table.ended.find(&key).is_some() };
            Arc::clone(open)
        };
        let said = match RequestInput::parse(body) {
            Ok(input) if body.len() <= largest && input.request == key.1 => open.inbox.take(input.say),
            _ => Err(Unwanted::Unreadable),
        };
        if let Err(why) = said {
            tracing::warn!(job.tenant = %tenant, request = %key.1, %why, "what a client says about a request can't be used");
            open.inbox.spoil(why);
        }
        true
    }

    async fn serve(&self, open: &Open, request: Request, presence: Result<Presence, Absent>) -> RequestDone {
        let presence = match presence {
            Ok(presence) => presence,
            Err(absent) => return refused(absent),
        };
        open.events.opened().await;
        relay::run(&self.ctx, open, request, presence).await
    }

    /// Answers a request, and remembers the answer.
    async fn end(&self, key: Key, open: &Open, done: RequestDone) {
        let how = order::how(&done.end);
        self.ctx.metrics.requests.with_label_values(&[how]).inc();
        let body = open.events.body_of(done);
        {
            let mut table = self.table();
            table.remove(&key);
            table.ended.remember(key, body.clone(), Instant::now());
        }
        open.events.done(body).await;
    }
}

/// The end of a request that did nothing.
fn failed(code: ErrorCode, why: impl Into<String>) -> RequestDone {
    RequestDone::bare(RequestEnd::Error { error: ErrorInfo::new(code, why) })
}

fn refused(absent: Absent) -> RequestDone {
    match absent {
        Absent::Gone(Gone::Expired) => {
            failed(ErrorCode::SessionExpired, "The session was idle for too long and was closed. Nothing was done.")
        }
        Absent::Gone(Gone::Evicted) => failed(
            ErrorCode::SessionEvicted,
            "The session was ended to make room for another one of its tenant. Nothing was done.",
        ),
        Absent::Gone(_) => failed(
            ErrorCode::SessionLost,
            "There is no such session on the worker that held it: it was closed, or lost with its sandbox. Nothing was \
             done.",
        ),
        Absent::Draining => {
            failed(ErrorCode::WorkerStopped, "The worker that holds the session stops. Nothing was done.")
        }
        Absent::NoRoom => failed(
            ErrorCode::QuotaExceeded,
            "The tenant's open requests on this worker are too large together. Nothing was done. Use smaller windows, or \
             try again when others have ended.",
        ),
        Absent::Full(most) => failed(
            ErrorCode::QuotaExceeded,
            format!("{most} requests to the session are open. Nothing was done. Try again when others have ended."),
        ),
    }
}
