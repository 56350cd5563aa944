//! All metrics of a worker: names, labels, help texts and buckets.

mod labels;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};
use thermae_schemas::{ErrorCode, LeftOutWhy, PoolName, Status};

use crate::phase::{Phase, Warmth};
use labels::{
    APPROVALS, ENDS, FATES, LOSSES, REFUSALS, REQUEST_ENDS, RESULTS, RETURNS, SHELVED, SWEPT, TOKENS, VERDICTS,
};

/// Buckets in seconds. They are fine below 5 ms, because warm jobs take less than that.
const SECONDS: &[f64] = &[
    0.000_1, 0.000_25, 0.000_5, 0.000_75, 0.001, 0.001_5, 0.002, 0.003, 0.005, 0.007_5, 0.01, 0.025, 0.05, 0.1, 0.25,
    0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
];

/// A worker's metrics.
#[derive(Clone)]
pub(crate) struct Metrics {
    jobs: IntCounterVec,
    phases: HistogramVec,
    containers: IntGaugeVec,
    creations: HistogramVec,
    creation_failures: IntCounterVec,
    quarantined: IntCounterVec,
    unwalled: IntGaugeVec,
    verified: IntCounterVec,
    bound: IntGaugeVec,
    bound_bytes: IntGaugeVec,
    evicted: IntCounterVec,
    pauses_refused: IntCounterVec,
    acquired: IntCounterVec,
    sandboxes: IntCounterVec,
    /// Bytes of answers to tool calls that are kept, by place.
    pub answers: IntGaugeVec,
    /// Answers that were written to the disk.
    pub answers_written: IntCounter,
    /// Tool calls, by result.
    pub tool_calls: IntCounterVec,
    /// Tokens of jobs that were verified when an attempt began, by result.
    pub tokens: IntCounterVec,
    /// What came of calls that needed approval.
    pub approvals: IntCounterVec,
    /// Time from a tool call's publish to its answer.
    pub tool_seconds: Histogram,
    /// Sessions that the worker holds.
    pub sessions: IntGauge,
    /// Sessions that ended, by reason.
    pub sessions_ended: IntCounterVec,
    /// Requests to sessions that ended, by how.
    pub requests: IntCounterVec,
    /// Attempts whose lease was lost, by reason.
    pub leases_lost: IntCounterVec,
    /// Deliveries that went back to their queue or to `resolve`, by reason.
    pub returned: IntCounterVec,
    /// Files in artifacts directories, by what happened to them.
    pub artifacts: IntCounterVec,
    /// Bytes of the artifacts that were stored.
    pub artifact_bytes: IntCounter,
    shelved: IntCounterVec,
    swept: IntCounterVec,
    /// Heartbeats that did not arrive.
    pub heartbeat_failures: IntCounter,
    /// Answers to tool calls that were dropped because their tenant did not send them.
    pub forged: IntCounter,
}

