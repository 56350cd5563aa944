//! Memory of the processes that live longer than a soak, sampled during it.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::process;

/// Time between two samples.
const EVERY: Duration = Duration::from_millis(500);

/// Growth in bytes that an allocator may show without a leak, if this is more than a tenth.
const SLACK: u64 = 16 << 20;

/// Samples of each watched process, in bytes, by the process's name.
pub(super) type Samples = BTreeMap<String, Vec<u64>>;

/// A task that samples memory until [`Watch::end`].
pub(super) struct Watch {
    stop: CancellationToken,
    task: JoinHandle<Samples>,
}

impl Watch {
    /// Starts to sample processes, each under its name.
    pub(super) fn begin(processes: BTreeMap<String, u32>) -> Self {
        let stop = CancellationToken::new();
        let task = tokio::spawn({
            let stop = stop.clone();
            async move {
                let mut samples = Samples::new();
                while !stop.is_cancelled() {
                    for (name, pid) in &processes {
                        if let Some(bytes) = resident(*pid) {
                            samples.entry(name.clone()).or_default().push(bytes);
                        }
                    }
                    tokio::select! {
                        () = tokio::time::sleep(EVERY) => {}
                        () = stop.cancelled() => {}
                    }
                }
                samples
            }
        });
        Self { stop, task }
    }

    /// Stops, and gives the samples.
    pub(super) async fn end(self) -> Samples {
        self.stop.cancel();
        self.task.await.unwrap_or_default()
    }
}

/// Anonymous resident memory of a process, in bytes; `None` if the process is gone.
fn resident(pid: u32) -> Option<u64> {
    process::bytes(pid, "status", "RssAnon")
}

/// The medians of the second and of the last quarter of the samples, and whether memory stayed flat between them. The
/// first quarter is warm-up.
pub(super) fn flat(samples: &[u64]) -> (u64, u64, bool) {
    let quarter = samples.len() / 4;
    let median = |part: &[u64]| {
        let mut part = part.to_vec();
        part.sort_unstable();
        part.get(part.len() / 2).copied().unwrap_or_default()
    };
    let (before, after) = (median(&samples[quarter..2 * quarter]), median(&samples[3 * quarter..]));
    (before, after, after <= before + (before / 10).max(SLACK))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leak_is_told_from_noise() {
        let mib = |n: u64| n << 20;
        let noisy: Vec<u64> = (0..400).map(|n| mib(50 + n % 7)).collect();
        assert!(flat(&noisy).2);
        let leaking: Vec<u64> = (0..400).map(|n| mib(50 + n / 8)).collect();
        assert!(!flat(&leaking).2);
        let warming: Vec<u64> = (0..400).map(|n| mib(if n < 90 { n / 2 } else { 50 })).collect();
        assert!(flat(&warming).2);
    }

    #[test]
    fn this_process_has_memory() {
        assert!(resident(std::process::id()).is_some_and(|bytes| bytes > 4096));
    }
}
