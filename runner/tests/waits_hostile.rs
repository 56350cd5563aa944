//! Programs that say that they wait, and don't. They gain nothing: each is stopped, or charged.

mod common;

use std::time::Duration;

use common::waiting::{FORGER, brief, calling, timed_out};
use common::{Outcome, Runner};
use thermae_runner::frames::{End, Run};

/// Less than a run gains here whose claims are believed: all of the time for waits. Far more than the runner takes to
/// notice on a busy machine that the wall-clock time is over.
fn gained() -> Duration {
    Duration::from_millis(brief().pause_ms / 2)
}

fn forging(code: &str) -> Run {
    calling(&format!("{FORGER}{code}"))
}

/// Runs a program that must be timed out as if it had said nothing.
#[track_caller]
fn gains_nothing(runner: &mut Runner, code: &str) {
    let outcome = runner.run(&forging(code));
    assert_eq!((outcome.end(), outcome.waits), (&timed_out(), 0), "{code}: {outcome:#?}");
    // On a busy machine, the time in which it waits for a processor may count as waiting.
    assert!(computed(&outcome) < gained(), "{code}: {:?}", outcome.exit);
}

fn computed(outcome: &Outcome) -> Duration {
    Duration::from_micros(outcome.exit.as_ref().unwrap().usage.cpu_us)
}

#[test]
fn who_says_it_and_computes_is_stopped() {
    let mut runner = Runner::warm();
    let code = "call(1)\nsay(op='waits', got=0, for_ms=0)\ncompute(3.1)\nprint('done')";
    let run = runner.begin(&forging(code));
    runner.wait_waits(run, 1);
    runner.pass(Duration::from_secs(3));
    assert_eq!(runner.so_far(run).out(), "", "a stopped process computes nothing");
    runner.answer_next(run);
    // What it has computed before it was stopped counts, and so does the rest.
    let outcome = runner.wait(run);
    assert_eq!(outcome.end(), &timed_out());
    assert!(computed(&outcome) < gained(), "{:?}", outcome.exit);
}

#[test]
fn who_says_it_again_and_again_and_computes_is_charged() {
    let mut runner = Runner::warm();
    // On a busy machine, it may get no processor for so long that it seems to wait. Then it is stopped, and computes
    // nothing.
    let outcome =
        runner.run(&forging("call(1)\nwhile True:\n    say(op='waits', got=0, for_ms=250)\n    compute(0.01)"));
    assert_eq!(outcome.end(), &timed_out());
    assert!(computed(&outcome) < gained(), "{:?}", outcome.exit);
    gains_nothing(&mut runner, "call(1)\nwhile True:\n    say(op='display', data={})\n    compute(0.01)");
    gains_nothing(&mut runner, "for n in range(1, 1000):\n    call(n, waited=n * 1000)\n    compute(0.01)");
}

#[test]
fn who_says_it_with_a_child_that_goes_on_is_charged() {
    let mut runner = Runner::warm();
    let wait = "call(1)\nsay(op='waits', got=0, for_ms=0)\ntime.sleep(60)";
    gains_nothing(&mut runner, &format!("if os.fork() == 0:\n    compute(60)\n{wait}"));
    gains_nothing(&mut runner, &format!("if os.fork() == 0:\n    time.sleep(60)\n{wait}"));
    // The child is made just before the process is stopped.
    let late = "call(1)\nsay(op='waits', got=0, for_ms=0)\nend = time.monotonic() + 9\nwhile time.monotonic() < end:\n    if os.fork() == 0: time.sleep(60)\n    time.sleep(0.2)";
    gains_nothing(&mut runner, late);
}

#[test]
fn a_forged_message_counts_for_nothing() {
    let mut runner = Runner::warm();
    let then = "time.sleep(60)";
    for said in [
        // No call is outstanding.
        "say(op='waits', got=0, for_ms=0)",
        // It has not got that many answers.
        "call(1)\nsay(op='waits', got=1, for_ms=0)",
        "call(1)\nsay(op='waits', for_ms=0)",
        "call(1)\nsay(op='waits', got=2**60, for_ms=2**60, waited=2**60)",
        // A later message takes it back.
        "call(1)\nsay(op='waits', got=0, for_ms=0)\nsay(op='display', data={})",
        "call(1, waited=2**63)\ncall(2, waited=2**64 - 1)",
    ] {
        gains_nothing(&mut runner, &format!("{said}\n{then}"));
    }
    // What can't be read breaks the channel, as in every other message.
    for said in ["got=-1", "got='0'", "for_ms=1.5", "waited=-5", "waited=2**65"] {
        let outcome = runner.run(&forging(&format!("say(op='waits', {said})\n{then}")));
        assert_eq!(outcome.end(), &End::Raised, "{said}");
        assert_eq!(outcome.exit.unwrap().error.unwrap().kind, "ChannelError", "{said}");
    }
    let untooled = Run { tools: Vec::new(), ..forging("say(op='waits', got=0)\ntime.sleep(60)") };
    assert_eq!(runner.run(&untooled).end(), &End::Raised);
}

#[test]
fn waiting_that_is_claimed_for_more_than_the_runner_has_seen_is_not_counted() {
    let mut runner = Runner::warm();
    // The program sleeps between its calls, which are answered at once, and calls that waiting.
    let code = "n = 0\nwhile True:\n    n += 1\n    call(n, waited=n * 100)\n    time.sleep(0.1)";
    let run = runner.begin(&forging(code));
    while runner.so_far(run).exit.is_none() {
        runner.answer_all();
        runner.step();
    }
    let outcome = runner.wait(run);
    assert_eq!(outcome.end(), &timed_out());
    assert!(outcome.paused() < gained(), "{:?}", outcome.exit);
}

#[test]
fn nothing_comes_from_a_run_that_is_told_to_be_stopped() {
    let mut runner = Runner::warm();
    // It goes on just when it is stopped.
    let code = "call(1)\nsay(op='waits', got=0, for_ms=0)\nend = time.monotonic() + 0.34\ntime.sleep(0.28)\nwhile time.monotonic() < end:\n    say(op='display', data={})\nprint('on', flush=True)\ntime.sleep(60)";
    for _ in 0..5 {
        let run = runner.begin(&forging(code));
        while runner.so_far(run).waits == 0 && !runner.so_far(run).out().contains("on") {
            runner.step();
        }
        let before = runner.so_far(run).displays.len();
        runner.pass(Duration::from_millis(300));
        if runner.so_far(run).waits == 1 {
            assert_eq!((runner.so_far(run).displays.len(), runner.so_far(run).out()), (before, String::new()));
        }
        runner.kill(run);
        assert_eq!(runner.wait(run).end(), &End::Killed);
    }
}
