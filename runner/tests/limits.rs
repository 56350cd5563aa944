//! Limits: each is really hit, and the runner survives it.

mod common;

use std::time::Duration;

use common::{Runner, limits, program};
use thermae_runner::frames::{End, Limits, Run};

fn limited(code: &str, limits: Limits) -> Run {
    Run { limits, ..program(code) }
}

#[test]
fn the_wall_clock_interrupts_then_kills() {
    let mut runner = Runner::patient();
    let short = Limits { wall_ms: 3000, grace_ms: 60_000, ..limits() };
    let soft = runner.run(&limited("import time\nprint('in', flush=True)\ntime.sleep(60)", short));
    assert_eq!(soft.end(), &End::TimedOut { limit: "wall".into(), soft: true });
    assert_eq!(soft.out(), "in\n");
    let deaf = "import time\nwhile True:\n    try:\n        time.sleep(60)\n    except BaseException:\n        print('no', flush=True)";
    let hard = runner.run(&limited(deaf, Limits { grace_ms: 3000, ..short }));
    assert_eq!(hard.end(), &End::TimedOut { limit: "wall".into(), soft: false });
    assert_eq!(hard.out(), "no\n");
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

/// Python: a child that is busy until the parent has seen that it used `BUSY` seconds of CPU time.
const BUSY: f64 = 0.2;

/// Programs with a busy child, whatever becomes of the child.
fn busy_children() -> Vec<(&'static str, String)> {
    let start = format!(
        "import os, signal, time\ndef work():\n    while time.process_time() < {BUSY}: pass\nr, w = os.pipe()\n"
    );
    let child = "p = os.fork()\nif p == 0:\n    work()\n    os.write(w, b'x')\n";
    let programs = [
        ("waited for", format!("{child}    os._exit(0)\nos.waitpid(p, 0)\n")),
        ("alive at the end", format!("{child}    time.sleep(60)\nos.read(r, 1)\n")),
        ("killed", format!("{child}    time.sleep(60)\nos.read(r, 1)\nos.kill(p, 9)\n")),
        ("a zombie", format!("{child}    os._exit(0)\nos.waitid(os.P_PID, p, os.WEXITED | os.WNOWAIT)\n")),
        (
            "an orphan",
            format!(
                "if os.fork() == 0:\n    {}    os._exit(0)\nos.wait()\nos.close(w)\nos.read(r, 1)\nos.read(r, 1)\n",
                child.replace('\n', "\n    ").trim_end_matches(' ').to_owned() + "        os._exit(0)\n"
            ),
        ),
    ];
    programs.into_iter().map(|(name, code)| (name, start.clone() + &code)).collect()
}

fn cpu(outcome: &common::Outcome) -> Duration {
    Duration::from_micros(outcome.exit.as_ref().expect("an exit").usage.cpu_us)
}

#[test]
fn cpu_time_of_children_shows_in_the_usage() {
    let check = |runner: &mut Runner| {
        for (name, code) in busy_children() {
            for end in ["print(1)", "print(1, flush=True)\nos._exit(0)"] {
                let outcome = runner.python(&format!("{code}{end}"));
                assert_eq!(outcome.ok(), "1\n", "{name}");
                assert!(cpu(&outcome) >= Duration::from_secs_f64(BUSY - 0.02), "{name}: {:?}", cpu(&outcome));
            }
            // A session's later run does not pay for it.
            let name = &format!("s-{name}").replace(' ', "-");
            assert_eq!(runner.run(&common::session(name, &format!("{code}print(1)"))).ok(), "1\n");
            let later = runner.run(&common::session(name, "time.sleep(0.05)\nprint(2)"));
            assert_eq!(later.ok(), "2\n");
            assert!(cpu(&later) < Duration::from_millis(170), "{name}: {:?}", cpu(&later));
        }
    };
    check(&mut Runner::new());
    if let Some(mut runner) = Runner::ordinary() {
        check(&mut runner);
    }
}

#[test]
fn cpu_time_that_nobody_waits_for_is_in_the_usage_where_there_is_a_group() {
    let mut runner = Runner::new();
    if !runner.ready.warnings.is_empty() {
        return;
    }
    let ignoring = "import os, signal, time\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\nfor _ in range(COUNT):\n    if os.fork() == 0:\n        while time.process_time() < 0.1: pass\n        os._exit(0)\n    try: os.wait()\n    except ChildProcessError: pass\nprint('end')";
    let outcome = runner.python(&ignoring.replace("COUNT", "6"));
    assert_eq!(outcome.ok(), "end\n");
    assert!(cpu(&outcome) >= Duration::from_millis(500), "{:?}", cpu(&outcome));
    let few = Limits { cpu_ms: 400, ..limits() };
    let outcome = runner.run(&limited(&ignoring.replace("COUNT", "600"), few));
    assert_eq!(outcome.end(), &End::TimedOut { limit: "cpu".into(), soft: false });
    assert!(cpu(&outcome) >= Duration::from_millis(400), "{:?}", cpu(&outcome));
}

#[test]
fn a_run_is_said_to_have_used_at_least_what_its_limit_saw() {
    let mut runner = Runner::new();
    let few = Limits { cpu_ms: 300, ..limits() };
    let child = "if os.fork() == 0:\n    while True: pass\n";
    for code in ["while True: pass".to_owned(), format!("{child}time.sleep(60)"), format!("{child}os.wait()")] {
        let outcome = runner.run(&limited(&format!("import os, time\n{code}"), few));
        assert_eq!(outcome.end(), &End::TimedOut { limit: "cpu".into(), soft: false }, "{code}");
        assert!(cpu(&outcome) >= Duration::from_millis(300), "{code}: {:?}", cpu(&outcome));
    }
    // Other limits end a run with what its children have used, too.
    let little = Limits { output_bytes: 1000, ..limits() };
    let floods = "import os, time\nr, w = os.pipe()\nif os.fork() == 0:\n    while time.process_time() < 0.2: pass\n    os.write(w, b'x')\n    time.sleep(60)\nos.read(r, 1)\nwhile True: print('x' * 100)";
    let outcome = runner.run(&limited(floods, little));
    assert_eq!(outcome.end(), &End::OutputLimit);
    assert!(cpu(&outcome) >= Duration::from_millis(100), "{:?}", cpu(&outcome));
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
    let few = Limits { pids: 16, ..limits() };
    let count = "import os, time\nn = 0\ntry:\n    while True:\n        if os.fork() == 0: time.sleep(60)\n        n += 1\nexcept OSError as e:\n    print(n, e.errno)";
    let outcome = runner.run(&limited(count, few));
    assert_eq!(outcome.ok(), "15 11\n");
    let bomb = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass";
    let outcome = runner.run(&limited(bomb, Limits { wall_ms: 3000, ..few }));
    assert!(matches!(outcome.end(), End::TimedOut { .. }), "{outcome:?}");
    assert_eq!(runner.python("print(1)").ok(), "1\n");
}

#[test]
fn disk_is_bounded_over_all_places_together() {
    let mut runner = Runner::new();
    let code = "import os\nn = 0\nfor place in ['/tmp', '/workspace', '/dev/shm']:\n    try:\n        with open(place + '/f', 'wb', buffering=0) as f:\n            while True:\n                n += f.write(b'x' * (1 << 20))\n    except OSError as e: print(place, e.errno)\nprint(n >> 20)";
    let outcome = runner.python(code).ok();
    assert_eq!(outcome, "/tmp 28\n/workspace 28\n/dev/shm 28\n31\n", "the program's own file counts, too");
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
