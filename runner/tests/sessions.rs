//! Sessions: an interpreter that survives everything but the death of its process.

mod common;

use common::{Runner, limits, session};
use thermae_runner::frames::{End, Frame, Kind, Limits, Place, Run};

#[test]
fn variables_survive_errors_exits_and_soft_time_outs() {
    let mut runner = Runner::patient();
    runner.run(&session("s", "x = 41")).ok();
    assert_eq!(runner.run(&session("s", "1 / 0")).end(), &End::Raised);
    assert_eq!(runner.run(&session("s", "import sys\nsys.exit(3)")).end(), &End::Exited { code: 3 });
    let short = Limits { wall_ms: 150, grace_ms: 60_000, ..limits() };
    let slow = Run { limits: short, ..session("s", "import time\ntime.sleep(60)") };
    assert_eq!(runner.run(&slow).end(), &End::TimedOut { limit: "wall".into(), soft: true });
    let outcome = runner.run(&session("s", "y = b'x' * (2 << 20)\nprint(x + 1)"));
    assert_eq!(outcome.ok(), "42\n");
    let usage = outcome.exit.unwrap().usage;
    assert!(usage.memory_bytes > 1 << 20 && usage.cpu_us < 1_000_000, "{usage:?}");
}

/// How a run ends that is cancelled by an interrupt, and whether its session lives on.
fn interrupted(runner: &mut Runner, run: u32) -> (End, bool) {
    runner.send(&Frame::raw(Kind::Interrupt, run, Vec::new()));
    let exit = runner.wait(run).exit.unwrap();
    (exit.end, exit.session_lives)
}

#[test]
fn a_cancelled_run_leaves_its_session_as_it_was() {
    let mut runner = Runner::patient();
    let limits = Limits { grace_ms: 60_000, ..limits() };
    runner.run(&session("s", "x = 41\nopen('/session/f', 'w').write('kept')")).ok();
    for code in [
        "import time\nprint('on', flush=True)\ntime.sleep(600)",
        "print('on', flush=True)\nwhile True: pass",
        "import asyncio\nprint('on', flush=True)\nawait asyncio.sleep(600)",
        "import asyncio\nasync def main():\n    print('on', flush=True)\n    await asyncio.sleep(600)\nasyncio.run(main())",
        "import subprocess\nprint('on', flush=True)\nsubprocess.run(['sleep', '600'])",
        "import threading\nprint('on', flush=True)\nthreading.Event().wait()",
        "import os\nr, w = os.pipe()\nprint('on', flush=True)\nos.read(r, 1)",
        // It takes its time, and ends as if nothing had been.
        "import time\nprint('on', flush=True)\ntry: time.sleep(600)\nexcept KeyboardInterrupt: time.sleep(0.2)",
        "import sys, time\nprint('on', flush=True)\ntry: time.sleep(600)\nexcept KeyboardInterrupt: sys.exit(3)",
    ] {
        let run = runner.begin(&Run { limits, ..session("s", code) });
        runner.wait_output(run, "on");
        assert_eq!(interrupted(&mut runner, run), (End::Interrupted, true), "{code}");
        assert_eq!(runner.run(&session("s", "print(x, open('/session/f').read())")).ok(), "41 kept\n", "{code}");
    }
    // Two interrupts are one, and what comes after the end meets nobody.
    let run = runner.begin(&Run { limits, ..session("s", "import time\nprint('on', flush=True)\ntime.sleep(600)") });
    runner.wait_output(run, "on");
    runner.send(&Frame::raw(Kind::Interrupt, run, Vec::new()));
    assert_eq!(interrupted(&mut runner, run), (End::Interrupted, true));
    runner.send(&Frame::raw(Kind::Interrupt, run, Vec::new()));
    assert_eq!(runner.run(&session("s", "print(x)")).ok(), "41\n");
}

#[test]
fn a_run_is_cancelled_at_any_moment_and_its_session_stays() {
    let mut runner = Runner::patient();
    runner.run(&session("s", "x = 0")).ok();
    let run = Run { limits: Limits { grace_ms: 60_000, ..limits() }, ..session("s", "x += 1") };
    for n in 0..200 {
        // At once, after the code has begun, and when it may have ended already.
        let run = runner.begin(&run);
        match n % 3 {
            0 => {}
            1 => runner.wait_started(run),
            _ => runner.send(&Frame::raw(Kind::Ping, 0, Vec::new())),
        }
        let (end, lives) = interrupted(&mut runner, run);
        assert!(matches!(end, End::Interrupted | End::Killed | End::Exited { code: 0 }), "{n}: {end:?}");
        assert!(lives, "{n}: {end:?}");
    }
    assert!(runner.run(&session("s", "print(x)")).ok().trim().parse::<u32>().unwrap() <= 200);
    // One that waits for its session is taken back.
    let first = runner
        .begin(&Run { limits: run.limits, ..session("s", "import time\nprint('on', flush=True)\ntime.sleep(600)") });
    runner.wait_output(first, "on");
    let second = runner.begin(&run);
    assert_eq!(interrupted(&mut runner, second), (End::Killed, true));
    assert_eq!(interrupted(&mut runner, first), (End::Interrupted, true));
}

