//! The dispatcher: decides which job is handed out next, and when.
//!
//! One task owns all of the dispatcher's state. These events wake it: a job arrives, a hand-out ends, credit is given
//! back, a new snapshot of the workers comes, or a deadline passes. It doesn't poll for jobs. If there is credit, a job
//! is handed out as soon as it arrives.
//!
//! ```text
//!  lanes ──▶ arrive ──▶ [ pool: Fair over tenants ] ──▶ start ──▶ admit::assign ──▶ finished ──┐
//!                              ▲                                                               │
//!                              └── put back: no credit, tenant busy, no worker, registry away ──┘
//! ```
//!
//! The *allowance* of a pool is the dispatcher's estimate of the pool's free credit. It saves calls that the registry
//! would refuse anyway. Only the registry's own check decides.

mod gates;
mod handed;
mod pool;
mod reserve;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ahash::HashMap;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use thermae_backplane::registry::Notice;
use thermae_schemas::{ErrorInfo, OLDEST, PoolName, SessionName, TenantName};
use thermae_service::backoff::Backoff;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::admit::{self, End, Offer};
use crate::answer::give_back;
use crate::context::{Context, now_ms};
use crate::fair::Popped;
use crate::fleet::FleetView;
use crate::head::Head;
use crate::intake::Lanes;
use gates::Gates;
use handed::Handed;
use pool::{Due, Pool};

/// When this scheduler stops leading, hand-outs that have begun may take this long to end.
const DRAIN: Duration = Duration::from_secs(2);

type Waiting = Popped<TenantName, Head>;

/// A hand-out that has ended. `end` holds the job if the job must be put back.
struct Done {
    pool: PoolName,
    position: Position,
    /// Whether the job could get new credit. Otherwise, it was handed out only if it had credit already.
    in_turn: bool,
    /// How many times credit had been given back when the hand-out began.
    returned: u64,
    session: Option<(TenantName, SessionName)>,
    end: End,
}

/// Where a job stood in its queue, without the job.
type Position = Popped<TenantName, ()>;

/// The dispatcher's state (see the docs of this module).
pub(crate) struct Dispatcher {
    ctx: Context,
    lanes: Lanes,
    pools: BTreeMap<PoolName, Pool>,
    gates: Gates,
    /// Sessions with a job that is being handed out, and that session's next jobs. They wait here, which keeps their
    /// order.
    sessions: HashMap<(TenantName, SessionName), Vec<Waiting>>,
    flight: FuturesUnordered<BoxFuture<'static, Done>>,
    handed: Handed,
    backoff: Backoff,
    paused_until: Option<Instant>,
}

impl Dispatcher {
    pub(crate) fn new(ctx: Context, lanes: Lanes) -> Self {
        Self {
            ctx,
            lanes,
            pools: BTreeMap::new(),
            gates: Gates::default(),
            sessions: HashMap::default(),
            flight: FuturesUnordered::new(),
            handed: Handed::default(),
            backoff: Backoff::default(),
            paused_until: None,
        }
    }

    /// Runs until this scheduler no longer leads. Jobs that wait here go back to their queues when their consumers end.
    pub(crate) async fn run(mut self, mut arrivals: mpsc::Receiver<Head>) {
        let _drained = self.ctx.drained.clone().drop_guard();
        let mut notices = self.ctx.registry.notices();
        let mut fleet = self.ctx.fleet.clone();
        let mut tick = tokio::time::interval(self.ctx.options.tick.duration());
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let stop = self.ctx.stop.clone();
        self.snapshot(&fleet.borrow_and_update().clone());
        let mut notices_open = true;
        loop {
            self.start_all();
            let wake = self.wake_at();
            tokio::select! {
                biased;
                () = stop.cancelled() => return self.drain().await,
                Some(done) = self.flight.next(), if !self.flight.is_empty() => self.finished(done),
                () = self.handed.ended() => {}
                arrival = arrivals.recv() => match arrival {
                    Some(head) => self.arrive(head),
                    None => return,
                },
                notice = notices.recv(), if notices_open => match notice {
                    Ok(Notice::Credit(pool)) => self.credit(&pool),
                    Ok(Notice::Workers | Notice::Epoch) => {}
                    Err(RecvError::Lagged(_)) => self.pools.values_mut().for_each(Pool::trust),
                    Err(RecvError::Closed) => notices_open = false,
                },
                Ok(()) = fleet.changed() => {
                    let now = fleet.borrow_and_update().clone();
                    self.snapshot(&now);
                }
                () = tokio::time::sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => self.woken(),
                _ = tick.tick() => self.tick(),
            }
        }
    }

