//! Sessions. Each holds its own container, and runs its jobs one after the other, in the order in which they came.
//!
//! An idle session holds no slot. A session ends when a job closes it, when it was idle for too long, when its sandbox
//! dies, when the worker drains, or when it makes room for another session of its tenant. The registry, and the jobs
//! that still wait for the session, are told the reason. A session is never silently replaced by an empty one.

mod beside;
mod checkpoints;
mod drive;
mod queue;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ahash::HashMap;
use thermae_backplane::bus::Delivery;
use thermae_backplane::registry::Gone;
use thermae_schemas::{ErrorCode, IfGone, JobId, Outcome, SessionHeld, SessionName, TenantName};
use thermae_service::supervise::caught;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use crate::attempt::{reject, span, to_resolve};
use crate::context::Context;
use crate::pool::Pool;
use crate::work::Work;
use beside::Beside;
pub(crate) use beside::{Absent, Presence};
use queue::{Queue, Refused, Why};

/// Number of ended sessions that are remembered, so that a job that comes too late is told the reason.
const REMEMBERED: usize = 1024;

/// Tenant and name of a session.
type Key = (TenantName, SessionName);

/// The sessions of this worker.
pub(crate) struct Sessions {
    ctx: Arc<Context>,
    tasks: TaskTracker,
    state: Mutex<State>,
    /// Checkpoints that may be taken at once.
    checkpoints: Semaphore,
}

#[derive(Default)]
struct State {
    held: HashMap<Key, Arc<Session>>,
    ended: VecDeque<Past>,
}

/// A session that has ended.
struct Past {
    key: Key,
    creator: JobId,
    gone: Gone,
}

impl State {
    /// The last session of this name that has ended.
    fn past(&self, key: &Key) -> Option<&Past> {
        self.ended.iter().rfind(|past| past.key == *key)
    }
}

struct Session {
    key: Key,
    /// The job that was to make it.
    creator: JobId,
    pool: Arc<Pool>,
    queue: Queue,
    beside: Beside,
    /// How long the session may be idle, in milliseconds.
    idle_ms: AtomicU64,
}

impl Session {
    fn new(key: Key, creator: JobId, pool: Arc<Pool>) -> Self {
        let idle_ms = AtomicU64::new(pool.options().session_idle.as_millis());
        let beside = Beside::new(pool.options().bounds.session_requests);
        Self { key, creator, pool, queue: Queue::new(), beside, idle_ms }
    }

    fn idle(&self) -> Duration {
        Duration::from_millis(self.idle_ms.load(Ordering::Relaxed))
    }
}

