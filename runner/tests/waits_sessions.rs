//! Sessions whose program waits for answers of its tool calls: only its own process is stopped.

mod common;

use std::time::Duration;

use common::beside::{argv, shell};
use common::waiting::{FORGER, brief, timed_out, with_tool};
use common::{Runner, session};
use thermae_runner::frames::{End, FileOp, Frame, Kind, Limits, Run};

const LONG: Duration = Duration::from_millis(3500);

fn calling(code: &str) -> Run {
    with_tool(session("s", code))
}

/// A session whose program waits and is stopped. Returns its run and its pid in the sandbox.
fn stopped(runner: &mut Runner) -> (u32, String) {
    let run = runner.begin(&calling("import os\nx = 7\nprint(os.getpid(), flush=True)\nprint(await t(1))"));
    runner.wait_waits(run, 1);
    let pid = runner.so_far(run).out().trim().to_owned();
    (run, pid)
}

#[test]
fn guests_and_files_work_while_the_program_is_stopped() {
    let mut runner = Runner::warm();
    let (run, pid) = stopped(&mut runner);
    assert_eq!(runner.state("s", &pid), "T");
    let begun = std::time::Instant::now();
    while begun.elapsed() < LONG {
        assert_eq!(runner.beside(&shell("s", "echo hi > /workspace/f; cat /workspace/f")).ok(), "hi\n");
        runner.file("s", FileOp::Stat { path: "/workspace/f".into(), link: false }).ok();
        runner.beside(&argv("s", &["sleep", "0.1"])).ok();
    }
    assert!(runner.so_far(run).exit.is_none());
    runner.answer_next(run);
    let outcome = runner.wait(run);
    assert_eq!((outcome.ok(), outcome.waits), (format!("{pid}\nTrue\n"), 1));
    assert!(outcome.wall() > LONG && outcome.paused() >= LONG, "{:?}", outcome.exit);
    // The session goes on.
    assert_eq!(runner.run(&session("s", "print(x, open('/workspace/f').read())")).ok(), "7 hi\n\n");
    assert!(runner.checkpoint("s", 100, 1 << 20).exit.is_some());
}

#[test]
fn what_earlier_programs_have_left_goes_on() {
    let mut runner = Runner::warm();
    let daemon = "import os\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        import time\n        while True:\n            open('/tmp/beat', 'a').write('x')\n            time.sleep(0.02)\n    os._exit(0)\nprint(os.wait()[1])";
    assert_eq!(runner.run(&session("s", daemon)).ok(), "0\n");
    let (run, _) = stopped(&mut runner);
    let size = |runner: &mut Runner| runner.beside(&argv("s", &["stat", "-c", "%s", "/tmp/beat"])).ok();
    let before: u64 = size(&mut runner).trim().parse().unwrap();
    runner.pass(LONG);
    assert!(size(&mut runner).trim().parse::<u64>().unwrap() > before + 10);
    runner.answer_next(run);
    runner.wait(run).ok();
}

#[test]
fn a_stopped_session_can_be_killed_interrupted_and_closed() {
    let mut runner = Runner::warm();
    let (run, _) = stopped(&mut runner);
    runner.interrupt(run);
    assert_eq!(runner.wait(run).end(), &End::Interrupted);
    assert_eq!(runner.run(&session("s", "print(x)")).ok(), "7\n");
    let (run, _) = stopped(&mut runner);
    runner.send(&Frame::raw(Kind::CloseSession, 0, *b"s"));
    assert_eq!(runner.wait(run).end(), &End::Killed);
    assert_eq!(runner.wait_closed(), "s");
    let (run, _) = stopped(&mut runner);
    runner.kill(run);
    assert_eq!(runner.wait(run).end(), &End::Killed);
    assert_eq!(runner.wait_closed(), "s");
    // It is timed out as if it went on, and then it lives on.
    let short = Run { limits: Limits { pause_ms: 600, ..brief() }, ..calling("x = 8\nawait t(1)") };
    let run = runner.begin(&short);
    runner.wait_waits(run, 1);
    let outcome = runner.wait(run);
    assert_eq!((outcome.end(), outcome.exit.as_ref().unwrap().session_lives), (&timed_out(), true));
    assert_eq!(runner.run(&session("s", "print(x)")).ok(), "8\n");
}

