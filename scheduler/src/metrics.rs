//! Every metric of the scheduler, with its name, labels and meaning.

use std::time::Duration;

use prometheus::core::Collector;
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};
use thermae_backplane::registry::Usage;
use thermae_schemas::{Class, ErrorCode, Heartbeat, PoolName, WorkerState};

/// Buckets in seconds: fine below 5 ms, where handing out takes place, and up to an hour, which jobs may wait in
/// queues.
const WAITS: &[f64] = &[
    0.0005, 0.001, 0.002, 0.003, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
    1800.0, 3600.0,
];
const ROUND_TRIPS: &[f64] =
    &[0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.002, 0.003, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5];

/// Why a hand-out had to wait.
const REASONS: [&str; 5] = ["no_credit", "tenant_busy", "no_session_worker", "registry_full", "protocol"];
/// What a cancel met: the state of its job, or `malformed` if the cancel can't be read.
const MET: [&str; 4] = ["waiting", "running", "ended", "malformed"];
/// What a request to a session met: the state of its session, or `malformed` if the request can't be used.
const REQUESTS_MET: [&str; 5] = ["live", "gone", "older_worker", "unsettled", "malformed"];
/// Decisions about messages on the queue `resolve`.
const DECISIONS: [&str; 13] = [
    "cancelled",
    "expired",
    "quota",
    "terminal",
    "lost",
    "stale",
    "reassigned",
    "rejected",
    "followed",
    "dropped",
    "submitted_again",
    "delivery_limit",
    "held",
];

/// The scheduler's metrics. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Metrics {
    submitted: IntCounterVec,
    assigned: IntCounter,
    rejected: IntCounterVec,
    forged: IntCounter,
    returned: IntCounterVec,
    wait: Histogram,
    admission: Histogram,
    handing_out: IntGauge,
    waiting: IntGaugeVec,
    tenants: IntGaugeVec,
    lanes: IntGauge,
    credit: IntGaugeVec,
    credit_used: IntGaugeVec,
    workers: IntGaugeVec,
    resolved: IntCounterVec,
    cancelled: IntCounterVec,
    requested: IntCounterVec,
    drained: IntCounter,
    panics: IntCounter,
    leader: IntGauge,
    resolve_time: HistogramVec,
    redis_memory: IntGauge,
    redis_memory_max: IntGauge,
    outcomes: IntGauge,
    outcomes_max: IntGauge,
}

struct Maker<'a>(&'a Registry);

impl Maker<'_> {
    fn keep<C: Collector + Clone + 'static>(&self, made: prometheus::Result<C>) -> prometheus::Result<C> {
        let made = made?;
        self.0.register(Box::new(made.clone()))?;
        Ok(made)
    }

    fn opts(name: &str, help: &str) -> Opts {
        Opts::new(name, help).namespace("thermae").subsystem("scheduler")
    }

    fn count(&self, name: &str, help: &str) -> prometheus::Result<IntCounter> {
        self.keep(IntCounter::with_opts(Self::opts(name, help)))
    }

    fn counts(&self, name: &str, help: &str, labels: &[&str]) -> prometheus::Result<IntCounterVec> {
        self.keep(IntCounterVec::new(Self::opts(name, help), labels))
    }

    fn gauge(&self, name: &str, help: &str) -> prometheus::Result<IntGauge> {
        self.keep(IntGauge::with_opts(Self::opts(name, help)))
    }

    fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> prometheus::Result<IntGaugeVec> {
        self.keep(IntGaugeVec::new(Self::opts(name, help), labels))
    }

    fn seconds(&self, name: &str, help: &str, buckets: &[f64]) -> prometheus::Result<Histogram> {
        let opts = HistogramOpts { common_opts: Self::opts(name, help), buckets: buckets.to_vec() };
        self.keep(Histogram::with_opts(opts))
    }
}

impl Metrics {
    pub(crate) fn new(registry: &Registry) -> prometheus::Result<Self> {
        let make = Maker(registry);
        let resolve = HistogramOpts {
            common_opts: Maker::opts("resolve_seconds", "From a copy's arrival on the resolve queue to its decision"),
            buckets: WAITS.to_vec(),
        };
        let metrics = Self {
            submitted: make.counts("submitted_total", "Jobs taken from submit queues", &["class"])?,
            assigned: make.count("assigned_total", "Jobs handed out to workers")?,
            rejected: make.counts("rejected_total", "Jobs rejected, by error code", &["code"])?,
            forged: make.count("forged_total", "Messages dropped because their tenant did not send them")?,
            returned: make.counts("returned_total", "Hand-outs that had to wait, by reason", &["reason"])?,
            wait: make.seconds(
                "queue_wait_seconds",
                "From a job's arrival at the head of its queue until it was handed out",
                WAITS,
            )?,
            admission: make.seconds("admission_seconds", "The registry's round trip per job", ROUND_TRIPS)?,
            handing_out: make.gauge("in_flight", "Jobs being handed out at this moment")?,
            waiting: make.gauges("waiting", "Jobs at the heads of their queues, waiting for their turn", &["pool"])?,
            tenants: make.gauges("tenants", "Tenants with a job at the head of a queue", &["pool"])?,
            lanes: make.gauge("lanes", "Submit queues known")?,
            credit: make.gauges("credit", "Jobs that a pool may have handed out; 0 without workers", &["pool"])?,
            credit_used: make.gauges("credit_used", "Jobs that a pool has handed out", &["pool"])?,
            workers: make.gauges("workers", "Living workers, by state", &["state"])?,
            resolved: make.counts("resolved_total", "Copies of unknown fate decided, by decision", &["decision"])?,
            cancelled: make.counts("cancels_total", "Cancels, by what they met", &["met"])?,
            requested: make.counts("requests_total", "Requests to sessions, by what they met", &["met"])?,
            drained: make.count("drained_total", "Messages saved from queues of dead workers")?,
            panics: make.count(
                "panics_total",
                "Tasks that panicked; each ends the lead of this scheduler, which begins anew",
            )?,
            leader: make.gauge("leader", "1 while this scheduler leads")?,
            resolve_time: make.keep(HistogramVec::new(resolve, &["decision"]))?,
            redis_memory: make.gauge("redis_memory_bytes", "Memory that Redis uses")?,
            redis_memory_max: make
                .gauge("redis_memory_max_bytes", "Memory that Redis may use (maxmemory); 0: no bound")?,
            outcomes: make.gauge("outcome_bytes", "Part of outcome_bytes that this hour and the last have taken")?,
            outcomes_max: make.gauge("outcome_max_bytes", "The option outcome_bytes: half of it is for each hour")?,
        };
        metrics.begin_at_zero();
        Ok(metrics)
    }

