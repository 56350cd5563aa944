//! What runs cost that wait and are stopped: memory of their processes, and CPU time of the runner. The test prints it:
//! `cargo test --release --test waits_cost -- --nocapture`.

mod common;

use std::collections::BTreeMap;
use std::fs::read_to_string;
use std::time::Duration;

use common::waiting::calling;
use common::{Runner, setup, spec};
use thermae_runner::frames::{Limits, Run, Setup};

const RUNS: u32 = 10;

/// Processes that descend from that one, itself included, with their states and CPU ticks.
fn family(root: u32) -> BTreeMap<u32, (char, u64)> {
    let mut all = BTreeMap::new();
    for pid in std::fs::read_dir("/proc").unwrap().flatten().filter_map(|e| e.file_name().to_str()?.parse().ok()) {
        let stat = read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let Some((_, rest)) = stat.rsplit_once(") ") else { continue };
        let fields: Vec<&str> = rest.split(' ').collect();
        let ticks = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        all.insert(pid, (fields[1].parse::<u32>().unwrap(), fields[0].chars().next().unwrap(), ticks));
    }
    let descends = |mut pid: u32| loop {
        match all.get(&pid) {
            _ if pid == root => return true,
            Some((parent, ..)) => pid = *parent,
            None => return false,
        }
    };
    all.iter().filter(|(pid, _)| descends(**pid)).map(|(pid, (_, state, ticks))| (*pid, (*state, *ticks))).collect()
}

fn kib(pid: u32, key: &str) -> u64 {
    let text = read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    text.lines().find_map(|line| line.strip_prefix(key)?.split_whitespace().next()?.parse().ok()).unwrap()
}

#[test]
fn a_stopped_run_costs_the_runner_next_to_nothing() {
    let spec = spec();
    let ceiling = Limits { pause_ms: 600_000, ..common::limits() };
    let mut runner = Runner::start(&spec, Setup { ceiling, ..setup(&spec) });
    let limits = Limits { pause_ms: 600_000, pause_after_ms: 300, ..common::limits() };
    let runs: Vec<u32> = (0..RUNS)
        .map(|_| {
            let run = runner.begin(&Run { limits, ..calling("print(await t(1))") });
            runner.wait_started(run);
            run
        })
        .collect();
    for run in &runs {
        runner.wait_waits(*run, 1);
    }
    runner.ping();
    let before = family(runner.child.id());
    let stopped: Vec<u32> = before.iter().filter(|(_, (state, _))| *state == 'T').map(|(pid, _)| *pid).collect();
    assert_eq!(stopped.len(), runs.len());
    let time = Duration::from_secs(3);
    std::thread::sleep(time);
    let after = family(runner.child.id());
    let ticks: u64 = after.iter().map(|(pid, (_, ticks))| ticks - before.get(pid).map_or(*ticks, |b| b.1)).sum();
    let (mut pss, mut own) = (0, 0);
    for pid in &stopped {
        pss += kib(*pid, "Pss:");
        own += kib(*pid, "Private_Dirty:");
        assert_eq!(after[pid], before[pid], "a stopped process has done something");
    }
    println!(
        "{RUNS} stopped runs: {} KiB each (Pss), of which {} KiB are written pages of their own; \
         CPU time of all processes of the container in {time:?}: {} ms",
        pss / u64::from(RUNS),
        own / u64::from(RUNS),
        ticks * 10
    );
    // A process that looks all the time would use all of it.
    assert!(ticks < 30, "{ticks} ticks");
    for run in &runs {
        runner.answer_next(*run);
    }
    for run in runs {
        assert_eq!(runner.wait(run).ok(), "True\n");
    }
}
