//! The summary of a batch, as a table or as JSON.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use thermae_schemas::Status;

use super::results::Ended;
use crate::failure::Exit;
use crate::style::{BOLD, DIM, ERROR, GOOD, WARNING, paint};

/// Counts how the jobs of a file ended. Results of earlier runs count, too.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    /// Number of jobs in the file.
    pub(crate) jobs: usize,
    /// Number of results that earlier runs left.
    pub(crate) before: usize,
    /// Number of results of this run.
    pub(crate) done: usize,
    pub(crate) counts: BTreeMap<Status, usize>,
    pub(crate) worst: Option<Exit>,
}

impl Summary {
    /// Counts one result.
    pub(crate) fn count(&mut self, ended: Ended) {
        *self.counts.entry(ended.status).or_default() += 1;
        // A rejected job is only one of many in a batch, so it counts like a failure of its code.
        let exit = match Exit::of(ended.status, ended.code) {
            Exit::Usage => Exit::Code,
            exit => exit,
        };
        self.worst = self.worst.max(Some(exit));
    }

    /// Number of jobs without a result.
    pub(crate) fn missing(&self) -> usize {
        self.jobs - self.before - self.done
    }

    /// The worst result decides: a failure of the fleet, then a failure of code, then success.
    pub(crate) fn exit(&self) -> Exit {
        self.worst.unwrap_or(Exit::Success)
    }

    /// The summary for people, as a table.
    pub(crate) fn table(&self, elapsed: Duration) -> String {
        let mut text = String::new();
        for (status, count) in &self.counts {
            let style = match Exit::of(*status, None) {
                Exit::Success => GOOD,
                Exit::Fleet => ERROR,
                _ => WARNING,
            };
            text.push_str(&format!("{} {count:>8}\n", paint(style, format!("{:<14}", status.as_str()))));
        }
        if self.missing() > 0 {
            text.push_str(&format!("{} {:>8}\n", paint(DIM, format!("{:<14}", "not run")), self.missing()));
        }
        let seconds = elapsed.as_secs_f64();
        let mut tail = format!("{} in {seconds:.1} s", self.done);
        if self.done > 0 {
            tail.push_str(&format!(", {:.1} jobs/s", self.done as f64 / seconds.max(0.001)));
        }
        if self.before > 0 {
            tail.push_str(&format!("; {} had results before", self.before));
        }
        text.push_str(&format!("{} {:>8}   {}\n", paint(BOLD, format!("{:<14}", "jobs")), self.jobs, paint(DIM, tail)));
        text
    }

    /// The summary for programs.
    pub(crate) fn json(&self, elapsed: Duration) -> Value {
        let statuses: BTreeMap<_, _> = self.counts.iter().map(|(status, count)| (status.as_str(), count)).collect();
        json!({
            "jobs": self.jobs,
            "before": self.before,
            "done": self.done,
            "missing": self.missing(),
            "statuses": statuses,
            "elapsed_s": (elapsed.as_secs_f64() * 1e3).round() / 1e3,
        })
    }
}

#[cfg(test)]
mod tests {
    use thermae_schemas::ErrorCode;

    use super::*;

    #[test]
    fn the_fleets_failure_weighs_more_than_the_codes() {
        let mut summary = Summary { jobs: 6, before: 1, done: 4, ..Summary::default() };
        assert_eq!(summary.exit(), Exit::Success);
        summary.count(Ended { status: Status::Succeeded, code: None });
        summary.count(Ended { status: Status::Succeeded, code: None });
        assert_eq!(summary.exit(), Exit::Success);
        summary.count(Ended { status: Status::Rejected, code: Some(ErrorCode::LimitTooHigh) });
        assert_eq!(summary.exit(), Exit::Code);
        summary.count(Ended { status: Status::Lost, code: Some(ErrorCode::WorkerLost) });
        summary.count(Ended { status: Status::Failed, code: Some(ErrorCode::CodeRaised) });
        assert_eq!(summary.exit(), Exit::Fleet);

        let plain = anstream::adapter::strip_str(&summary.table(Duration::from_millis(2500))).to_string();
        insta::assert_snapshot!(plain, @r"
        succeeded             2
        failed                1
        rejected              1
        lost                  1
        not run               1
        jobs                  6   4 in 2.5 s, 1.6 jobs/s; 1 had results before
        ");
        assert_eq!(
            summary.json(Duration::from_millis(2500)).to_string(),
            r#"{"before":1,"done":4,"elapsed_s":2.5,"jobs":6,"missing":1,"statuses":{"failed":1,"lost":1,"rejected":1,"succeeded":2}}"#
        );
    }
}
