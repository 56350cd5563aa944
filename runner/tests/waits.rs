//! Runs that wait for answers of their tool calls: the waiting does not count against the wall clock.

mod common;

use std::time::Duration;

use common::Runner;
use common::waiting::{brief, calling, timed_out};
use serde_json::json;
use thermae_runner::frames::{End, Frame, Kind, Limits, Run};

/// More than the wall-clock time of the runs here.
const LONG: Duration = Duration::from_millis(3500);

#[test]
fn a_wait_may_be_longer_than_the_wall_clock_allows() {
    let mut runner = Runner::warm();
    for code in [
        "print(await t(1))",
        "print(t.sync(1))",
        "import asyncio\nprint(all(await asyncio.gather(*[t(1) for _ in range(20)])))",
        "import asyncio\nprint(asyncio.run(asyncio.wait_for(t(1), None)))",
        "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(3) as pool: print(all(pool.map(t.sync, range(3))))",
        "import asyncio\nprint(all(await asyncio.gather(asyncio.to_thread(t.sync, 1), t(2))))",
        "import threading\ndef ask(): print(t.sync(1))\nthreading.Thread(target=ask).start()",
    ] {
        let run = runner.begin(&calling(code));
        runner.wait_waits(run, 1);
        runner.pass(LONG);
        while runner.so_far(run).exit.is_none() {
            runner.answer_all();
            runner.step();
        }
        let outcome = runner.wait(run);
        assert_eq!((outcome.ok().as_str(), outcome.waits), ("True\n", 1), "{code}");
        assert!(outcome.wall() > LONG && outcome.paused() >= LONG, "{code}: {:?}", outcome.exit);
        assert!(
            outcome.wall() - outcome.paused() < Duration::from_millis(brief().wall_ms),
            "{code}: {:?}",
            outcome.exit
        );
    }
}

#[test]
fn each_wait_stops_the_run_anew() {
    let mut runner = Runner::warm();
    let run = runner.begin(&calling("for n in range(3):\n    await t(n)\n    t.sync(n)\nprint('end')"));
    for n in 1..=6 {
        runner.wait_waits(run, n);
        runner.answer_next(run);
    }
    let outcome = runner.wait(run);
    assert_eq!((outcome.ok().as_str(), outcome.waits), ("end\n", 6));
    assert!(outcome.paused() >= Duration::from_millis(6 * 300), "{:?}", outcome.exit);
}

#[test]
fn the_time_for_waits_ends_and_then_the_wall_clock_counts() {
    let mut runner = Runner::warm();
    let run = Run { limits: Limits { pause_ms: 600, ..brief() }, ..calling("await t(1)") };
    let run = runner.begin(&run);
    runner.wait_waits(run, 1);
    let outcome = runner.wait(run);
    assert_eq!(outcome.end(), &timed_out());
    assert_eq!(outcome.paused(), Duration::from_millis(600));
    assert!(outcome.wall() >= Duration::from_millis(3000 + 600), "{:?}", outcome.exit);
    // Nothing ends just because that time does.
    let run = Run { limits: Limits { pause_ms: 400, wall_ms: 20_000, ..brief() }, ..calling("print(await t(1))") };
    let run = runner.begin(&run);
    runner.wait_waits(run, 1);
    runner.pass(LONG);
    runner.answer_next(run);
    assert_eq!(runner.wait(run).ok(), "True\n");
    let run = Run { limits: Limits { pause_ms: 0, ..brief() }, ..calling("await t(1)") };
    let outcome = runner.run(&run);
    assert_eq!((outcome.end(), outcome.paused(), outcome.waits), (&timed_out(), Duration::ZERO, 0));
}

#[test]
fn a_wait_that_is_charged_counts_until_the_next_answer() {
    let mut runner = Runner::warm();
    let run = runner.begin(&calling("await t(1)"));
    runner.wait_waits(run, 1);
    runner.charge(run);
    let outcome = runner.wait(run);
    assert_eq!(outcome.end(), &timed_out());
    // Without the charge, all of the time for waits would have been used.
    assert!(outcome.paused() < Duration::from_millis(brief().pause_ms), "{:?}", outcome.exit);
    let run = runner.begin(&calling("await t(1)\nawait t(2)\nprint('end')"));
    runner.wait_waits(run, 1);
    runner.charge(run);
    runner.answer_next(run);
    runner.wait_waits(run, 2);
    runner.pass(LONG);
    runner.answer_next(run);
    assert_eq!(runner.wait(run).ok(), "end\n");
    // It says nothing of runs that don't wait, and of none.
    runner.charge(run);
    runner.charge(999);
    let run = runner.begin(&calling("print(await t(1))"));
    runner.charge(run);
    runner.wait_waits(run, 1);
    runner.pass(LONG);
    runner.answer_next(run);
    assert_eq!(runner.wait(run).ok(), "True\n");
}

