//! Measures how long a run takes at the runner's socket, behind a native outer wall: `cargo bench -p thermae-runner`.
//!
//! Prints percentiles, in microseconds, of the time from sending the run's frame until its exit arrives, and the
//! runner's own phases. `THERMAE_BENCH_PYTHON` names an interpreter with pandas for the loaded case; without pandas
//! that case is left out.

#[path = "../tests/common/mod.rs"]
mod common;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use common::{Runner, program, session, setup};
use thermae_runner::frames::Run;
use thermae_runner::outer::Spec;

fn main() {
    let python = std::env::var_os("THERMAE_BENCH_PYTHON");
    let mut spec = Spec::for_python(python.as_deref().map(std::path::Path::new)).expect("an interpreter");
    spec.memory_bytes = Some(2 << 30);
    let mut setup = setup(&spec);
    setup.spares = 2;
    setup.languages[0] = common::python(&spec, &["numpy", "pandas"], true);
    setup.ceiling.memory_bytes = 1 << 30;
    let mut runner = Runner::start(&spec, setup);
    println!("ready: {:?} {:?}", runner.ready.preloaded, runner.ready.warnings);
    // Longer than it takes to make the next sandbox, even with a large heap on a slow machine.
    let pause = Duration::from_millis(25);
    measure(&mut runner, "print, paced", &program("print(1+1)"), 500, pause);
    measure(&mut runner, "print, back to back", &program("print(1+1)"), 1000, Duration::ZERO);
    if runner.ready.preloaded.len() == 2 {
        let code = "import pandas as pd\nprint(pd.DataFrame({'a': range(10)}).a.sum())";
        measure(&mut runner, "pandas, paced", &program(code), 300, pause);
        measure(&mut runner, "pandas, back to back", &program(code), 500, Duration::ZERO);
    }
    measure(&mut runner, "session's next", &session("s", "print(1+1)"), 1000, Duration::ZERO);
}

fn measure(runner: &mut Runner, name: &str, run: &Run, count: usize, pause: Duration) {
    // Arguments choose cases by parts of their names, as in `-- 'print, back'`.
    let mut wanted = std::env::args().skip(1).filter(|a| !a.starts_with("--")).peekable();
    if wanted.peek().is_some() && !wanted.any(|w| name.contains(&w)) {
        return;
    }
    for _ in 0..20 {
        runner.run(run).ok();
    }
    let (mut times, mut phases, mut warm) = (Vec::new(), BTreeMap::<String, Vec<u64>>::new(), 0);
    let begun = Instant::now();
    for _ in 0..count {
        std::thread::sleep(pause);
        let start = Instant::now();
        let outcome = runner.run(run);
        times.push(start.elapsed().as_micros() as u64);
        let exit = outcome.exit.expect("ended");
        warm += usize::from(exit.warm);
        for (phase, micros) in exit.phases {
            phases.entry(phase).or_default().push(micros);
        }
    }
    let rate = count as f64 / begun.elapsed().as_secs_f64();
    let middle: Vec<String> = phases.iter_mut().map(|(p, v)| format!("{p} {}", percentile(v, 50))).collect();
    println!(
        "{name:22} p50 {:5} p95 {:5} p99 {:5} µs  {rate:6.0}/s  warm {warm}/{count}  [{}]",
        percentile(&mut times, 50),
        percentile(&mut times, 95),
        percentile(&mut times, 99),
        middle.join(", ")
    );
}

fn percentile(values: &mut [u64], p: usize) -> u64 {
    values.sort_unstable();
    values[(values.len() * p / 100).min(values.len() - 1)]
}
