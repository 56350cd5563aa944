//! Processor time of a fleet's processes, and of all processes that they have started, from `/proc`.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;

/// Time between two looks. A process that ends between them is not lost: its parent's time then includes its time.
const EVERY: Duration = Duration::from_secs(2);

/// Ticks per second in `/proc/<pid>/stat` (`USER_HZ`), the same on all machines.
const TICKS_PER_S: f64 = 100.0;

/// A part of a fleet whose time is measured: `NAME=PID`, or `NAME=@TEXT` for all processes that have TEXT in their
/// command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    name: String,
    roots: Roots,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Roots {
    Pid(u32),
    Named(String),
}

impl Part {
    /// This process, with all processes that it has started.
    pub fn this(name: &str) -> Self {
        Self { name: name.to_owned(), roots: Roots::Pid(std::process::id()) }
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is neither NAME=PID nor NAME=@TEXT");
        let (name, what) = text.split_once('=').ok_or_else(wrong)?;
        let roots = match what.strip_prefix('@') {
            Some(text) if !text.is_empty() => Roots::Named(text.to_owned()),
            _ => Roots::Pid(what.parse().map_err(|_| wrong())?),
        };
        Ok(Self { name: name.to_owned(), roots })
    }
}

/// One process, from `/proc/<pid>/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    parent: u32,
    /// User and system ticks of the process, and of its children that it has waited for.
    ticks: u64,
}

fn read(stat: &str) -> Option<Process> {
    // The name in brackets may contain spaces and brackets.
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    let ticks = number(11)? + number(12)? + number(13)? + number(14)?;
    Some(Process { parent: u32::try_from(number(1)?).ok()?, ticks })
}

fn processes() -> HashMap<u32, Process> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid: u32| Some((pid, read(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?)))
        .collect()
}

/// Ticks of each root's whole tree. A root below another root is counted with the upper one.
fn trees(all: &HashMap<u32, Process>, roots: &HashSet<u32>) -> HashMap<u32, u64> {
    let mut sums: HashMap<u32, u64> = HashMap::new();
    for (pid, process) in all {
        let (mut at, mut root) = (*pid, roots.contains(pid).then_some(*pid));
        while let Some(above) = all.get(&at).map(|process| process.parent).filter(|parent| *parent != 0) {
            root = if roots.contains(&above) { Some(above) } else { root };
            at = above;
        }
        if let Some(root) = root {
            *sums.entry(root).or_default() += process.ticks;
        }
    }
    sums
}

#[derive(Debug, Default)]
struct Account {
    seen: HashMap<(usize, u32), u64>,
    ticks: Vec<u64>,
    begun: bool,
}

impl Account {
    fn look(&mut self, parts: &[Part]) {
        let all = processes();
        self.ticks.resize(parts.len(), 0);
        let mut seen = HashMap::new();
        for (n, part) in parts.iter().enumerate() {
            let roots: HashSet<u32> = match &part.roots {
                Roots::Pid(pid) => HashSet::from([*pid]),
                Roots::Named(text) => all.keys().copied().filter(|pid| is_named(*pid, text)).collect(),
            };
            for (root, ticks) in trees(&all, &roots) {
                // A root that is new since the first look has used all its ticks since then.
                let before = self.seen.get(&(n, root)).copied().unwrap_or(if self.begun { 0 } else { ticks });
                self.ticks[n] += ticks.saturating_sub(before);
                seen.insert((n, root), ticks);
            }
        }
        (self.seen, self.begun) = (seen, true);
    }
}

fn is_named(pid: u32, text: &str) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    pid != std::process::id() && String::from_utf8_lossy(&line).replace('\0', " ").contains(text)
}

/// Measures the processor time of parts of a fleet from [`Meter::start`] to [`Meter::stop`].
#[derive(Debug)]
pub struct Meter {
    parts: Arc<[Part]>,
    account: Arc<Mutex<Account>>,
    watch: JoinHandle<()>,
}

impl Meter {
    /// Takes the first look, and spawns the task that takes further ones. Needs a runtime.
    pub fn start(parts: &[Part]) -> Self {
        let (parts, account): (Arc<[Part]>, _) = (parts.into(), Arc::<Mutex<Account>>::default());
        account.lock().unwrap_or_else(PoisonError::into_inner).look(&parts);
        let watch = tokio::spawn({
            let (parts, account) = (Arc::clone(&parts), Arc::clone(&account));
            async move {
                loop {
                    tokio::time::sleep(EVERY).await;
                    account.lock().unwrap_or_else(PoisonError::into_inner).look(&parts);
                }
            }
        });
        Self { parts, account, watch }
    }

    /// Milliseconds since the start, by part.
    pub fn stop(self) -> BTreeMap<String, f64> {
        self.watch.abort();
        let mut account = self.account.lock().unwrap_or_else(PoisonError::into_inner);
        account.look(&self.parts);
        let mut by_part = BTreeMap::new();
        for (part, ticks) in self.parts.iter().zip(&account.ticks) {
            *by_part.entry(part.name.clone()).or_default() += *ticks as f64 * 1000.0 / TICKS_PER_S;
        }
        by_part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_is_read_whatever_its_process_is_called() {
        let stat = "42 (a) b (c) S 7 1 1 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1 0 99 0 0";
        assert_eq!(read(stat), Some(Process { parent: 7, ticks: 100 }));
        assert_eq!(read("42 (a"), None);
    }

    #[test]
    fn a_tree_is_counted_once() {
        let process = |parent, ticks| Process { parent, ticks };
        let all = HashMap::from([
            (1, process(0, 1)),
            (2, process(1, 10)),
            (3, process(2, 100)),
            (4, process(3, 1000)),
            (5, process(1, 10_000)),
        ]);
        assert_eq!(trees(&all, &HashSet::from([2, 3])), HashMap::from([(2, 1110)]));
        assert_eq!(trees(&all, &HashSet::from([5, 9])), HashMap::from([(5, 10_000)]));
    }

    #[test]
    fn parts_are_named() {
        let parse = |text: &str| text.parse::<Part>();
        assert_eq!(parse("redis=12"), Ok(Part { name: "redis".into(), roots: Roots::Pid(12) }));
        assert_eq!(parse("c=@shim -x"), Ok(Part { name: "c".into(), roots: Roots::Named("shim -x".into()) }));
        for bad in ["redis", "redis=", "redis=@", "redis=x"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[tokio::test]
    async fn work_is_counted() {
        let meter = Meter::start(&[Part::this("me")]);
        let count = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        std::process::Command::new("sh").args(["-c", count]).status().unwrap();
        let used = meter.stop()["me"];
        assert!(used >= 20.0, "{used} ms");
    }
}