    /// Lets hand-outs that have begun end, for at most [`DRAIN`]. All other jobs go back to their queues.
    async fn drain(mut self) {
        let half_done = async { while self.flight.next().await.is_some() {} };
        if tokio::time::timeout(DRAIN, half_done).await.is_err() {
            tracing::debug!("some jobs were given back before they were fully handed out");
        }
    }

    /// Takes in a job that has come to the head of its queue.
    fn arrive(&mut self, head: Head) {
        let (weight, pool) = (self.ctx.options.weight(&head.key.tenant), self.pool(&head.lane.pool));
        if let Some(stale) = pool.replace(&head) {
            // The broker has delivered the same job again: the connection of the first delivery was lost, or the job
            // was submitted twice.
            let old = std::mem::replace(stale, head).delivery;
            self.ctx.spawn("give back", async move { give_back(&old).await });
            return;
        }
        let tenant = head.key.tenant.clone();
        pool.push(weight, head);
        if self.gates.is_shut(&tenant) {
            self.pools.values_mut().for_each(|pool| pool.fair.block(&tenant));
        }
    }

    fn pool(&mut self, name: &PoolName) -> &mut Pool {
        if !self.pools.contains_key(name) {
            let mut pool = Pool::default();
            if let Some(view) = self.ctx.fleet.borrow().pools.get(name) {
                pool.see(view);
            }
            self.pools.insert(name.clone(), pool);
        }
        // The pool exists by now: this inserts nothing.
        self.pools.entry(name.clone()).or_default()
    }

    /// Hands out as many jobs as possible, one of each pool in turn.
    fn start_all(&mut self) {
        if self.paused_until.is_some() {
            return;
        }
        let names: Vec<PoolName> =
            self.pools.iter().filter(|(_, pool)| pool.may_start()).map(|(name, _)| name.clone()).collect();
        let mut more = !names.is_empty();
        while more {
            more = false;
            for name in &names {
                if self.flight.len() >= self.ctx.options.concurrency {
                    return;
                }
                more |= self.start_one(name);
            }
        }
        self.ctx.metrics.flight(self.flight.len());
    }

    /// Starts the hand-out of a pool's next job. `false` if the pool has none to start.
    fn start_one(&mut self, name: &PoolName) -> bool {
        let Some(pool) = self.pools.get_mut(name) else { return false };
        let popped = pool.pop();
        let in_turn = popped.is_some();
        let Some(popped) = popped.or_else(|| pool.pop_credited()) else { return false };
        if pool.must_park(&popped) {
            self.ctx.metrics.returned("protocol");
            pool.parked.push(popped);
            return true;
        }
        // A job that no worker can run gets no new credit. It may have some, or be over already. A session's job goes
        // on: only the registry knows who holds the session.
        let in_turn = in_turn && (pool.speaks(&popped.item) || popped.item.session.is_some());
        let session = popped.item.session.as_ref().map(|s| (popped.tenant.clone(), s.id.clone()));
        if let Some(session) = &session {
            if let Some(behind) = self.sessions.get_mut(session) {
                behind.push(popped);
                return true;
            }
            self.sessions.insert(session.clone(), Vec::new());
        }
        pool.allowance -= i64::from(in_turn);
        let returned = pool.returned;
        let offer = Offer {
            // Without credit, the registry hands out nothing that has none: no job overtakes another one.
            credit: if in_turn { pool.credit } else { 0 },
            tenant_share: pool.share(&popped.tenant, &self.ctx.options),
            candidate: session
                .as_ref()
                .and_then(|_| pool.session_workers.best(popped.item.protocol, &popped.tenant).cloned()),
        };
        if self.gates.probe(&popped.tenant) {
            self.pools.values_mut().for_each(|pool| pool.fair.block(&popped.tenant));
        }
        let (ctx, pool) = (self.ctx.clone(), name.clone());
        let (position, head) = popped.apart();
        self.flight.push(Box::pin(async move {
            let end = admit::assign(ctx, head, offer).await;
            Done { pool, position, in_turn, returned, session, end }
        }));
        true
    }