#[test]
fn many_short_waits_do_not_use_up_the_wall_clock() {
    let mut runner = Runner::warm();
    for call in ["await t(n)", "t.sync(n)"] {
        let run = runner.begin(&calling(&format!("for n in range(100): {call}\nprint('end')")));
        for _ in 0..100 {
            let (run, call) = runner.wait_call();
            // What the tool takes.
            std::thread::sleep(Duration::from_millis(70));
            runner.answer(run, call.call, Ok(json!(1)));
        }
        let outcome = runner.wait(run);
        // On a busy machine, some of them may be long enough to be told apart.
        println!("{call}: {} of 100 waits were long", outcome.waits);
        assert_eq!(outcome.ok(), "end\n", "{call}");
        assert!(outcome.wall() >= 2 * Duration::from_millis(brief().wall_ms), "{call}: {:?}", outcome.exit);
        assert!(outcome.paused() >= LONG, "{call}: {:?}", outcome.exit);
    }
    // The answers to calls of one time come one by one.
    let run = runner.begin(&calling("import asyncio\nawait asyncio.gather(*[t(n) for n in range(50)])\nprint('end')"));
    for _ in 0..50 {
        let (run, call) = runner.wait_call();
        std::thread::sleep(Duration::from_millis(100));
        runner.answer(run, call.call, Ok(json!(1)));
    }
    assert_eq!(runner.wait(run).ok(), "end\n");
}

/// Python: a POSIX timer that sends SIGALRM after a second, made by hand.
const POSIX_TIMER: &str = "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\ntimer = ctypes.c_void_p()\nassert libc.timer_create(1, None, ctypes.byref(timer)) == 0\nspec = (ctypes.c_long * 4)(0, 0, 1, 0)\nassert libc.timer_settime(timer, 0, spec, None) == 0";

#[test]
fn timers_fire_while_a_program_waits() {
    let mut runner = Runner::warm();
    let handler = "import signal\ndef fired(*_): print('fired', flush=True)\nsignal.signal(signal.SIGALRM, fired)\n";
    let timers = [
        "signal.alarm(1)",
        "signal.setitimer(signal.ITIMER_REAL, 1)",
        "import ctypes\nctypes.CDLL(None).alarm(1)",
        POSIX_TIMER,
        "import asyncio\nasyncio.get_running_loop().add_signal_handler(signal.SIGALRM, fired)\nsignal.alarm(1)",
    ];
    for timer in timers {
        for call in ["await t(1)", "t.sync(1)"] {
            // A loop that is blocked runs no handlers of its own.
            if timer.contains("loop") && call.contains("sync") {
                continue;
            }
            let run = runner.begin(&calling(&format!("{handler}{timer}\nprint({call})")));
            runner.wait_output(run, "fired");
            assert!(runner.so_far(run).stays >= 1, "{timer} {call}");
            // It has no timer any more, so it is stopped. (The kernel doesn't say whether a POSIX timer is set.)
            if timer != POSIX_TIMER {
                runner.wait_waits(run, 1);
            }
            runner.pass(LONG);
            runner.answer_all();
            let outcome = runner.wait(run);
            assert_eq!(outcome.ok(), "fired\nTrue\n", "{timer} {call}");
            assert!(outcome.paused() >= LONG, "{timer} {call}: {:?}", outcome.exit);
        }
    }
}

#[test]
fn a_handler_that_raises_ends_the_wait() {
    let mut runner = Runner::warm();
    let start = "import asyncio, signal, time\ndef fired(*_): raise TimeoutError\nsignal.signal(signal.SIGALRM, fired)\nsignal.alarm(1)\n";
    for call in ["asyncio.run(t(1))", "t.sync(1)"] {
        // What follows is no waiting, although the call is not answered: the wall clock counts.
        let code = format!("{start}try: {call}\nexcept TimeoutError: print('raised', flush=True)\ntime.sleep(60)");
        let outcome = runner.unanswered(&code);
        assert_eq!((outcome.end(), &*outcome.out(), outcome.waits), (&timed_out(), "raised\n", 0), "{call}");
        assert!(outcome.paused() < Duration::from_millis(brief().wall_ms), "{call}: {:?}", outcome.exit);
    }
}