#[test]
fn what_defies_its_interrupt_is_killed_and_leaves_its_files() {
    let mut runner = Runner::new();
    let wall = End::TimedOut { limit: "wall".into(), soft: false };
    for (cancel, grace_ms, end) in
        [(true, 100, End::Killed), (true, 0, End::Killed), (false, 100, wall.clone()), (false, 0, wall)]
    {
        runner.run(&session("s", "x = 1\nopen('/session/before', 'w').write('before')")).ok();
        let defies = "open('during', 'w').write('during')\nwhile True:\n    try:\n        print('on', flush=True)\n        while True: pass\n    except KeyboardInterrupt: pass";
        // Enough to write the file on a busy machine.
        let wall_ms = if cancel { limits().wall_ms } else { 3000 };
        let run = runner.begin(&Run { limits: Limits { wall_ms, grace_ms, ..limits() }, ..session("s", defies) });
        if cancel {
            runner.wait_output(run, "on");
            runner.send(&Frame::raw(Kind::Interrupt, run, Vec::new()));
        }
        let exit = runner.wait(run).exit.unwrap();
        assert_eq!((exit.end, exit.session_lives), (end, false));
        let taken = runner.checkpoint("s", 100, 1 << 20);
        assert_eq!((taken.end(), taken.exit.as_ref().unwrap().session_lives), (&End::Exited { code: 0 }, false));
        let find = |path: &[u8]| taken.parts.iter().find(|(part, _)| part.path.0 == path).map(|(_, bytes)| &bytes[..]);
        assert_eq!(find(b"/session/before"), Some(&b"before"[..]));
        assert_eq!(find(b"/workspace/during"), Some(&b"during"[..]));
        assert_eq!(runner.checkpoint("s", 100, 1 << 20).end(), &End::NoSession, "once");
    }
    // Nothing is kept of a session that ended in another way, nor once there is a new one of its name.
    runner.run(&session("s", "import os\nos._exit(0)"));
    assert_eq!(runner.checkpoint("s", 100, 1 << 20).end(), &End::NoSession);
    let run = Run { limits: Limits { wall_ms: 300, grace_ms: 0, ..limits() }, ..session("s", "while True: pass") };
    assert!(!runner.run(&run).exit.unwrap().session_lives);
    runner.run(&session("s", "import os\nos._exit(0)"));
    assert_eq!(runner.checkpoint("s", 100, 1 << 20).end(), &End::NoSession);
}

#[test]
fn limits_of_one_run_do_not_bind_the_sessions_next() {
    let mut runner = Runner::new();
    let little = Limits { memory_bytes: 32 << 20, pids: 4, ..limits() };
    let hog = "x = bytearray(100 << 20)\nprint(len(x) >> 20)";
    assert_eq!(runner.run(&Run { limits: little, ..session("m", hog) }).end(), &End::OutOfMemory);
    assert_eq!(runner.run(&session("m", hog)).ok(), "100\n");
}

#[test]
fn sessions_are_apart_and_have_fresh_pipes_in_each_run() {
    let mut runner = Runner::new();
    runner.run(&session("a", "x = 'a'\nopen('f', 'w').write('a')")).ok();
    runner.run(&session("b", "x = 'b'")).ok();
    assert_eq!(runner.run(&session("a", "print(x, open('f').read())")).ok(), "a a\n");
    assert_eq!(
        runner.run(&session("b", "import os\nprint(x, sorted(os.listdir()))")).ok(),
        "b ['artifacts', 'main.py', 'main_2.py']\n"
    );
    assert_eq!(runner.python("print('x' in globals())").ok(), "False\n");
    // What a thread of an earlier run prints is not this run's output.
    let late = "import threading, os\ngo = threading.Event()\nold = os.dup(1)\nthreading.Thread(target=lambda: (go.wait(), os.write(old, b'late'), print('later')), daemon=True).start()";
    runner.run(&session("a", late)).ok();
    assert_eq!(runner.run(&session("a", "print('mine')")).ok(), "mine\n");
}

#[test]
fn a_run_whose_session_dies_before_it_starts_has_no_session() {
    let mut runner = Runner::new();
    // The next run's descriptors find room for one.
    let hoard = "import os, resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\nheld = []\ntry:\n    while True: held.append(os.dup(0))\nexcept OSError:\n    os.close(held.pop())";
    runner.run(&session("s", hoard)).ok();
    let outcome = runner.run(&session("s", "print('lost')"));
    assert_eq!((outcome.end(), outcome.started), (&End::NoSession, false));
    assert!(!outcome.exit.unwrap().session_lives);
    assert_eq!(runner.run(&session("s", "print('held' in globals())")).ok(), "False\n");
}