    /// Creates each counter with 0. If a counter appeared with its first event, Prometheus would see no increase, and
    /// the first lost job would raise no alert.
    fn begin_at_zero(&self) {
        let begin = |counter: &IntCounterVec, values: &[&str]| {
            values.iter().for_each(|value| drop(counter.with_label_values(&[*value])));
        };
        begin(&self.submitted, &Class::ALL.map(Class::as_str));
        begin(&self.returned, &REASONS);
        begin(&self.cancelled, &MET);
        begin(&self.requested, &REQUESTS_MET);
        begin(&self.resolved, &DECISIONS);
        ErrorCode::ALL.iter().for_each(|(_, code, ..)| begin(&self.rejected, &[code]));
        DECISIONS.iter().for_each(|decision| drop(self.resolve_time.with_label_values(&[*decision])));
    }

    pub(crate) fn submitted(&self, class: Class) {
        self.submitted.with_label_values(&[class.as_str()]).inc();
    }

    pub(crate) fn assigned(&self, waited: Duration) {
        self.assigned.inc();
        self.wait.observe(waited.as_secs_f64());
    }

    pub(crate) fn rejected(&self, code: ErrorCode) {
        self.rejected.with_label_values(&[code.as_str()]).inc();
    }

    pub(crate) fn forged(&self) {
        self.forged.inc();
    }

    pub(crate) fn returned(&self, reason: &str) {
        self.returned.with_label_values(&[reason]).inc();
    }

    pub(crate) fn admission(&self, took: Duration) {
        self.admission.observe(took.as_secs_f64());
    }

    pub(crate) fn flight(&self, n: usize) {
        self.handing_out.set(whole(n));
    }

    pub(crate) fn waiting(&self, pool: &str, jobs: usize, tenants: usize) {
        self.waiting.with_label_values(&[pool]).set(whole(jobs));
        self.tenants.with_label_values(&[pool]).set(whole(tenants));
    }

    pub(crate) fn lanes(&self, n: usize) {
        self.lanes.set(whole(n));
    }

    /// Notes the state of the workers. `unreadable` more have heartbeats that can't be read.
    pub(crate) fn workers(&self, workers: &[Heartbeat], unreadable: usize) {
        for (state, name) in [
            (WorkerState::Starting, "starting"),
            (WorkerState::Ready, "ready"),
            (WorkerState::Draining, "draining"),
            (WorkerState::Unhealthy, "unhealthy"),
            (WorkerState::Unknown, "unknown"),
        ] {
            let there = workers.iter().filter(|worker| worker.state == state).count();
            self.workers.with_label_values(&[name]).set(whole(there));
        }
        self.workers.with_label_values(&["unreadable"]).set(whole(unreadable));
    }

    /// Notes a pool's credit, and how much of it is used.
    pub(crate) fn credit(&self, pool: &PoolName, credit: u32, used: u32) {
        self.credit.with_label_values(&[pool.as_str()]).set(credit.into());
        self.credit_used.with_label_values(&[pool.as_str()]).set(used.into());
    }

    pub(crate) fn resolved(&self, decision: &str, took: Duration) {
        self.resolved.with_label_values(&[decision]).inc();
        self.resolve_time.with_label_values(&[decision]).observe(took.as_secs_f64());
    }

    pub(crate) fn cancelled(&self, met: &str) {
        self.cancelled.with_label_values(&[met]).inc();
    }

    pub(crate) fn requested(&self, met: &str) {
        self.requested.with_label_values(&[met]).inc();
    }

    pub(crate) fn drained(&self) {
        self.drained.inc();
    }

    pub(crate) fn usage(&self, usage: &Usage, budget: u64) {
        self.redis_memory.set(bytes(usage.memory));
        self.redis_memory_max.set(bytes(usage.memory_max));
        self.outcomes.set(bytes(usage.outcomes));
        self.outcomes_max.set(bytes(budget));
    }

    pub(crate) fn panicked(&self) {
        self.panics.inc();
    }

    pub(crate) fn leads(&self, leads: bool) {
        self.leader.set(leads.into());
    }
}

fn bytes(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn whole(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
