//! Limits: each is really hit, and the runner survives it.

mod common;

use std::time::{Duration, Instant};

use common::{Runner, limits, program};
use thermae_runner::frames::{End, Limits, Run};

fn limited(code: &str, limits: Limits) -> Run {
    Run { limits, ..program(code) }
}

#[test]
fn the_wall_clock_interrupts_then_kills() {
    let mut runner = Runner::new();
    let short = Limits { wall_ms: 200, grace_ms: 200, ..limits() };
    let soft = runner.run(&limited("import time\nprint('in', flush=True)\ntime.sleep(60)", short));
    assert_eq!(soft.end(), &End::TimedOut { limit: "wall".into(), soft: true });
    assert_eq!(soft.out(), "in\n");
    let deaf = "import time\nwhile True:\n    try:\n        time.sleep(60)\n    except BaseException:\n        print('no', flush=True)";
    let start = Instant::now();
    let hard = runner.run(&limited(deaf, short));
    assert_eq!(hard.end(), &End::TimedOut { limit: "wall".into(), soft: false });
    assert_eq!(hard.out(), "no\n");
    assert!(start.elapsed() < Duration::from_secs(5));
    assert_eq!(runner.python("print(1)").ok(), "1\n");
}

#[test]
fn cpu_time_is_bounded_for_one_process_and_for_many() {
    let mut runner = Runner::new();
    let few = Limits { cpu_ms: 300, ..limits() };
    let timed_out = End::TimedOut { limit: "cpu".into(), soft: false };
    assert_eq!(runner.run(&limited("while True: pass", few)).end(), &timed_out);
    let many =
        "import os\nfor _ in range(3):\n    if os.fork() == 0:\n        while True: pass\nimport time\ntime.sleep(60)";
    assert_eq!(runner.run(&limited(many, few)).end(), &timed_out);
    // Sleeping takes no CPU time.
    assert_eq!(runner.run(&limited("import time\ntime.sleep(0.6)\nprint(1)", few)).ok(), "1\n");
}

#[test]
fn cpu_time_of_a_process_of_any_name_counts() {
    // As an ordinary user, without a control group, which would count the process anyhow.
    let Some(mut runner) = Runner::ordinary() else { return };
    let few = Limits { cpu_ms: 300, ..limits() };
    let code = "import ctypes, os, time\nif os.fork() == 0:\n    ctypes.CDLL(None).prctl(15, b'\\xff\\xfe', 0, 0, 0)\n    while True: pass\ntime.sleep(60)";
    let timed_out = End::TimedOut { limit: "cpu".into(), soft: false };
    assert_eq!(runner.run(&limited(code, few)).end(), &timed_out);
}

#[test]
fn a_job_gives_way_to_its_runner_and_cant_take_that_back() {
    let mut runner = Runner::new();
    let code = "import os, subprocess\nmine = os.getpriority(os.PRIO_PROCESS, 0)\ntry: os.setpriority(os.PRIO_PROCESS, 0, mine - 1)\nexcept PermissionError: print('refused')\nprint(mine, os.getpriority(os.PRIO_PROCESS, 0), subprocess.check_output(['nice'], text=True).strip())";
    let own = rustix::process::getpriority_process(None).unwrap();
    let nicer = (own + 10).min(19);
    assert_eq!(runner.python(code).ok(), format!("refused\n{nicer} {nicer} {nicer}\n"));
}

#[test]
fn memory_is_bounded() {
    let mut runner = Runner::new();
    let little = Limits { memory_bytes: 64 << 20, ..limits() };
    for code in ["x = bytearray(500 << 20)", "x = []\nwhile True: x.append(bytearray(1 << 20))", "x = 'a' * (1 << 40)"]
    {
        assert_eq!(runner.run(&limited(code, little)).end(), &End::OutOfMemory, "{code}");
    }
    let caught = "try:\n    x = bytearray(500 << 20)\nexcept MemoryError:\n    print('caught')";
    assert_eq!(runner.run(&limited(caught, little)).ok(), "caught\n");
    assert_eq!(runner.run(&limited("x = bytearray(40 << 20)\nprint(len(x))", little)).ok(), "41943040\n");
}