    /// Handles the end of a hand-out.
    fn finished(&mut self, done: Done) {
        let Done { pool: name, position, in_turn, returned, session, end } = done;
        let tenant = position.tenant.clone();
        let weight = self.ctx.options.weight(&tenant);
        let busy = matches!(end, End::TenantBusy(_));
        let away = matches!(end, End::RegistryAway(_) | End::GivenBack);
        let taken_back = matches!(end, End::TakenBack);
        let Some(pool) = self.pools.get_mut(&name) else { return };
        match end {
            End::Assigned { to, repeat, due } => {
                pool.placed(&to, repeat);
                if let Some(job) = due {
                    self.handed.push(*job);
                }
            }
            End::Answered => pool.refund(),
            End::GivenBack | End::TakenBack => pool.refund(),
            End::NoCredit(head) if !in_turn => pool.unpop(weight, position.with(head)),
            End::NoCredit(head) => {
                self.ctx.metrics.returned("no_credit");
                pool.exhausted(returned);
                pool.unpop(weight, position.with(head));
            }
            End::TenantBusy(head) => {
                self.ctx.metrics.returned("tenant_busy");
                pool.refund();
                pool.unpop(weight, position.with(head));
            }
            End::RegistryAway(head) => {
                pool.refund();
                pool.unpop(weight, position.with(head));
            }
            End::RegistryFull(head) => {
                self.ctx.metrics.returned("registry_full");
                pool.refund();
                pool.parked.push(position.with(head));
            }
            End::Parked(head, unreachable) => {
                self.ctx.metrics.returned("no_session_worker");
                pool.refund();
                if let Some(worker) = unreachable {
                    pool.avoid(worker);
                }
                pool.parked.push(position.with(head));
            }
        }
        if busy {
            self.gates.shut(&tenant);
            self.pools.values_mut().for_each(|pool| pool.fair.block(&tenant));
        } else if self.gates.passed(&tenant) {
            self.pools.values_mut().for_each(|pool| pool.fair.unblock(&tenant));
        }
        if let Some(behind) = session.and_then(|session| self.sessions.remove(&session)) {
            for waiting in behind {
                self.put_back(waiting);
            }
        }
        if away {
            self.paused_until = Some(Instant::now() + self.backoff.next_pause());
        } else if !taken_back {
            self.backoff.reset();
        }
    }

    fn put_back(&mut self, waiting: Waiting) {
        let weight = self.ctx.options.weight(&waiting.tenant);
        let pool = waiting.item.lane.pool.clone();
        self.pool(&pool).unpop(weight, waiting);
    }

    /// Notes that credit of a pool was given back, and lets in one tenant that waited for credit.
    fn credit(&mut self, name: &PoolName) {
        if let Some(pool) = self.pools.get_mut(name) {
            pool.credit_returned();
        }
        if let Some(tenant) = self.gates.open_one() {
            self.pools.values_mut().for_each(|pool| pool.fair.unblock(&tenant));
        }
    }

