//! Bytes flow to and from commands in constant memory, and each command flows by itself.

mod common;

use common::beside::{WINDOW, argv, file, shell};
use common::{Runner, session};
use thermae_runner::frames::{Beside, End, FileOp, Transferred, WriteMode};

const MUCH: u64 = 256 << 20;

fn with_session() -> Runner {
    let mut runner = Runner::new();
    runner.run(&session("s", "x = 1")).ok();
    runner
}

/// The most memory that the runner has held, in bytes. (The runner is the supervisor's child.)
fn peak(runner: &Runner) -> u64 {
    let supervisor = runner.child.id();
    let children = std::fs::read_to_string(format!("/proc/{supervisor}/task/{supervisor}/children")).unwrap();
    let status = std::fs::read_to_string(format!("/proc/{}/status", children.split(' ').next().unwrap())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim_end_matches("kB").trim().parse::<u64>().unwrap() << 10
}

/// Sends so much input as there is credit for, takes all output, and gives credit for it. Returns how much came.
fn flow(runner: &mut Runner, number: u32, much: u64) -> u64 {
    let chunk = vec![b'x'; 64 << 10];
    let (mut sent, mut came, mut owed) = (0_u64, 0_u64, 0_u64);
    while runner.so_far(number).exit.is_none() {
        let may = (u64::from(WINDOW) + runner.so_far(number).credit).min(much) - sent;
        if may > 0 {
            let part = &chunk[..may.min(chunk.len() as u64) as usize];
            runner.input(number, part);
            sent += part.len() as u64;
            if sent == much {
                runner.end_input(number);
            }
            continue;
        }
        runner.step();
        let new = runner.take_output(number).len() as u64;
        (came, owed) = (came + new, owed + new);
        if owed > u64::from(WINDOW) / 2 {
            runner.allow(number, std::mem::take(&mut owed));
        }
    }
    came
}

#[test]
fn much_goes_both_ways_in_little_memory() {
    let mut runner = with_session();
    runner.beside(&argv("s", &["true"])).ok();
    let before = peak(&runner);
    let number = runner.begin_beside(&argv("s", &["cat"]));
    assert_eq!(flow(&mut runner, number, MUCH), MUCH);
    runner.wait(number).ok();
    let grown = peak(&runner).saturating_sub(before);
    assert!(grown < 16 << 20, "the runner has grown by {} KiB", grown >> 10);
}

#[test]
fn output_that_nobody_takes_holds_up_nothing_else() {
    let mut runner = with_session();
    let stuck: Vec<u32> = (0..4).map(|_| runner.begin_beside(&argv("s", &["yes"]))).collect();
    let deaf = runner.begin_beside(&argv("s", &["sleep", "60"]));
    runner.input(deaf, &vec![0; WINDOW as usize]);
    for number in &stuck {
        while runner.so_far(*number).stdout.len() < WINDOW as usize {
            runner.step();
        }
    }
    for _ in 0..20 {
        assert_eq!(runner.beside(&argv("s", &["echo", "on"])).ok(), "on\n");
        assert_eq!(runner.run(&session("s", "print(x)")).ok(), "1\n");
    }
    for number in &stuck {
        assert_eq!(runner.so_far(*number).stdout.len(), WINDOW as usize, "no more than there is credit for");
        runner.allow(*number, 10);
    }
    for number in stuck {
        while runner.so_far(number).stdout.len() < WINDOW as usize + 10 {
            runner.step();
        }
        runner.kill(number);
        let outcome = runner.wait(number);
        assert_eq!((outcome.end(), outcome.stdout.len()), (&End::Killed, WINDOW as usize + 10));
    }
    assert_eq!(runner.so_far(deaf).credit, 0);
    runner.kill(deaf);
    runner.wait(deaf);
}

#[test]
fn the_last_output_waits_for_credit_and_then_the_run_ends() {
    let mut runner = with_session();
    let narrow = |line| Beside { window: 100, ..shell("s", line) };
    let number = runner.begin_beside(&narrow("head -c 30000 /dev/zero; echo err >&2; exit 3"));
    while runner.so_far(number).stdout.len() < 100 {
        runner.step();
    }
    // It has ended when its process is gone, but not its output.
    let gone = "while [ $(ls -d /proc/[0-9]* | wc -l) -gt 5 ]; do :; done";
    runner.beside(&shell("s", gone)).ok();
    runner.ping();
    assert!(runner.so_far(number).exit.is_none());
    runner.allow(number, 1 << 20);
    let outcome = runner.wait(number);
    assert_eq!(
        (outcome.end(), outcome.stdout.len(), &*outcome.stderr),
        (&End::Exited { code: 3 }, 30_000, &b"err\n"[..])
    );
    // A kill means that nobody takes the rest, and does not change how it ended.
    let number = runner.begin_beside(&narrow("head -c 30000 /dev/zero; touch over; exit 3"));
    runner.beside(&shell("s", &format!("while [ ! -e over ]; do :; done; {gone}"))).ok();
    runner.ping();
    runner.kill(number);
    let outcome = runner.wait(number);
    assert_eq!((outcome.end(), outcome.stdout.len()), (&End::Exited { code: 3 }, 100));
}

#[test]
fn files_are_larger_than_any_window() {
    let mut runner = with_session();
    let much = 20 << 20;
    let op = FileOp::Write { path: "large".into(), mode: WriteMode::Truncate, permissions: None };
    let number = runner.begin_beside(&file("s", op));
    flow(&mut runner, number, much);
    assert_eq!(runner.wait(number).result::<Transferred>(), Transferred { bytes: much, size: much });
    let read = FileOp::Read { path: "large".into(), offset: 1, length: None };
    let number = runner.begin_beside(&file("s", read));
    assert_eq!(flow(&mut runner, number, 0), much - 1);
    assert_eq!(runner.wait(number).result::<Transferred>().bytes, much - 1);
}
