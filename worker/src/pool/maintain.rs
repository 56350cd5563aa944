//! The pool's background task. It makes containers, retires old ones and notices dead ones. While the container engine
//! is down, it tries less and less often.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use thermae_schemas::Language;
use tokio::time::{Instant, timeout};

use super::plan::Bounds;
use super::proof::UNCLEAN;
use super::{Condition, Member, Pool};
use crate::backend::{self, Identity, chain, setup};
use crate::conn::{self, Conn, Pings};
use crate::options::Reuse;

/// How often the task looks at the pool if nothing wakes it.
const TICK: Duration = Duration::from_secs(1);

/// Why a container could not be made.
#[derive(Debug, thiserror::Error)]
enum Error {
    /// The backend can't make it, or can't show it what the options say.
    #[error("{}", chain(.0))]
    Backend(backend::Error),
    /// What the container is shown could not be checked in this time.
    #[error("the folders that jobs are shown could not be checked within {} ms", .0.as_millis())]
    Unchecked(Duration),
    /// The backend did not make it in this time.
    #[error("the container was not made within {} ms", .0.as_millis())]
    Late(Duration),
    /// Its runner did not become ready.
    #[error(transparent)]
    Conn(#[from] conn::Error),
    /// It has no inner wall, for this reason, and one wall is not enough.
    #[error("{0}")]
    Unwalled(String),
}

impl Pool {
    /// Keeps the pool filled until it is closed.
    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            self.tidy();
            self.refill();
            let next = {
                let s = self.state();
                let paused = s.paused.values().sum::<u32>() as usize;
                self.metrics.containers(s.idle.len(), s.busy, paused, s.sessions, s.creating);
                let weights = s.bound().map(Member::weight);
                self.metrics.bound(weights.clone().count(), weights.sum());
                let now = Instant::now();
                s.later().filter(|at| *at > now).map_or(now + TICK, |at| at.min(now + TICK))
            };
            tokio::select! {
                () = self.wake.notified() => {}
                () = tokio::time::sleep_until(next) => {}
                () = self.closed.cancelled() => return,
            }
        }
    }

    /// Removes idle containers that have died, are not clean, or are too old.
    fn tidy(self: &Arc<Self>) {
        let gone = {
            let mut state = self.state();
            let (gone, idle): (Vec<_>, Vec<_>) = std::mem::take(&mut state.idle)
                .into_iter()
                .partition(|m| !m.is_fit() || m.born.elapsed() >= self.options.retire_after.0);
            state.idle = idle;
            gone
        };
        for member in gone {
            if member.conn.closed().is_cancelled() {
                tracing::warn!(pool = %self.name, container = member.container.name(), why = member.conn.why(), "an idle container died");
                self.destroy(member, "it died");
            } else if member.conn.is_unclean() {
                self.quarantine(member, UNCLEAN);
            } else {
                self.destroy(member, "retired");
            }
        }
    }

    /// Begins to make the containers that the pool lacks. Removes idle containers of tenants if there is no memory for
    /// them.
    fn refill(self: &Arc<Self>) {
        let mut evicted = Vec::new();
        let create = {
            let mut state = self.state();
            if state.closed || state.retry_at.is_some_and(|at| Instant::now() < at) {
                return;
            }
            // While the engine fails, the pool tries to make only one container at a time.
            let parallel = if state.failures > 0 { 1 } else { self.options.create_parallel as usize };
            // Once the pool has had all its warm containers, further ones can wait while jobs run. But if each job uses
            // up a container, jobs can only be as fast as containers are made. Then no container waits.
            let patient = *self.warm.borrow() && self.options.reuse != Reuse::Job && !self.lacks_wall();
            let bounds = Bounds {
                slots: self.options.slots() as usize,
                warm: self.options.warm() as usize,
                parallel,
                ahead: if patient { parallel.div_ceil(2) } else { parallel },
            };
            let plan = state.plan(bounds, self.bound_memory, patient);
            evicted.extend((0..plan.evict).filter_map(|_| state.evict()));
            state.creating += plan.create;
            plan.create
        };
        for member in evicted {
            self.metrics.evicted.inc();
            self.destroy(member, "no memory for more containers of tenants");
        }
        for _ in 0..create {
            let pool = Arc::clone(self);
            self.tasks.spawn(async move {
                // Nothing cancels this task, because a container that the engine is still making can't be removed.
                let made = pool.make().await;
                pool.made(made);
            });
        }
    }

    /// Notes the result of an attempt to make a container.
    fn made(self: &Arc<Self>, made: Result<Member, Error>) {
        let mut state = self.state();
        state.creating -= 1;
        match made {
            Ok(member) => {
                if state.failures > 0 {
                    tracing::info!(pool = %self.name, "containers can be made again");
                }
                state.failures = 0;
                state.pauses.reset();
                state.retry_at = None;
                drop(state);
                self.place(member);
                self.stands();
            }
            Err(error) => {
                let why = error.to_string();
                self.metrics.creation_failures.inc();
                state.failures += 1;
                state.retry_at = Some(Instant::now() + state.pauses.next_pause());
                let (first, none_left) = (state.failures == 1, state.idle.is_empty() && state.busy == 0);
                drop(state);
                if first {
                    tracing::warn!(pool = %self.name, error = why, "can't make a container; trying again");
                }
                if none_left {
                    let now = Condition::Unhealthy(why);
                    self.condition.send_if_modified(|c| {
                        !matches!(c, Condition::Unwalled(_)) && std::mem::replace(c, now.clone()) != now
                    });
                } else {
                    self.stands();
                }
            }
        }
        self.wake.notify_one();
    }

    /// Updates the pool's condition after an attempt to make a container, when the pool has at least one. The pool is
    /// warm once it has `warm` containers, or if more can't be made.
    fn stands(&self) {
        let (standing, failing) = {
            let s = self.state();
            (s.idle.len() + s.busy + s.proving + s.sessions, s.failures > 0)
        };
        if standing >= self.options.warm() as usize || failing {
            self.warm.send_if_modified(|warm| !std::mem::replace(warm, true));
        }
        if self.early || *self.warm.borrow() {
            self.condition.send_if_modified(|c| std::mem::replace(c, Condition::Ready) != Condition::Ready);
        }
    }

    /// Makes one container. While its runner starts, the folders of the machine that the container shows are checked.
    /// No job runs in it before both are done.
    async fn make(self: &Arc<Self>) -> Result<Member, Error> {
        let within = 2 * self.options.create_within.0;
        let vetted = timeout(within, self.backend.vet(&self.options));
        let (vetted, member) = tokio::join!(vetted, self.start());
        let why = match vetted {
            Ok(Ok(())) => return member,
            Ok(Err(e)) => Error::Backend(e),
            Err(_) => Error::Unchecked(within),
        };
        if let Ok(mut member) = member {
            drop(member.conn);
            member.container.destroy().await;
        }
        Err(why)
    }

    /// Starts one container and waits until its runner is ready.
    async fn start(self: &Arc<Self>) -> Result<Member, Error> {
        let began = Instant::now();
        let identity = Identity {
            worker: self.worker.clone(),
            fleet: self.fleet.clone(),
            pool: self.name.clone(),
            serial: self.next_serial(),
        };
        let within = self.options.create_within.0;
        let create = self.backend.create(&identity, &self.options);
        let made = timeout(within * 2, create).await.map_err(|_| Error::Late(within * 2))?;
        let mut made = made.map_err(Error::Backend)?;
        let pings = Pings { every: self.options.ping_every.0, within: self.options.ping_within.0 };
        let conn = Conn::start(made.stream, &setup(&self.options, made.python), pings, &self.tasks);
        let ready = self.closed.run_until_cancelled(conn.ready(within)).await;
        match ready.unwrap_or_else(|| Err(conn::Error::Closed("the worker stops".into()))) {
            Ok(ready) => {
                for warning in &ready.warnings {
                    self.warn_once(warning);
                }
                self.metrics.unwalled.set(i64::from(!ready.nested));
                if !ready.nested && !self.one_wall_is_enough() {
                    drop(conn);
                    made.container.destroy().await;
                    // `nested` decides. The runner says why only as one of its warnings, so the text is looked for.
                    let why = ready.warnings.iter().find(|w| w.contains("no inner wall")).cloned();
                    let why = why.unwrap_or_else(|| "no inner wall".to_owned());
                    self.condition.send_replace(Condition::Unwalled(why.clone()));
                    return Err(Error::Unwalled(why));
                }
                let has = |language: &&Language| ready.languages.contains_key(language.as_str());
                let languages = self.options.languages.iter().filter(has).cloned().collect();
                *self.languages.lock().unwrap_or_else(PoisonError::into_inner) = languages;
                self.metrics.creations.observe(began.elapsed().as_secs_f64());
                let now = Instant::now();
                let conn = Arc::new(conn);
                self.watch(&conn);
                Ok(Member {
                    conn,
                    container: made.container,
                    tenant: None,
                    jobs: 0,
                    born: now,
                    used: now,
                    nested: ready.nested,
                    proves: self.options.verify,
                })
            }
            Err(e) => {
                drop(conn);
                made.container.destroy().await;
                Err(e.into())
            }
        }
    }

    /// Wakes the background task when a container dies, so that it is replaced at once.
    fn watch(self: &Arc<Self>, conn: &Conn) {
        let (pool, closed) = (Arc::clone(self), conn.closed().clone());
        self.tasks.spawn(async move {
            closed.cancelled().await;
            pool.wake.notify_one();
        });
    }

    /// Logs a warning only once, because every container of a pool gives the same warnings.
    fn warn_once(&self, warning: &str) {
        if self.metrics.first_warning(warning) {
            tracing::warn!(pool = %self.name, "{warning}");
        }
    }
}
