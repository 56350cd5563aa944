//! Measured figures: as rows for `target/bench/latest.json`, and as text for people.

use std::collections::BTreeMap;
use std::fmt::Write;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use thermae_schemas::Status;

use crate::phases::Phase;

/// The figures of one measured case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What was measured: `print`, `pandas`, `tools10`, `session`, `tool_call`, `rpc`, `fork`, `start`, `first`, …
    pub case: String,
    /// What it was measured on, such as `fleet` or `embedded`. docs/performance.md lists all.
    pub on: String,
    /// Median, in milliseconds.
    pub p50_ms: f64,
    /// 95th percentile, in milliseconds.
    pub p95_ms: f64,
    /// 99th percentile, in milliseconds.
    pub p99_ms: f64,
    /// Jobs per second; `None` where no rate is measured.
    pub jobs_per_s: Option<f64>,
    /// Processor time per job while the rate was measured, in milliseconds: user and system time of all parts of the
    /// fleet together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ms_per_job: Option<f64>,
    /// The same, by part.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cpu_ms_by_part: BTreeMap<String, f64>,
}

impl Row {
    /// A row from times in nanoseconds.
    pub fn new(case: &str, on: &str, times: &Histogram<u64>, jobs_per_s: Option<f64>) -> Self {
        let ms = |q: f64| round(times.value_at_quantile(q) as f64 / 1e6);
        Self {
            case: case.into(),
            on: on.into(),
            p50_ms: ms(0.5),
            p95_ms: ms(0.95),
            p99_ms: ms(0.99),
            jobs_per_s: jobs_per_s.map(round),
            cpu_ms_per_job: None,
            cpu_ms_by_part: BTreeMap::new(),
        }
    }

    /// Adds the processor time that each part used per job, in milliseconds.
    #[must_use]
    pub fn with_cpu(mut self, by_part: BTreeMap<String, f64>) -> Self {
        self.cpu_ms_per_job = (!by_part.is_empty()).then(|| round(by_part.values().sum()));
        self.cpu_ms_by_part = by_part.into_iter().map(|(part, ms)| (part, round(ms))).collect();
        self
    }
}

/// The memory of something idle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Weight {
    /// `container`, `container with pandas`, or `spare`.
    pub what: String,
    /// Memory, in MiB.
    pub mib: f64,
}

impl Weight {
    /// A weight from a number of bytes.
    pub fn new(what: &str, bytes: f64) -> Self {
        Self { what: what.into(), mib: round(bytes / f64::from(1 << 20)) }
    }
}

fn round(x: f64) -> f64 {
    (x * 1000.0).round() / 1000.0
}

/// The result of an open-loop run.
#[derive(Debug, Serialize)]
pub struct LoadReport {
    /// The scenario's name.
    pub scenario: String,
    /// Jobs per second that the scenario asks for.
    pub target_per_s: f64,
    /// Jobs per second that were answered.
    pub answered_per_s: f64,
    /// Number of jobs sent.
    pub sent: u64,
    /// Number of answers by status. `none` counts jobs without an answer in time.
    pub by_status: BTreeMap<String, u64>,
    /// The first few wrong answers, in words.
    pub wrong: Vec<String>,
    /// Median time from the moment when a job was *due* to its answer, in milliseconds.
    pub p50_ms: f64,
    /// 95th percentile of the same, in milliseconds.
    pub p95_ms: f64,
    /// 99th percentile of the same, in milliseconds.
    pub p99_ms: f64,
    /// Longest such time, in milliseconds.
    pub max_ms: f64,
    /// How late the generator itself sent jobs: the median, in milliseconds. The times above include this.
    pub late_p50_ms: f64,
    /// 99th percentile of the same, in milliseconds.
    pub late_p99_ms: f64,
    /// Where the time went; empty unless it was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<Phase>,
}

impl LoadReport {
    /// Whether every job was answered, with the right answer.
    pub fn is_clean(&self) -> bool {
        self.wrong.is_empty() && self.by_status.get(Status::Succeeded.as_str()) == Some(&self.sent)
    }
}

impl std::fmt::Display for LoadReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(
            f,
            "{}: {:.0}/s asked, {:.0}/s answered; p50 {:.2} ms, p95 {:.2} ms, p99 {:.2} ms, max {:.2} ms",
            self.scenario, self.target_per_s, self.answered_per_s, self.p50_ms, self.p95_ms, self.p99_ms, self.max_ms
        )?;
        let by: Vec<String> = self.by_status.iter().map(|(status, n)| format!("{n} {status}")).collect();
        writeln!(
            f,
            "{} sent, the generator late by p50 {:.2} ms, p99 {:.2} ms: {}",
            self.sent,
            self.late_p50_ms,
            self.late_p99_ms,
            by.join(", ")
        )?;
        self.phases.iter().try_for_each(|phase| writeln!(f, "{phase}"))?;
        self.wrong.iter().try_for_each(|wrong| writeln!(f, "wrong: {wrong}"))
    }
}

/// Formats rows as a table.
pub fn table(rows: &[Row]) -> String {
    let mut out =
        format!("{:<13} {:<12} {:>10} {:>10} {:>10} {:>10}\n", "case", "on", "p50 ms", "p95 ms", "p99 ms", "jobs/s");
    for row in rows {
        let rate = row.jobs_per_s.map_or_else(|| "-".into(), |rate| format!("{rate:.1}"));
        let _ = writeln!(
            out,
            "{:<13} {:<12} {:>10.3} {:>10.3} {:>10.3} {rate:>10}",
            row.case, row.on, row.p50_ms, row.p95_ms, row.p99_ms
        );
    }
    out
}