impl Sessions {
    /// No sessions yet. Their tasks will run on `tasks`.
    pub(crate) fn new(ctx: Arc<Context>, tasks: TaskTracker) -> Arc<Self> {
        let checkpoints = Semaphore::new(checkpoints::AT_ONCE);
        Arc::new(Self { ctx, tasks, state: Mutex::default(), checkpoints })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sessions as a heartbeat reports them.
    pub(crate) fn held(&self) -> Vec<SessionHeld> {
        let state = self.state();
        let held = state.held.values().map(|s| SessionHeld {
            tenant: s.key.0.clone(),
            session: s.key.1.clone(),
            pool: s.pool.name().clone(),
            expires_in_ms: s.queue.expires_in(s.idle()).as_millis() as u64,
            evictable: s.queue.evictable_since(s.pool.options().session_min_idle.0).is_some(),
        });
        held.collect()
    }

    /// Lets a request into its session.
    pub(crate) fn enter(&self, tenant: &TenantName, session: &SessionName) -> Result<Presence, Absent> {
        if self.ctx.draining.is_cancelled() {
            return Err(Absent::Draining);
        }
        let key = (tenant.clone(), session.clone());
        let state = self.state();
        let ended = || state.past(&key).map_or(Gone::Lost, |past| past.gone);
        let Some(session) = state.held.get(&key) else { return Err(Absent::Gone(ended())) };
        Presence::begin(session).map_err(|why| match why {
            Why::Full => Absent::Full(beside::MOST_OPEN),
            Why::Evicted => Absent::Gone(Gone::Evicted),
            Why::Ended => Absent::Gone(ended()),
        })
    }

    /// Takes a job of a session: puts it into the session's queue, makes the session if that is allowed, or turns the
    /// job away. The jobs of one session must come here in their order.
    pub(crate) fn submit(self: &Arc<Self>, name: SessionName, work: Work, delivery: Delivery) {
        let key = (work.key.tenant.clone(), name);
        let mut state = self.state();
        let (work, delivery) = match state.held.get(&key) {
            Some(session) => {
                let most = session.pool.options().bounds.session_queue_bytes.0;
                match session.queue.push(work, delivery, most).map_err(|refused| *refused) {
                    Ok(()) => return,
                    Err(Refused { work, delivery, why: Why::Ended | Why::Evicted }) => (work, delivery),
                    Err(Refused { work, delivery, why: Why::Full }) => {
                        drop(state);
                        let ctx = Arc::clone(&self.ctx);
                        self.tasks.spawn(async move {
                            let span = span(&work);
                            reject(&ctx, &delivery, &work, full(most)).instrument(span).await;
                        });
                        return;
                    }
                }
            }
            None => (work, delivery),
        };
        let refusal = if work.create_session { self.make_room(&state, &work) } else { Err(None) };
        match refusal {
            Ok(pool) => {
                let session = Arc::new(Session::new(key.clone(), work.key.job.clone(), pool));
                drop(session.queue.push(work, delivery, u64::MAX));
                state.ended.retain(|past| past.key != key);
                state.held.insert(key, Arc::clone(&session));
                self.ctx.metrics.sessions.set(state.held.len() as i64);
                drop(state);
                let sessions = Arc::clone(self);
                self.tasks.spawn(async move {
                    let life = Arc::clone(&sessions).drive(Arc::clone(&session));
                    if caught("session", life).await.is_err() {
                        sessions.close(&session, None, Gone::Lost).await;
                    }
                });
            }
            Err(outcome) => {
                let past = state.past(&key);
                let (creator, gone) = past.map_or((None, Gone::Lost), |past| (Some(past.creator.clone()), past.gone));
                drop(state);
                let sessions = Arc::clone(self);
                self.tasks.spawn(async move {
                    let span = span(&work);
                    let refuse = async {
                        match outcome {
                            Some(outcome) => {
                                // The session was placed here and never made, so its name is free again.
                                sessions.end(&key, Some(&work.key.job), Gone::Closed).await;
                                reject(&sessions.ctx, &delivery, &work, outcome).await;
                            }
                            None => {
                                // A late heartbeat may have announced it again.
                                sessions.end(&key, creator.as_ref(), gone).await;
                                sessions.turn_away(&delivery, &work, gone).await;
                            }
                        }
                    };
                    refuse.instrument(span).await;
                });
            }
        }
    }

    /// Makes room for one more session of the job's tenant. If a bound is reached, the session of the same tenant that
    /// was used longest ago is ended, if it was unused for long enough. Its own task keeps its files and ends it.
    #[allow(clippy::result_large_err, reason = "made once per session that is turned away")]
    fn make_room(&self, state: &State, work: &Work) -> Result<Arc<Pool>, Option<Outcome>> {
        let Some(pool) = self.ctx.pool(&work.job.pool) else {
            let message = format!("This worker does not serve the pool {}.", work.job.pool);
            return Err(Some(Outcome::rejected(ErrorCode::UnknownPool, message)));
        };
        let options = pool.options();
        let (max, max_own) = (options.max_sessions as usize, options.max_sessions_per_tenant() as usize);
        let least = options.session_min_idle.0;
        let of_pool = || state.held.values().filter(|s| Arc::ptr_eq(&s.pool, pool) && !s.queue.is_evicted());
        let own = || of_pool().filter(|s| s.key.0 == work.key.tenant);
        let (all, mine) = (of_pool().count(), own().count());
        if all >= max || mine >= max_own {
            let oldest =
                own().filter_map(|s| Some((s.queue.evictable_since(least)?, s))).min_by_key(|(since, _)| *since);
            if oldest.is_none_or(|(_, session)| !session.queue.evict(least)) {
                let (bound, option) = if all >= max {
                    (format!("{max} sessions"), "max_sessions")
                } else {
                    (format!("{max_own} sessions of this tenant"), "max_sessions_per_tenant")
                };
                let message = format!(
                    "This worker holds its maximum of {bound} ({option}), and none of this tenant's was unused for {} s \
                     (session_min_idle). Close one, try again later, or raise {option}.",
                    least.as_secs_f64()
                );
                return Err(Some(Outcome::rejected(ErrorCode::SessionLimit, message)));
            }
        }
        Ok(Arc::clone(pool))
    }

    /// Removes a session from the table. The session's own task ends it.
    fn forget(&self, state: &mut State, key: &Key, gone: Gone) {
        let Some(session) = state.held.remove(key) else { return };
        if state.ended.len() == REMEMBERED {
            state.ended.pop_front();
        }
        state.ended.push_back(Past { key: key.clone(), creator: session.creator.clone(), gone });
        self.ctx.metrics.sessions.set(state.held.len() as i64);
        let why = match gone {
            Gone::Expired => "expired",
            Gone::Evicted => "evicted",
            Gone::Lost => "lost",
            Gone::Closed => "closed",
        };
        self.ctx.metrics.sessions_ended.with_label_values(&[why]).inc();
    }

    /// Tells the registry that a session has ended.
    async fn end(&self, key: &Key, creator: Option<&JobId>, gone: Gone) {
        let (ctx, id) = (&self.ctx, &self.ctx.id);
        let ended = ctx.insist("end session", || ctx.registry.end_session(&key.0, &key.1, id, creator, gone)).await;
        if let Some(Err(e)) = ended {
            tracing::error!(session = %key.1, error = %e, "the session's end can't be recorded");
        }
    }

    /// Answers a job whose session has ended.
    async fn turn_away(&self, delivery: &Delivery, work: &Work, gone: Gone) {
        let anew = work.job.session.as_ref().is_some_and(|s| s.if_gone() == IfGone::New);
        if anew || gone == Gone::Closed {
            // A scheduler places the session again. If this worker made it, there might be two with the same name.
            return to_resolve(&self.ctx, delivery, "session_gone").await;
        }
        let outcome = match gone {
            Gone::Expired => Outcome::rejected(
                ErrorCode::SessionExpired,
                "The session was idle for too long and was closed; its variables are gone. Nothing of this job ran.",
            ),
            Gone::Evicted => Outcome::rejected(
                ErrorCode::SessionEvicted,
                "The session was ended to make room for another one of its tenant; its variables are gone. Nothing of \
                 this job ran.",
            ),
            _ => Outcome::rejected(
                ErrorCode::SessionLost,
                "The session was lost with its sandbox; its variables are gone. Nothing of this job ran.",
            ),
        };
        reject(&self.ctx, delivery, work, outcome).await;
    }
}

/// The outcome of a job for which its session's queue has no room.
fn full(most: u64) -> Outcome {
    let message = format!(
        "Together, the jobs that wait for the session have more than {most} bytes. Nothing of this job ran. Submit it \
         again when others have ended; the pool's operator can raise bounds.session_queue_bytes."
    );
    Outcome::rejected(ErrorCode::QuotaExceeded, message)
}