/// They count the time in which the program computes, and so stand still while it waits, stopped or not.
#[test]
fn timers_of_cpu_time_keep_no_program_from_being_stopped() {
    let mut runner = Runner::warm();
    for (timer, signal) in [("ITIMER_VIRTUAL", "SIGVTALRM"), ("ITIMER_PROF", "SIGPROF")] {
        let code = format!(
            "import signal\nfired = False\ndef fire(*_):\n    global fired\n    fired = True\n\
             signal.signal(signal.{signal}, fire)\nsignal.setitimer(signal.{timer}, 0.2)\n\
             print(await t(1), fired, signal.getitimer(signal.{timer})[0] > 0)\nwhile not fired: pass\nprint('fired')"
        );
        let run = runner.begin(&calling(&code));
        runner.wait_waits(run, 1);
        runner.answer_next(run);
        assert_eq!(runner.wait(run).ok(), "True False True\nfired\n", "{timer}");
    }
}

#[test]
fn a_program_with_an_interval_timer_waits_without_a_stop() {
    let mut runner = Runner::warm();
    let start = "import signal\nn = 0\ndef tick(*_):\n    global n\n    n += 1\n    print(n, flush=True)\n    AGAIN\nsignal.signal(signal.SIGALRM, tick)\n";
    for (again, set) in [
        ("pass", "signal.setitimer(signal.ITIMER_REAL, 0.5, 0.5)"),
        ("signal.setitimer(signal.ITIMER_REAL, 0.5)", "signal.setitimer(signal.ITIMER_REAL, 0.5)"),
    ] {
        for call in ["await t(1)", "t.sync(1)"] {
            let run = runner.begin(&calling(&format!("{}{set}\nprint({call})", start.replace("AGAIN", again))));
            // For longer than the wall-clock time.
            runner.wait_output(run, "\n8\n");
            runner.answer_all();
            let outcome = runner.wait(run);
            assert!(outcome.ok().ends_with("True\n"), "{set} {call}: {outcome:?}");
            assert_eq!(outcome.waits, 0, "{set} {call}");
        }
    }
}

#[test]
fn what_a_program_does_meanwhile_goes_on_while_it_waits() {
    let mut runner = Runner::warm();
    for code in [
        "import threading\nthreading.Timer(1, print, ('fired',), {'flush': True}).start()",
        "import threading, time\ndef later():\n    time.sleep(1)\n    print('fired', flush=True)\nthreading.Thread(target=later).start()",
        "import sched, threading, time\ns = sched.scheduler()\ns.enter(1, 1, print, ('fired',), {'flush': True})\nthreading.Thread(target=s.run).start()",
        "import select, threading\ndef later():\n    select.select([], [], [], 1)\n    print('fired', flush=True)\nthreading.Thread(target=later).start()",
        "import os, threading, ctypes\nlibc = ctypes.CDLL(None)\nfd = libc.timerfd_create(1, 0)\nlibc.timerfd_settime(fd, 0, (ctypes.c_long * 4)(0, 0, 1, 0), None)\ndef later():\n    os.read(fd, 8)\n    print('fired', flush=True)\nthreading.Thread(target=later).start()",
        "import queue, threading\ndef later():\n    try: queue.Queue().get(timeout=1)\n    except queue.Empty: print('fired', flush=True)\nthreading.Thread(target=later).start()",
        "import asyncio\nasyncio.get_running_loop().call_later(1, lambda: print('fired', flush=True))",
        "import subprocess\nchild = subprocess.Popen('sleep 1; echo fired', shell=True)",
        "import subprocess, sys\nalarm = 'import signal; signal.signal(signal.SIGALRM, lambda *_: print(\"fired\", flush=True)); signal.alarm(1); signal.pause()'\nchild = subprocess.Popen([sys.executable, '-c', alarm])",
        "import os, signal, time\nsignal.signal(signal.SIGCHLD, lambda *_: print('fired', flush=True))\nif os.fork() == 0:\n    time.sleep(1)\n    os._exit(0)",
    ] {
        let run = runner.begin(&calling(&format!("{code}\nprint(await t(1))")));
        runner.wait_output(run, "fired");
        runner.answer_all();
        let outcome = runner.wait(run);
        assert_eq!((outcome.ok().as_str(), outcome.waits), ("fired\nTrue\n", 0), "{code}");
    }
}

