//! All metrics of a gateway: names, labels, help texts and buckets.

use prometheus::{HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

/// Buckets in seconds. They are fine below 5 ms, because most requests take less than that.
const SECONDS: &[f64] = &[
    0.000_25, 0.000_5, 0.001, 0.002, 0.003, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
    300.0,
];

/// Why work is refused.
pub(crate) const REFUSALS: [&str; 13] = [
    "token",
    "key",
    "scope",
    "rate",
    "store",
    "tenants",
    "requests",
    "runs",
    "uploads",
    "bytes",
    "origin",
    "sdks",
    "connections",
];

/// A gateway's metrics. Cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    /// Requests that were answered, by operation and status.
    pub(crate) requests: IntCounterVec,
    /// Time to the head of the answer, by operation.
    pub(crate) seconds: HistogramVec,
    /// Open connections.
    pub(crate) connections: IntGauge,
    /// Tenants whose fleet is connected, or is being connected.
    pub(crate) tenants: IntGauge,
    /// Streams of events that are followed.
    pub(crate) followers: IntGauge,
    /// SDKs that are connected.
    pub(crate) sdks: IntGauge,
    /// Runs that are held, by state.
    pub(crate) runs: IntGaugeVec,
    /// Bytes that are held for callers.
    pub(crate) held: IntGauge,
    /// What was refused, by what bounds it.
    pub(crate) refused: IntCounterVec,
    /// Events that were dropped before they could be followed.
    pub(crate) dropped: IntCounter,
}

impl Metrics {
    /// Registers the metrics.
    ///
    /// # Errors
    /// A metric with the same name is already registered.
    pub fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counters = |name: &str, help: &str, labels: &[&str]| {
            let made = IntCounterVec::new(Opts::new(format!("thermae_gateway_{name}"), help), labels)?;
            registry.register(Box::new(made.clone())).map(|()| made)
        };
        let gauge = |name: &str, help: &str| {
            let made = IntGauge::new(format!("thermae_gateway_{name}"), help)?;
            registry.register(Box::new(made.clone())).map(|()| made)
        };
        let seconds = HistogramVec::new(
            HistogramOpts::new("thermae_gateway_request_seconds", "Time to the head of the answer, by operation")
                .buckets(SECONDS.to_vec()),
            &["operation"],
        )?;
        registry.register(Box::new(seconds.clone()))?;
        let runs = IntGaugeVec::new(
            Opts::new("thermae_gateway_runs", "Runs that the gateway holds: under way, or ended and kept for a while"),
            &["state"],
        )?;
        registry.register(Box::new(runs.clone()))?;
        let dropped = IntCounter::new(
            "thermae_gateway_events_dropped_total",
            "Events that were dropped because a run had more than are kept",
        )?;
        registry.register(Box::new(dropped.clone()))?;
        let this = Self {
            requests: counters(
                "requests_total",
                "Requests that were answered, by operation and status",
                &["operation", "status"],
            )?,
            seconds,
            connections: gauge("connections", "Open connections")?,
            tenants: gauge("tenants", "Tenants that the gateway has a connection for, or is connecting for")?,
            followers: gauge("followers", "Streams of events that are followed")?,
            sdks: gauge("sdks", "SDKs that are connected")?,
            runs,
            held: gauge(
                "held_bytes",
                "Bytes that are held for callers: connections, requests, bodies, runs with their events and outcomes, \
                 and answers until they are sent",
            )?,
            refused: counters("refused_total", "Requests that were refused, by what refused them", &["reason"])?,
            dropped,
        };
        for reason in REFUSALS {
            this.refused.with_label_values(&[reason]);
        }
        for state in ["underway", "ended"] {
            this.runs.with_label_values(&[state]);
        }
        Ok(this)
    }
}