#[test]
fn nobody_else_continues_the_program() {
    let mut runner = Runner::warm();
    let (run, pid) = stopped(&mut runner);
    runner.beside(&argv("s", &["kill", "-CONT", &pid])).ok();
    // It goes on until the runner has seen that. If it isn't stopped again, it ends, and its state can't be read.
    while runner.state("s", &pid) != "T" {}
    // From then on, the wall clock counts.
    assert_eq!(runner.wait(run).end(), &timed_out());
    let (run, pid) = stopped(&mut runner);
    let kills = format!("while kill -CONT {pid}; do :; done");
    let defier = runner.begin_beside(&shell("s", &kills));
    let outcome = runner.wait(run);
    assert_eq!(outcome.end(), &End::Raised);
    assert_eq!(outcome.exit.unwrap().error.unwrap().kind, "ChannelError");
    runner.wait(defier);
}

#[test]
fn a_message_of_another_process_does_not_continue_the_program() {
    let mut runner = Runner::warm();
    let code = format!(
        "{FORGER}FD = os.dup(FD)\nos.mkfifo('go')\nif os.fork() == 0:\n    open('go').read()\n    say(op='display', data={{}})\n    time.sleep(60)\n\
         print(os.getpid(), flush=True)\ncall(1)\nsay(op='waits', got=0, for_ms=0)\ntime.sleep(60)"
    );
    let run = runner.begin(&calling(&code));
    runner.wait_waits(run, 1);
    runner.beside(&shell("s", "echo > go")).ok();
    while runner.so_far(run).displays.is_empty() {
        runner.step();
    }
    let pid = runner.so_far(run).out().trim().to_owned();
    assert_eq!(runner.state("s", &pid), "T");
    assert_eq!(runner.wait(run).end(), &timed_out());
}

/// A session whose program handles SIGUSR1, and calls `t` by this expression. It waits and is stopped.
fn handling(runner: &mut Runner, handler: &str, call: &str) -> (u32, String) {
    let code = format!(
        "import asyncio, os, signal\nfrom concurrent.futures import ThreadPoolExecutor\ndef handle(*_):\n    print('fired', flush=True)\n    {handler}\n\
         signal.signal(signal.SIGUSR1, handle)\nprint(os.getpid(), flush=True)\n\
         try: print({call}, flush=True)\nexcept TimeoutError: print('raised', flush=True)"
    );
    let run = runner.begin(&calling(&code));
    runner.wait_waits(run, 1);
    let pid = runner.so_far(run).out().trim().to_owned();
    (run, pid)
}

fn kill(runner: &mut Runner, signal: &str, pid: &str) {
    runner.beside(&argv("s", &["kill", signal, pid])).ok();
}

const CALLS: [&str; 4] =
    ["await t(1)", "t.sync(1)", "asyncio.run(t(1))", "next(ThreadPoolExecutor(2).map(t.sync, [1]))"];

#[test]
fn a_signal_for_a_stopped_program_is_handled_before_the_answer() {
    let mut runner = Runner::warm();
    for call in CALLS {
        let (run, pid) = handling(&mut runner, "pass", call);
        for times in 1..=3 {
            kill(&mut runner, "-USR1", &pid);
            runner.wake(run, times);
            runner.wait_output(run, &"fired\n".repeat(times as usize));
            // Then it waits anew, and is stopped.
            runner.wait_waits(run, times + 1);
            assert_eq!(runner.state("s", &pid), "T", "{call}");
        }
        runner.pass(LONG);
        runner.answer_next(run);
        let outcome = runner.wait(run);
        assert_eq!(outcome.ok(), format!("{pid}\n{}True\n", "fired\n".repeat(3)), "{call}");
        assert_eq!((outcome.waits, outcome.wakes), (4, 3), "{call}");
        assert!(outcome.paused() >= LONG, "{call}: {:?}", outcome.exit);
    }
}