#[test]
fn a_program_that_does_something_else_does_not_wait() {
    let mut runner = Runner::warm();
    for code in [
        "import asyncio\nasync def tick():\n    while True: await asyncio.sleep(0.05)\nx = asyncio.ensure_future(tick())\nawait t(1)",
        "import asyncio\nasync def tick():\n    while True: await asyncio.sleep(60)\nx = asyncio.ensure_future(tick())\nawait t(1)",
        "import threading\ndef busy():\n    while True: pass\nthreading.Thread(target=busy, daemon=True).start()\nawait t(1)",
        "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\nt.sync(1)",
        "import subprocess\nx = subprocess.Popen(['sleep', '60'])\nawait t(1)",
        "import os, time\nif os.fork() == 0: time.sleep(60)\nt.sync(1)",
        "import asyncio, os\na, b = os.pipe()\nasyncio.get_running_loop().add_reader(a, print)\nawait t(1)",
    ] {
        let outcome = runner.unanswered(code);
        assert_eq!((outcome.end(), outcome.waits), (&timed_out(), 0), "{code}");
        assert_eq!(outcome.paused(), Duration::ZERO, "{code}");
    }
}

#[test]
fn the_programs_own_time_limit_works() {
    let mut runner = Runner::warm();
    let code = "import asyncio\ntry: await asyncio.wait_for(t(1), 0.4)\nexcept asyncio.TimeoutError: print('late')";
    let run = Run { limits: Limits { wall_ms: 20_000, ..brief() }, ..calling(code) };
    let outcome = runner.run(&run);
    assert_eq!((outcome.ok().as_str(), outcome.waits), ("late\n", 0));
}

#[test]
fn a_stopped_run_can_be_killed_and_interrupted() {
    let mut runner = Runner::warm();
    let stopped = |runner: &mut Runner, code: &str| {
        let run = runner.begin(&calling(code));
        runner.wait_waits(run, 1);
        run
    };
    let run = stopped(&mut runner, "await t(1)");
    runner.send(&Frame::raw(Kind::Kill, run, Vec::new()));
    assert_eq!(runner.wait(run).end(), &End::Killed);
    for code in ["await t(1)", "t.sync(1)", "import asyncio\nasyncio.run(t(1))"] {
        let run = stopped(&mut runner, code);
        runner.interrupt(run);
        let outcome = runner.wait(run);
        assert_eq!(outcome.end(), &End::Interrupted, "{code}");
        assert_eq!(outcome.exit.unwrap().error.unwrap().kind, "KeyboardInterrupt", "{code}");
    }
    // A program that goes on after an interrupt has its grace for that, in which it waits no more.
    let code = "for _ in range(2):\n    try: print(await t(1))\n    except BaseException as e: print(type(e).__name__, flush=True)";
    let patient = |code| Run { limits: Limits { grace_ms: 60_000, ..brief() }, ..calling(code) };
    let run = runner.begin(&patient(code));
    runner.wait_waits(run, 1);
    runner.interrupt(run);
    runner.wait_output(run, "Error");
    runner.answer_next(run);
    runner.answer_next(run);
    let outcome = runner.wait(run);
    assert_eq!((outcome.end(), &*outcome.out(), outcome.waits), (&End::Interrupted, "CancelledError\nTrue\n", 1));
    // When the grace is over, it is killed.
    let code = "while True:\n    try: await t(1)\n    except BaseException: pass";
    let run = runner.begin(&Run { limits: Limits { grace_ms: 200, ..brief() }, ..calling(code) });
    runner.wait_waits(run, 1);
    runner.interrupt(run);
    assert_eq!(runner.wait(run).end(), &End::Killed);
    let proof = runner.ask_proof();
    assert_eq!(runner.wait_proof(proof), Vec::<String>::new());
    // The container ends with a stopped run in it.
    stopped(&mut runner, "await t(1)");
    assert!(runner.leave().success());
}