impl Metrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// A metric with the same name is already registered.
    pub(crate) fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counters = |name: &str, help: &str, labels: &[&str]| {
            let made = IntCounterVec::new(Opts::new(format!("thermae_worker_{name}"), help), labels)?;
            registry.register(Box::new(made.clone())).map(|()| made)
        };
        let gauges = |name: &str, help: &str, labels: &[&str]| {
            let made = IntGaugeVec::new(Opts::new(format!("thermae_worker_{name}"), help), labels)?;
            registry.register(Box::new(made.clone())).map(|()| made)
        };
        let histograms = |name: &str, help: &str, labels: &[&str]| {
            let opts = HistogramOpts::new(format!("thermae_worker_{name}"), help).buckets(SECONDS.to_vec());
            let made = HistogramVec::new(opts, labels)?;
            registry.register(Box::new(made.clone())).map(|()| made)
        };
        let metrics = Self {
            jobs: counters("jobs_total", "Jobs that ended here, by status", &["pool", "status"])?,
            phases: histograms("phase_seconds", "Parts of a job's way through the worker", &["pool", "phase"])?,
            containers: gauges("containers", "Containers, by state", &["pool", "state"])?,
            creations: histograms("container_creation_seconds", "Making of a container until it is ready", &["pool"])?,
            creation_failures: counters(
                "container_creation_failures_total",
                "Containers that could not be made",
                &["pool"],
            )?,
            quarantined: counters(
                "containers_quarantined_total",
                "Containers removed because they were no longer to be trusted",
                &["pool"],
            )?,
            unwalled: gauges(
                "containers_unwalled",
                "1 where containers have no inner wall, and each runs one job only",
                &["pool"],
            )?,
            verified: counters(
                "containers_verified_total",
                "Proofs that a container is clean after a job: given (clean), refused (unclean), never given (none)",
                &["pool", "result"],
            )?,
            bound: gauges("containers_bound", "Idle containers that belong to one tenant each", &["pool"])?,
            bound_bytes: gauges("containers_bound_bytes", "Memory of those, by their runners' word", &["pool"])?,
            evicted: counters(
                "containers_evicted_total",
                "Idle containers of tenants removed because there was no memory for more",
                &["pool"],
            )?,
            pauses_refused: counters(
                "pauses_refused_total",
                "Runs that waited for tool calls and could not be paused because too many were",
                &["pool"],
            )?,
            acquired: counters(
                "containers_acquired_total",
                "Containers taken by jobs: ready (warm) or waited for (cold)",
                &["pool", "warmth"],
            )?,
            sandboxes: counters(
                "sandboxes_total",
                "Sandboxes used: made ahead (warm) or on the job's path (cold)",
                &["pool", "warmth"],
            )?,
            answers: gauges(
                "tool_answer_bytes",
                "Answers to tool calls that runs have not read, in memory or on the disk (answers.dir)",
                &["place"],
            )?,
            answers_written: {
                let made = IntCounter::new(
                    "thermae_worker_tool_answers_written_total",
                    "Answers to tool calls written to answers.dir, because they did not fit into memory",
                )?;
                registry.register(Box::new(made.clone()))?;
                made
            },
            tool_calls: counters("tool_calls_total", "Tool calls of the code, by result", &["result"])?,
            tokens: counters(
                "tokens_total",
                "Tokens of jobs that were verified when an attempt began, by result: ok, or why they give no rights",
                &["result"],
            )?,
            approvals: counters(
                "approvals_total",
                "Tool calls that needed approval, by what came of them",
                &["result"],
            )?,
            tool_seconds: {
                let opts = HistogramOpts::new(
                    "thermae_worker_tool_call_seconds",
                    "From a tool call's publish to the client's answer",
                );
                let made = Histogram::with_opts(opts.buckets(SECONDS.to_vec()))?;
                registry.register(Box::new(made.clone()))?;
                made
            },
            sessions: {
                let made = IntGauge::new("thermae_worker_sessions", "Sessions held")?;
                registry.register(Box::new(made.clone()))?;
                made
            },
            sessions_ended: counters("sessions_ended_total", "Sessions that ended, by why", &["why"])?,
            requests: counters("session_requests_total", "Requests to sessions that ended, by how", &["how"])?,
            leases_lost: counters("leases_lost_total", "Attempts killed: their lease was revoked or passed", &["why"])?,
            returned: counters(
                "deliveries_returned_total",
                "Deliveries requeued or handed to resolve; those of paused runs go on to run here",
                &["why"],
            )?,
            artifacts: counters(
                "artifacts_total",
                "Files in artifacts directories: stored, left out by a rule, or not stored by the store's failure",
                &["result"],
            )?,
            artifact_bytes: {
                let made =
                    IntCounter::new("thermae_worker_artifact_bytes_total", "Bytes of artifacts that were stored")?;
                registry.register(Box::new(made.clone()))?;
                made
            },
            shelved: counters(
                "large_outcomes_total",
                "Outcomes larger than outcome_inline_bytes: stored, not stored by the store's failure (failed), or left in Redis because \
                 too many waited (skipped)",
                &["result"],
            )?,
            swept: counters(
                "store_swept_total",
                "Objects removed from the store because of their age: artifact, outcome, session, checkpoint; and sweeps that failed",
                &["what"],
            )?,
            heartbeat_failures: {
                let made =
                    IntCounter::new("thermae_worker_heartbeat_failures_total", "Heartbeats that did not arrive")?;
                registry.register(Box::new(made.clone()))?;
                made
            },
            forged: {
                let made = IntCounter::new(
                    "thermae_worker_forged_total",
                    "Answers to tool calls and decisions about them dropped because their tenant did not send them",
                )?;
                registry.register(Box::new(made.clone()))?;
                made
            },
        };
        metrics.begin_at_zero();
        Ok(metrics)
    }

    /// Makes the counters appear with the value 0. Prometheus sees no increase when a counter appears with its first
    /// event, so that the first lost lease would raise no alert.
    fn begin_at_zero(&self) {
        let begin = |counter: &IntCounterVec, values: &[&str]| {
            values.iter().for_each(|value| drop(counter.with_label_values(&[*value])));
        };
        begin(&self.tokens, &["ok"]);
        begin(&self.tokens, &TOKENS.map(ErrorCode::as_str));
        begin(&self.tool_calls, &RESULTS);
        begin(&self.tool_calls, &REFUSALS.map(ErrorCode::as_str));
        begin(&self.approvals, &APPROVALS);
        begin(&self.sessions_ended, &ENDS);
        begin(&self.requests, &REQUEST_ENDS);
        begin(&self.leases_lost, &LOSSES);
        begin(&self.returned, &RETURNS);
        begin(&self.artifacts, &FATES);
        begin(&self.shelved, &SHELVED);
        begin(&self.swept, &SWEPT);
    }

    /// Counts a job that ended here.
    pub(crate) fn job(&self, pool: &PoolName, status: Status) {
        self.jobs.with_label_values(&[pool.as_str(), status.as_str()]).inc();
    }

    /// Records how many seconds a phase took.
    pub(crate) fn phase(&self, pool: &PoolName, phase: Phase, seconds: f64) {
        self.phases.with_label_values(&[pool.as_str(), phase.as_str()]).observe(seconds);
    }

    /// Counts the files that were gathered from a run.
    pub(crate) fn gathered(&self, files: &crate::artifacts::Gathered) {
        let not_stored = files.left_out.iter().filter(|f| f.why == LeftOutWhy::NotStored).count() as u64;
        let left_out = files.left_out.len() as u64 + files.left_out_more - not_stored;
        for (fate, count) in FATES.into_iter().zip([files.artifacts.len() as u64, left_out, not_stored]) {
            if count > 0 {
                self.artifacts.with_label_values(&[fate]).inc_by(count);
            }
        }
        self.artifact_bytes.inc_by(files.artifacts.iter().map(|a| a.size).sum());
    }

    /// Counts what happened to a large outcome.
    pub(crate) fn shelved(&self, result: &str) {
        self.shelved.with_label_values(&[result]).inc();
    }

    /// Counts an object that a sweep removed, or a sweep that failed.
    pub(crate) fn swept(&self, what: &str) {
        self.swept.with_label_values(&[what]).inc();
    }

    /// Counts a container that a job took.
    pub(crate) fn acquired(&self, pool: &PoolName, warmth: Warmth) {
        self.acquired.with_label_values(&[pool.as_str(), word(warmth == Warmth::Warm)]).inc();
    }

    /// Counts a sandbox that a job used.
    pub(crate) fn sandbox(&self, pool: &PoolName, warm: bool) {
        self.sandboxes.with_label_values(&[pool.as_str(), word(warm)]).inc();
    }

    /// The metrics of one pool.
    pub(crate) fn pool(&self, name: &PoolName) -> PoolMetrics {
        let state = |s: &str| self.containers.with_label_values(&[name.as_str(), s]);
        for status in Status::ALL {
            drop(self.jobs.with_label_values(&[name.as_str(), status.as_str()]));
        }
        for warmth in [word(true), word(false)] {
            drop(self.acquired.with_label_values(&[name.as_str(), warmth]));
            drop(self.sandboxes.with_label_values(&[name.as_str(), warmth]));
        }
        PoolMetrics {
            idle: state("idle"),
            busy: state("busy"),
            paused: state("paused"),
            session: state("session"),
            creating: state("creating"),
            creations: self.creations.with_label_values(&[name.as_str()]),
            creation_failures: self.creation_failures.with_label_values(&[name.as_str()]),
            quarantined: self.quarantined.with_label_values(&[name.as_str()]),
            unwalled: self.unwalled.with_label_values(&[name.as_str()]),
            verified: VERDICTS.map(|v| (v, self.verified.with_label_values(&[name.as_str(), v]))),
            reset: self.phases.with_label_values(&[name.as_str(), Phase::Reset.as_str()]),
            bound: self.bound.with_label_values(&[name.as_str()]),
            bound_bytes: self.bound_bytes.with_label_values(&[name.as_str()]),
            evicted: self.evicted.with_label_values(&[name.as_str()]),
            pauses_refused: self.pauses_refused.with_label_values(&[name.as_str()]),
            warned: Arc::default(),
        }
    }
}

