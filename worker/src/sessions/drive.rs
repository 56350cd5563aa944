//! The life of one session: its jobs run one after the other, until it ends.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use thermae_backplane::registry::Gone;
use thermae_runner::frames::{End, Place};
use thermae_schemas::{Outcome, SessionState};
use thermae_service::supervise::caught;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::checkpoints::{self, Saved};
use super::queue::{Next, Waiting};
use super::{Session, Sessions};
use crate::attempt::{Ended, Ran, Seat, claim, conclude, prepare, reject, requeue, run_code, span, to_resolve};
use crate::conn::Conn;
use crate::phase::Phase;
use crate::pool::PooledContainer;

/// How long a job may wait for its session before its delivery goes to `resolve`. RabbitMQ's timeout for
/// acknowledgements is 30 minutes.
const WAIT_AT_MOST: Duration = Duration::from_secs(20 * 60);

/// How long the outcome of a job that closes its session waits for a heartbeat that no longer names the session.
const ANNOUNCED_WITHIN: Duration = Duration::from_secs(1);

/// How much of the drain's grace is left for a session's checkpoint when the session's requests are ended.
const FOR_CHECKPOINT: Duration = Duration::from_secs(20);

/// The container that a session lives in.
pub(super) struct Home {
    held: PooledContainer,
    conn: Arc<Conn>,
    /// Whether a job has made the session in it.
    made: bool,
    saved: Saved,
}

/// What a job means for its session.
enum Went {
    /// The session goes on, if it was made.
    On,
    /// The session is lost.
    Over,
    /// The job closed the session.
    Closed,
}

impl Sessions {
    /// Runs a session's jobs until it ends.
    pub(super) async fn drive(self: Arc<Self>, session: Arc<Session>) {
        let mut home: Option<Home> = None;
        let gone = loop {
            for old in session.queue.take_old(WAIT_AT_MOST) {
                to_resolve(&self.ctx, &old.delivery, "waited_long").await;
            }
            let idle = session.idle();
            let next = tokio::select! {
                biased;
                () = self.ctx.draining.cancelled() => {
                    // Requests that do not end by themselves must leave time for the checkpoint, which has what they
                    // did until then.
                    let grace = self.ctx.options.drain_grace.0;
                    let patience = grace.saturating_sub(FOR_CHECKPOINT.min(grace / 2));
                    let requests = tokio::time::timeout(patience, session.beside.wait());
                    self.ctx.stop.run_until_cancelled(requests).await;
                    session.beside.end().await;
                    if let Some(home) = home.as_mut().filter(|h| h.made) {
                        self.last_checkpoint(&session, &home.conn, &mut home.saved).await;
                    }
                    break Gone::Lost;
                }
                () = died(home.as_ref()) => break Gone::Lost,
                next = session.queue.next(idle) => next,
            };
            let job = match next {
                Next::Expired => break Gone::Expired,
                Next::Evicted => {
                    if let Some(home) = home.as_mut().filter(|h| h.made) {
                        self.last_checkpoint(&session, &home.conn, &mut home.saved).await;
                    }
                    break Gone::Evicted;
                }
                Next::Job(job) => job,
            };
            let span = span(&job.work);
            let run = Box::pin(self.job(&session, &mut home, &job));
            let went = async {
                match caught("session's job", run).await {
                    Ok(went) => went,
                    Err(_) => {
                        // The job's code may have started. The sandbox ends with the session.
                        to_resolve(&self.ctx, &job.delivery, "panicked").await;
                        Went::Over
                    }
                }
            };
            let went = went.instrument(span).await;
            session.queue.ended();
            match went {
                Went::Over => break Gone::Lost,
                Went::Closed => break Gone::Closed,
                // The first job never ran, so no session was made, and its name is free for the next job.
                Went::On if home.is_none() => break Gone::Closed,
                Went::On => {}
            }
        };
        self.close(&session, home, gone).await;
    }

