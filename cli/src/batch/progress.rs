//! Shows how far a batch is: a bar on a terminal, otherwise a line now and then, and nothing with `--json`.

use std::fmt::Write;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::style;

/// Time between two lines if standard error is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// The progress of one batch. Times and rates are those of this run only.
pub(crate) struct Progress {
    how: How,
    begun: Instant,
    total: u64,
    done: u64,
    failed: u64,
}

enum How {
    Bar(ProgressBar),
    Lines { last: Instant },
    Nothing,
}

impl Progress {
    /// Starts to show the progress of `total` jobs.
    pub(crate) fn new(total: u64, quiet: bool) -> Self {
        let begun = Instant::now();
        let how = if quiet {
            How::Nothing
        } else if style::watched() {
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(10));
            let template = "{bar:32.green/dim} {human_pos}/{human_len}  {rate:.dim}  eta {eta}{msg:.red}";
            if let Ok(style) = ProgressStyle::with_template(template) {
                let rate = |state: &ProgressState, text: &mut dyn Write| {
                    let _ = write!(text, "{:.1} jobs/s", state.per_sec());
                };
                bar.set_style(style.with_key("rate", rate).progress_chars("━╸─"));
            }
            bar.enable_steady_tick(Duration::from_millis(250));
            How::Bar(bar)
        } else {
            How::Lines { last: begun }
        };
        Self { how, begun, total, done: 0, failed: 0 }
    }

    /// Counts one more job that has ended.
    pub(crate) fn ended(&mut self, succeeded: bool) {
        self.done += 1;
        self.failed += u64::from(!succeeded);
        match &mut self.how {
            How::Bar(bar) => {
                if !succeeded {
                    bar.set_message(format!("  {} failed", self.failed));
                }
                bar.inc(1);
            }
            How::Lines { last } if last.elapsed() >= LINE_EVERY => {
                *last = Instant::now();
                let line = line(self.done, self.total, self.failed, self.begun.elapsed());
                style::eprint(&line);
            }
            How::Lines { .. } | How::Nothing => {}
        }
    }

    /// Removes the bar. Gives the time since the start.
    pub(crate) fn finish(self) -> Duration {
        if let How::Bar(bar) = &self.how {
            bar.finish_and_clear();
        }
        self.begun.elapsed()
    }
}

fn line(done: u64, total: u64, failed: u64, elapsed: Duration) -> String {
    let rate = done as f64 / elapsed.as_secs_f64().max(0.001);
    let eta = (total - done.min(total)) as f64 / rate.max(0.001);
    format!("{done}/{total} done, {failed} failed, {rate:.1} jobs/s, eta {eta:.0}s\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_how_fast_and_how_long() {
        let text = line(50, 200, 3, Duration::from_secs(10));
        assert_eq!(text, "50/200 done, 3 failed, 5.0 jobs/s, eta 30s\n");
    }
}