#[test]
fn a_session_must_exist_or_may_be_made() {
    let mut runner = Runner::new();
    let no = Run { place: Place::Session { session: "n".into(), create: false }, ..session("n", "1") };
    assert_eq!(runner.run(&no).end(), &End::NoSession);
    runner.run(&session("n", "y = 5")).ok();
    let again = Run { code: "print(y)".into(), ..no.clone() };
    assert_eq!(runner.run(&again).ok(), "5\n");
    runner.send(&Frame::raw(Kind::CloseSession, 0, *b"n"));
    assert_eq!(runner.wait_closed(), "n");
    assert_eq!(runner.run(&no).end(), &End::NoSession);
    runner.send(&Frame::raw(Kind::CloseSession, 0, *b"unknown"));
    assert_eq!(runner.wait_closed(), "unknown");
}

#[test]
fn a_sessions_death_is_told() {
    let mut runner = Runner::new();
    assert_eq!(runner.run(&session("d", "import os\nos._exit(4)")).end(), &End::Exited { code: 4 });
    assert_eq!(runner.wait_closed(), "d");
    let timer = "import threading, os\nthreading.Timer(0.1, lambda: os._exit(1)).start()\nprint('armed')";
    assert_eq!(runner.run(&session("e", timer)).ok(), "armed\n");
    assert_eq!(runner.wait_closed(), "e");
    let hog = Run { limits: Limits { cpu_ms: 200, ..limits() }, ..session("f", "while True: pass") };
    assert_eq!(runner.run(&hog).end(), &End::TimedOut { limit: "cpu".into(), soft: false });
    assert_eq!(runner.wait_closed(), "f");
}

#[test]
fn a_daemon_that_holds_the_pipe_delays_nothing() {
    let mut runner = Runner::new();
    let daemon = "import subprocess\np = subprocess.Popen(['sleep', '60'])\nprint('left')";
    assert_eq!(runner.run(&session("p", daemon)).ok(), "left\n");
    assert_eq!(runner.run(&session("p", "print(p.poll())")).ok(), "None\n");
    assert_eq!(runner.python(daemon).ok(), "left\n");
}

#[test]
fn runs_of_one_session_wait_for_each_other() {
    let mut runner = Runner::new();
    let first = runner.begin(&session("q", "import time\ntime.sleep(0.2)\nz = 1"));
    let second = runner.begin(&session("q", "print(z)"));
    assert_eq!(runner.wait(second).ok(), "1\n");
    runner.wait(first).ok();
}

#[test]
fn cpu_time_counts_from_the_runs_start() {
    let mut runner = Runner::new();
    let burn = "import time\nt = time.process_time()\nwhile time.process_time() - t < 0.25: pass";
    let run = Run { limits: Limits { cpu_ms: 600, ..limits() }, ..session("c", burn) };
    for _ in 0..3 {
        runner.run(&run).ok();
    }
}

#[test]
fn children_of_earlier_runs_cost_the_next_nothing() {
    let mut runner = Runner::new();
    let burn = "import os, time\nif (child := os.fork()) == 0:\n    while time.process_time() < 0.3: pass\n    os._exit(0)\nos.waitpid(child, 0)\ntime.sleep(0.3)";
    let run = Run { limits: Limits { cpu_ms: 600, ..limits() }, ..session("c", burn) };
    for n in 0..3 {
        let outcome = runner.run(&run);
        assert_eq!(outcome.end(), &End::Exited { code: 0 }, "run {n}");
        let usage = outcome.exit.unwrap().usage;
        assert!((250_000..600_000).contains(&usage.cpu_us), "run {n}: {usage:?}");
    }
}

#[test]
fn a_process_that_an_earlier_run_left_costs_the_next_only_what_it_uses_then() {
    let mut runner = Runner::new();
    let leave = "import os, time\nr, w = os.pipe()\nif os.fork() == 0:\n    while time.process_time() < 0.4: pass\n    os.write(w, b'x')\n    time.sleep(60)\n    os._exit(0)\nos.read(r, 1)";
    runner.run(&session("d", leave)).ok();
    let few = Limits { cpu_ms: 500, ..limits() };
    let burn = "t = time.process_time()\nwhile time.process_time() - t < 0.25: pass\ntime.sleep(0.5)";
    runner.run(&Run { limits: few, ..session("d", burn) }).ok();
}

#[test]
fn a_process_that_a_short_run_left_costs_the_next_only_what_it_uses_then() {
    let mut runner = Runner::new();
    let leave = "import os, time\nif os.fork() == 0:\n    while time.process_time() < 0.4: pass\n    time.sleep(60)";
    runner.run(&session("e", leave)).ok();
    // The process has used up its time when these are done; none of them takes as long as a clock tick.
    for _ in 0..200 {
        runner.run(&session("e", "time.sleep(0.005)")).ok();
    }
    let few = Limits { cpu_ms: 500, ..limits() };
    let burn = "t = time.process_time()\nwhile time.process_time() - t < 0.25: pass\ntime.sleep(0.5)";
    runner.run(&Run { limits: few, ..session("e", burn) }).ok();
}