#[test]
fn memory_of_many_processes_is_bounded_by_the_container() {
    let mut spec = common::spec();
    spec.memory_bytes = Some(200 << 20);
    let setup = common::setup(&spec);
    let mut runner = Runner::start(&spec, setup);
    let watched = !runner.ready.warnings.is_empty();
    let hogs = "import os, time\nfor _ in range(8):\n    if os.fork() == 0:\n        x = bytearray(os.urandom(1 << 20) * 100)\n        time.sleep(60)\nx = bytearray(os.urandom(1 << 20) * 200)\nfor _ in range(8): print(os.wait()[1] & 127, flush=True)";
    let outcome = runner.run(&program(hogs));
    // The kernel kills the largest process: a child (which the program sees), or the program itself.
    let seen = outcome.out().contains('9') || outcome.end() == &End::OutOfMemory;
    assert!(seen, "watched {watched}: {outcome:?}");
    assert_eq!(runner.python("print(1)").ok(), "1\n");
}

#[test]
fn output_is_cut_at_the_cap() {
    let mut runner = Runner::new();
    let little = Limits { output_bytes: 10_000, ..limits() };
    let outcome = runner.run(&limited("import sys\nwhile True: sys.stdout.write('x' * 999)", little));
    assert_eq!(outcome.end(), &End::OutputLimit);
    assert_eq!(outcome.stdout.len(), 10_000);
    let both = runner.run(&limited("import sys\nsys.stdout.write('x' * 6000)\nsys.stderr.write('y' * 6000)", little));
    assert_eq!(both.end(), &End::OutputLimit);
    assert_eq!(both.stdout.len() + both.stderr.len(), 10_000);
    assert_eq!(runner.run(&limited("print('z' * 9999)", little)).ok().len(), 10_000);
}

#[test]
fn a_fork_bomb_ends_within_its_limit() {
    let mut runner = Runner::new();
    let few = Limits { pids: 16, wall_ms: 3000, ..limits() };
    let count = "import os, time\nn = 0\ntry:\n    while True:\n        if os.fork() == 0: time.sleep(60)\n        n += 1\nexcept OSError as e:\n    print(n, e.errno)";
    let outcome = runner.run(&limited(count, few));
    assert_eq!(outcome.ok(), "15 11\n");
    let bomb = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass";
    let outcome = runner.run(&limited(bomb, few));
    assert!(matches!(outcome.end(), End::TimedOut { .. }), "{outcome:?}");
    assert_eq!(runner.python("print(1)").ok(), "1\n");
}

#[test]
fn disk_is_bounded_over_all_places_together() {
    let mut runner = Runner::new();
    let code = "import os\nn = 0\nfor place in ['/tmp', '/workspace', '/dev/shm']:\n    try:\n        with open(place + '/f', 'wb', buffering=0) as f:\n            while True:\n                n += f.write(b'x' * (1 << 20))\n    except OSError as e: print(place, e.errno)\nprint(n >> 20)";
    let outcome = runner.python(code).ok();
    assert_eq!(outcome, "/tmp 27\n/workspace 28\n/dev/shm 28\n32\n");
    let one = "try:\n    with open('big', 'wb') as f: f.truncate(1 << 40)\nexcept OSError as e: print(e.errno)";
    assert_eq!(runner.python(one).ok(), "27\n");
}

#[test]
fn nobody_gets_more_than_the_ceiling() {
    let mut runner = Runner::new();
    let greedy = Limits { output_bytes: 1 << 40, pids: 60_000, memory_bytes: 1 << 50, ..limits() };
    let code = "import resource as r\nprint(r.getrlimit(r.RLIMIT_NPROC)[1], r.getrlimit(r.RLIMIT_DATA)[1] < (2 << 30), r.getrlimit(r.RLIMIT_CORE))";
    assert_eq!(runner.run(&limited(code, greedy)).ok(), "65 True (1, 1)\n");
    let raise = "import resource as r\ntry: r.setrlimit(r.RLIMIT_NPROC, (9999, 9999))\nexcept (ValueError, PermissionError): print('refused')";
    assert_eq!(runner.python(raise).ok(), "refused\n");
}