    pub(super) async fn close(&self, session: &Session, home: Option<Home>, gone: Gone) {
        let waiting = session.queue.close();
        self.take_off(session, gone);
        session.beside.end().await;
        if let Some(home) = home {
            home.held.discard("its session ended");
        }
        tracing::debug!(session = %session.key.1, ?gone, "a session ended");
        self.end(&session.key, Some(&session.creator), gone).await;
        for job in waiting {
            let span = span(&job.work);
            self.turn_away(&job.delivery, &job.work, gone).instrument(span).await;
        }
    }

    /// Removes a session from the table, unless it was removed already: a new session may then have its name.
    fn take_off(&self, session: &Session, gone: Gone) {
        let mut state = self.state();
        if state.held.get(&session.key).is_some_and(|s| std::ptr::eq(&**s, session)) {
            self.forget(&mut state, &session.key, gone);
        }
    }

    /// Announces that a session is closed before its client gets the result, so that the client does not see the
    /// session if it then asks for its sessions.
    async fn announce_closed(&self, session: &Session) {
        self.take_off(session, Gone::Closed);
        if tokio::time::timeout(ANNOUNCED_WITHIN, self.ctx.pulse.beat()).await.is_err() {
            tracing::warn!(session = %session.key.1, "a closed session stays listed until heartbeats arrive again");
        }
    }

    /// Frees the name of a session that its first job doesn't make, before the job's client gets the outcome: the client
    /// may use the name at once.
    async fn free_name(&self, session: &Session) {
        self.take_off(session, Gone::Closed);
        self.end(&session.key, Some(&session.creator), Gone::Closed).await;
    }

    /// Turns a job away that can't run.
    async fn refuse(&self, session: &Session, made: bool, job: &Waiting, outcome: Outcome) -> Went {
        if !made {
            self.free_name(session).await;
        }
        reject(&self.ctx, &job.delivery, &job.work, outcome).await;
        Went::On
    }

