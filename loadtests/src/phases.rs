//! Where a job's time goes: the change in the histograms of the embedded fleet's scheduler and worker during one run.

use std::collections::BTreeMap;

use prometheus::Registry;
use serde::Serialize;

/// One part of a job's way, as the fleet itself has measured it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Phase {
    /// Name of the metric without prefix and unit, and the values of its labels.
    pub phase: String,
    /// Number of times that this part was measured.
    pub count: u64,
    /// Mean, in milliseconds.
    pub mean_ms: f64,
    /// Median, in milliseconds, as precise as the metric's buckets.
    pub p50_ms: f64,
    /// 99th percentile, in milliseconds, as precise as the metric's buckets.
    pub p99_ms: f64,
}

#[derive(Debug, Clone, Default)]
struct Seen {
    count: u64,
    sum: f64,
    /// Upper bound in seconds, and the number of values up to it.
    buckets: Vec<(f64, u64)>,
}

/// The state of all histograms at one moment.
#[derive(Debug, Clone, Default)]
pub struct Snapshot(BTreeMap<String, Seen>);

impl Snapshot {
    /// Reads the histograms whose names end in `_seconds`.
    pub fn take(metrics: &Registry) -> Self {
        let mut all = BTreeMap::new();
        for family in metrics.gather().iter().filter(|family| family.name().ends_with("_seconds")) {
            let name = family.name().trim_start_matches("thermae_").trim_end_matches("_seconds");
            for metric in family.get_metric() {
                let labels: Vec<_> = metric.get_label().iter().map(|label| label.value()).collect();
                let histogram = metric.get_histogram();
                let buckets = histogram.get_bucket().iter().map(|b| (b.upper_bound(), b.cumulative_count()));
                let (count, sum) = (histogram.get_sample_count(), histogram.get_sample_sum());
                all.insert(format!("{name} {}", labels.join(" ")), Seen { count, sum, buckets: buckets.collect() });
            }
        }
        Self(all)
    }

    /// The values that were added since `earlier`.
    pub fn since(&self, earlier: &Self) -> Vec<Phase> {
        let mut phases = Vec::new();
        for (name, now) in &self.0 {
            let before = earlier.0.get(name).cloned().unwrap_or_default();
            let count = now.count - before.count;
            if count == 0 {
                continue;
            }
            let less = |at: usize| before.buckets.get(at).map_or(0, |(_, n)| *n);
            let buckets: Vec<_> = now.buckets.iter().enumerate().map(|(at, (le, n))| (*le, n - less(at))).collect();
            phases.push(Phase {
                phase: name.trim_end().to_owned(),
                count,
                mean_ms: (now.sum - before.sum) / count as f64 * 1e3,
                p50_ms: quantile(&buckets, count, 0.5) * 1e3,
                p99_ms: quantile(&buckets, count, 0.99) * 1e3,
            });
        }
        phases
    }
}

/// Interpolates linearly within the bucket that the quantile falls into. Beyond the last bound, gives that bound.
fn quantile(buckets: &[(f64, u64)], count: u64, q: f64) -> f64 {
    let rank = q * count as f64;
    let (mut low, mut below) = (0.0, 0);
    for (le, n) in buckets {
        if *n as f64 >= rank && *n > below {
            return low + (le - low) * (rank - below as f64) / (n - below) as f64;
        }
        (low, below) = (*le, *n);
    }
    low
}

impl std::fmt::Display for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { phase, count, mean_ms, p50_ms, p99_ms } = self;
        write!(f, "{phase:<44} {count:>6} × mean {mean_ms:>8.3} ms, p50 {p50_ms:>8.3} ms, p99 {p99_ms:>8.3} ms")
    }
}

#[cfg(test)]
mod tests {
    use prometheus::{Histogram, HistogramOpts};

    use super::*;

    #[test]
    fn only_what_came_since_counts() {
        let metrics = Registry::new();
        let opts = HistogramOpts::new("thermae_worker_phase_seconds", "x").buckets(vec![0.001, 0.002, 0.01]);
        let histogram = Histogram::with_opts(opts).unwrap();
        metrics.register(Box::new(histogram.clone())).unwrap();
        histogram.observe(0.005);
        let before = Snapshot::take(&metrics);
        assert_eq!(before.since(&before), []);
        (0..98).for_each(|_| histogram.observe(0.0015));
        (0..2).for_each(|_| histogram.observe(60.0));
        let phases = Snapshot::take(&metrics).since(&before);
        let phase = &phases[0];
        assert_eq!((phase.phase.as_str(), phase.count), ("worker_phase", 100));
        assert!((1.0..2.0).contains(&phase.p50_ms) && phase.p99_ms == 10.0, "{phase:?}");
    }
}