    /// Takes over a new snapshot of the workers. Jobs that were parked get another try.
    fn snapshot(&mut self, fleet: &Arc<FleetView>) {
        for (name, view) in &fleet.pools {
            self.pool(name).see(view);
        }
        let parked: Vec<Waiting> = self.pools.values_mut().flat_map(|pool| std::mem::take(&mut pool.parked)).collect();
        for waiting in parked {
            self.put_back(waiting);
        }
    }

    /// When the dispatcher must wake up without an event: at the end of a pause, or at a deadline.
    fn wake_at(&self) -> Option<Instant> {
        if self.paused_until.is_some() {
            return self.paused_until;
        }
        let first = self.pools.values().filter_map(Pool::first_deadline).chain(self.handed.first_deadline()).min()?;
        Some(Instant::now() + Duration::from_millis(first.saturating_sub(now_ms())))
    }

    fn woken(&mut self) {
        if self.paused_until.take().is_some() {
            return;
        }
        self.handed.end_late(&self.ctx);
        let now = now_ms();
        let late: Vec<(PoolName, Due, Head)> = self
            .pools
            .iter_mut()
            .flat_map(|(name, pool)| pool.late(now).into_iter().map(|(due, head)| (name.clone(), due, head)))
            .collect();
        for (pool, due, head) in late {
            let position = Popped { tenant: due.tenant, class: due.class, ticket: due.ticket, item: () };
            self.refuse(pool, position, head, admit::late());
        }
    }

    /// Refuses a job that is not to wait any longer.
    fn refuse(&mut self, pool: PoolName, position: Position, head: Head, why: ErrorInfo) {
        let ctx = self.ctx.clone();
        // When this ends, `finished` adds one to the allowance, as after a hand-out. So one is taken off here.
        if let Some(pool) = self.pools.get_mut(&pool) {
            pool.allowance -= 1;
        }
        self.flight.push(Box::pin(async move {
            let end = admit::refuse(&ctx, head, why).await;
            Done { pool, position, in_turn: true, returned: 0, session: None, end }
        }));
    }

    /// Rejects the jobs that no worker has served for a long time: all of a pool without workers, and those whose
    /// protocol no worker of the pool speaks.
    fn refuse_unserved(&mut self) {
        let patience = self.ctx.options.no_worker_after.duration();
        let fleet = self.ctx.fleet.borrow().clone();
        let refused = |name: &PoolName, protocol| fleet.pools.get(name)?.refusal(name, protocol, patience);
        let names: Vec<PoolName> = self.pools.keys().cloned().collect();
        for name in names {
            let Some(pool) = self.pools.get_mut(&name) else { continue };
            let most = self.ctx.options.concurrency.saturating_sub(self.flight.len());
            let (waiting, error) = match (refused(&name, OLDEST), refused(&name, fleet.newest)) {
                (Some(error), _) => (pool.take(most), error),
                (None, Some(error)) => (pool.take_unspoken(most), error),
                (None, None) => continue,
            };
            for popped in waiting {
                let (position, head) = popped.apart();
                let error = refused(&name, head.protocol).unwrap_or_else(|| error.clone());
                self.refuse(name.clone(), position, head, error);
            }
        }
    }

    /// Runs at each tick: lets in tenants in case a notice of credit was lost, ends long waits, and updates the
    /// metrics.
    fn tick(&mut self) {
        while let Some(tenant) = self.gates.open_one() {
            self.pools.values_mut().for_each(|pool| pool.fair.unblock(&tenant));
        }
        self.refuse_unserved();
        let hold_max = self.ctx.options.hold_max.duration();
        for lane in self.lanes.list() {
            let Some(pool) = self.pools.get_mut(&lane.pool) else { continue };
            if pool.holds_longer_than(&lane, hold_max) {
                tracing::debug!(%lane, "jobs could not be handed out for a long time; giving them back to their queue");
                pool.give_up(&lane);
                self.lanes.restart(&lane);
            }
        }
        for (name, pool) in &self.pools {
            self.ctx.metrics.waiting(name.as_str(), pool.fair.len() + pool.parked.len(), pool.fair.tenants());
        }
    }
}