fn word(warm: bool) -> &'static str {
    if warm { "warm" } else { "cold" }
}

/// The metrics of one pool.
pub(crate) struct PoolMetrics {
    idle: IntGauge,
    busy: IntGauge,
    paused: IntGauge,
    session: IntGauge,
    creating: IntGauge,
    /// How many seconds it took to make a container.
    pub creations: Histogram,
    /// Containers that could not be made.
    pub creation_failures: IntCounter,
    /// Containers that were removed because they were no longer to be trusted.
    pub quarantined: IntCounter,
    /// 1 if the containers have no inner wall, else 0.
    pub unwalled: IntGauge,
    verified: [(&'static str, IntCounter); 3],
    /// Seconds from a container's return to the proof that it is clean.
    pub reset: Histogram,
    bound: IntGauge,
    bound_bytes: IntGauge,
    /// Idle containers of tenants that were removed because there was no memory for them.
    pub evicted: IntCounter,
    /// Runs that could not be paused because too many were.
    pub pauses_refused: IntCounter,
    warned: Arc<Mutex<HashSet<String>>>,
}

impl PoolMetrics {
    /// Sets the numbers of containers, by state.
    pub(crate) fn containers(&self, idle: usize, busy: usize, paused: usize, session: usize, creating: usize) {
        self.idle.set(idle as i64);
        self.busy.set(busy as i64);
        self.paused.set(paused as i64);
        self.session.set(session as i64);
        self.creating.set(creating as i64);
    }

    /// Sets how many idle containers belong to tenants, and how much memory these take.
    pub(crate) fn bound(&self, count: usize, bytes: u64) {
        self.bound.set(count as i64);
        self.bound_bytes.set(bytes as i64);
    }

    /// Counts a proof, by result.
    pub(crate) fn verified(&self, result: &str) {
        if let Some((_, counter)) = self.verified.iter().find(|(v, _)| *v == result) {
            counter.inc();
        }
    }

    /// Whether this warning comes for the first time.
    pub(crate) fn first_warning(&self, warning: &str) -> bool {
        self.warned.lock().unwrap_or_else(PoisonError::into_inner).insert(warning.to_owned())
    }
}