#[test]
fn a_handler_may_end_the_wait_and_set_a_timer() {
    let mut runner = Runner::warm();
    for call in CALLS {
        // (A pool would wait for its thread.)
        if call != CALLS[3] {
            let (run, pid) = handling(&mut runner, "raise TimeoutError", call);
            kill(&mut runner, "-USR1", &pid);
            runner.wake(run, 1);
            // The top level's own loop lets nobody catch it.
            let caught = if call == CALLS[0] { "" } else { "raised\n" };
            assert_eq!(runner.wait(run).out(), format!("{pid}\nfired\n{caught}"), "{call}");
        }
        // The timer fires on time, and the program is not stopped before.
        let (run, pid) = handling(
            &mut runner,
            "signal.signal(signal.SIGALRM, lambda *_: print('alarm', flush=True)); signal.alarm(1)",
            call,
        );
        kill(&mut runner, "-USR1", &pid);
        runner.wake(run, 1);
        runner.wait_output(run, "alarm");
        assert_eq!(runner.so_far(run).wakes, 1, "{call}");
        runner.wait_waits(run, 2);
        runner.answer_next(run);
        assert_eq!(runner.wait(run).ok(), format!("{pid}\nfired\nalarm\nTrue\n"), "{call}");
    }
}

#[test]
fn a_signal_that_nobody_handles_ends_a_stopped_program() {
    let mut runner = Runner::warm();
    let (run, pid) = stopped(&mut runner);
    kill(&mut runner, "-TERM", &pid);
    runner.wake(run, 1);
    assert_eq!(runner.wait(run).end(), &End::Signaled { signal: 15 });
    assert_eq!(runner.wait_closed(), "s");
    let (run, pid) = stopped(&mut runner);
    // The command may end with the session.
    runner.begin_beside(&argv("s", &["kill", "-KILL", &pid]));
    assert_eq!(runner.wait(run).end(), &End::Signaled { signal: 9 });
}

#[test]
fn signals_about_which_nothing_is_done_do_not_wake_a_program() {
    let mut runner = Runner::warm();
    let code = "import os, signal\nsignal.signal(signal.SIGUSR2, signal.SIG_IGN)\n\
                signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])\nprint(os.getpid(), flush=True)\nprint(await t(1))";
    let run = runner.begin(&calling(code));
    runner.wait_waits(run, 1);
    let pid = runner.so_far(run).out().trim().to_owned();
    for signal in ["-USR1", "-USR2", "-CHLD", "-WINCH", "-TSTP", "-STOP"] {
        kill(&mut runner, signal, &pid);
    }
    runner.pass(LONG);
    assert_eq!(runner.state("s", &pid), "T");
    runner.answer_next(run);
    let outcome = runner.wait(run);
    assert_eq!((outcome.ok(), outcome.waits, outcome.wakes), (format!("{pid}\nTrue\n"), 1, 0));
}

/// Nothing beside the program was begun by the run that waits: an earlier one has left it.
#[test]
fn what_an_earlier_program_has_left_can_signal_a_stopped_one() {
    let mut runner = Runner::warm();
    let daemon = "import os, signal\nme = os.getpid()\nsignal.signal(signal.SIGALRM, lambda *_: print('fired', flush=True))\n\
                  if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        import time\n        \
                  while not os.path.exists('/workspace/go'): time.sleep(0.02)\n        os.kill(me, signal.SIGALRM)\n    \
                  os._exit(0)\nprint(os.wait()[1])";
    assert_eq!(runner.run(&session("s", daemon)).ok(), "0\n");
    let (run, _) = stopped(&mut runner);
    runner.beside(&shell("s", "touch /workspace/go")).ok();
    runner.wake(run, 1);
    runner.wait_output(run, "fired");
    runner.answer_next(run);
    runner.wait(run).ok();
}

#[test]
fn a_wake_that_comes_late_or_for_no_run_changes_nothing() {
    let mut runner = Runner::warm();
    let (run, pid) = handling(&mut runner, "pass", "[await t(1), await t(2)]");
    kill(&mut runner, "-USR1", &pid);
    runner.answer_next(run);
    runner.wait_output(run, "fired");
    for number in [run, 999] {
        runner.send(&Frame::raw(Kind::Wake, number, Vec::new()));
    }
    runner.wait_waits(run, 2);
    runner.answer_next(run);
    assert_eq!(runner.wait(run).ok(), format!("{pid}\nfired\n[True, True]\n"));
}
