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