    // What happens rarely is boxed, as in `pool_job`.
    async fn job(&self, session: &Session, home: &mut Option<Home>, job: &Waiting) -> Went {
        let (ctx, Waiting { work, delivery, .. }) = (&self.ctx, job);
        let began = Instant::now();
        let mut prepared = match prepare(ctx, work, session.pool.options()).await {
            Ok(prepared) => prepared,
            Err(outcome) => return Box::pin(self.refuse(session, home.is_some(), job, outcome)).await,
        };
        let (reset, close) = work.job.session.as_ref().map_or((false, false), |s| (s.reset, s.close));
        let anew = reset || home.is_none();
        let mut begins = None;
        if anew {
            match checkpoints::find(ctx, work, session, &mut prepared).await {
                Ok(found) => begins = Some(found),
                Err(outcome) => return Box::pin(self.refuse(session, home.is_some(), job, outcome)).await,
            }
        }
        ctx.moves(work, delivery.message.body.len());
        let seat = async {
            session.pool.traffic().wait_for_allowance(&work.key.tenant).await;
            let permit = Arc::clone(session.pool.slots()).acquire_owned().await.ok()?;
            let Some((saved, restored)) = begins else { return Some((permit, None)) };
            let (mut held, warmth) = session.pool.acquire(&work.key.tenant).await.ok()?;
            ctx.metrics.acquired(&work.job.pool, warmth);
            held.keep_for_session();
            Some((permit, Some((Home { conn: held.conn(), held, made: false, saved }, restored))))
        };
        let seated = tokio::select! {
            biased;
            permit = seat => permit,
            () = ctx.draining.cancelled() => None,
        };
        let Some((permit, new)) = seated else {
            Box::pin(requeue(ctx, delivery, "no_container")).await;
            return Went::On;
        };
        ctx.metrics.phase(&work.job.pool, Phase::Acquire, began.elapsed().as_secs_f64());
        let Some(guard) = claim(ctx, delivery, work).await else {
            // The job must not run here. A container that was taken for it is removed, although no code ran in it.
            if let Some((new, _)) = new {
                new.held.discard("its session was never made");
            }
            return Went::On;
        };
        let mut restored = 0;
        if let Some((new, files)) = new {
            restored = files;
            session.beside.set_home(None);
            if let Some(old) = home.replace(new) {
                old.held.discard("its session was reset");
            }
        }
        let Some(home_now) = home.as_mut() else { return Went::On };
        if let Some(ms) = work.job.session.as_ref().and_then(|s| s.idle_ms) {
            session.idle_ms.store(ms, Ordering::Relaxed);
        }
        let fresh = !home_now.made;
        home_now.saved.heed(work, fresh);
        // A session that goes back to its own checkpoint keeps it until it has another.
        let goes_back = work.job.session.as_ref().is_some_and(|wish| wish.restore.as_ref() == Some(&wish.id));
        if reset && !goes_back {
            self.forget_older(session, &mut home_now.saved).await;
        }
        home_now.made = true;
        home_now.held.count_job();
        let place = Place::Session { session: session.key.1.to_string(), create: fresh };
        let ran = {
            let mut seat = Seat::new(ctx, work, delivery, &session.pool, permit, false);
            let run = run_code(ctx, work, &guard, &mut prepared, &home_now.conn, place, &mut seat);
            tokio::pin!(run);
            tokio::select! {
                // The sandbox is there as soon as its first code runs.
                () = guard.runs.cancelled(), if fresh => {
                    session.beside.set_home(Some(Arc::clone(&home_now.conn)));
                    run.await
                }
                ran = &mut run => ran,
            }
        };
        let alive = lives(&ran, home_now.conn.session_closed());
        if fresh && alive {
            session.beside.set_home(Some(Arc::clone(&home_now.conn)));
        }
        prepared.checkpoint = Vec::new();
        if fresh && !guard.runs.is_cancelled() && matches!(&ran.ended, Ended::Exit(exit) if exit.end == End::Killed) {
            // It was cancelled before its code started, so no session was made.
            session.queue.ended();
            self.free_name(session).await;
            conclude(ctx, delivery, work, guard, ran, &prepared, None).await;
            if let Some(home) = home.take() {
                home.held.discard("its session was never made");
            }
            return Went::On;
        }
        let mut state = SessionState::new(session.key.1.clone(), fresh, alive, restored);
        if !matches!(ran.ended, Ended::LeaseLost(_)) {
            self.after_job(session, &home_now.conn, &mut home_now.saved, &guard, killed(&ran), &mut state).await;
        }
        let alive = alive && !home_now.conn.session_closed().is_cancelled();
        state.alive = alive && !close;
        // This comes before the result, because a client that has the result may rely on the session being idle.
        session.queue.ended();
        if close {
            self.announce_closed(session).await;
        }
        conclude(ctx, delivery, work, guard, ran, &prepared, Some(state)).await;
        match (close, alive) {
            (true, _) => Went::Closed,
            (false, true) => Went::On,
            (false, false) => Went::Over,
        }
    }
}

/// Waits until the session's sandbox is dead.
async fn died(home: Option<&Home>) {
    match home {
        Some(home) => {
            let (closed, session): (&CancellationToken, _) = (home.conn.closed(), home.conn.session_closed());
            tokio::select! {
                () = closed.cancelled() => {}
                () = session.cancelled() => {}
            }
        }
        None => std::future::pending().await,
    }
}

/// Whether the runner killed the session with this run, because the code did not end when it was interrupted. The runner
/// then still has the session's files.
fn killed(ran: &Ran) -> bool {
    let Ended::Exit(exit) = &ran.ended else { return false };
    let defied = match &exit.end {
        End::Killed => true,
        End::TimedOut { limit, soft } => limit == "wall" && !soft,
        _ => false,
    };
    defied && !exit.session_lives && ran.usable
}

/// Whether the session goes on after this run.
fn lives(ran: &Ran, closed: &CancellationToken) -> bool {
    let said = matches!(&ran.ended, Ended::Exit(exit) if exit.session_lives);
    said && ran.usable && !closed.is_cancelled()
}
