//! A job may say anything on its channel: its own run ends, but the runner and the next run go on.

mod common;

use common::{Runner, program, tool};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use thermae_runner::frames::{End, Run};
use thermae_testkit::hostile;

/// Finds the channel among its own descriptors, as hostile code would, and sends the bytes from standard input there.
const SAY: &str = "
import os, socket, sys
data = bytes.fromhex(sys.stdin.read())
for fd in map(int, os.listdir('/proc/self/fd')):
    if fd > 2:
        try:
            channel = socket.socket(fileno=os.dup(fd))
        except OSError:
            continue
        null = os.open('/dev/null', os.O_RDONLY)
        channel.settimeout(2)
        try:
            socket.send_fds(channel, [data or b'x'], [null] * 20)
        except OSError:
            pass
print('said')
";

fn say(bytes: &[u8]) -> Run {
    let hex = bytes.iter().map(|b| format!("{b:02x}")).collect();
    Run { stdin: Some(hex), tools: vec![tool("t", &[])], ..program(SAY) }
}

fn framed(body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32).to_le_bytes(), body].concat()
}

fn open_files(runner: &Runner) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", runner.child.id())).unwrap().count()
}

/// Runs a program that sends these bytes, and then an honest program. Returns how the first one ended.
fn survives(runner: &mut Runner, bytes: &[u8]) -> End {
    let end = runner.run(&say(bytes)).end().clone();
    runner.ping();
    assert_eq!(runner.python("print(1 + 1)").ok(), "2\n");
    end
}

const FIELDS: &[(&str, &str)] = &[
    ("op", "\"done\""),
    ("call", "1"),
    ("name", "\"t\""),
    ("arguments", "{}"),
    ("data", "{\"text/plain\":\"x\"}"),
    ("how", "\"ok\""),
    ("code", "0"),
    ("error", r#"{"type":"E","message":"m","traceback":"t"}"#),
    ("value", "{\"text/plain\":\"x\"}"),
];

#[test]
fn a_hostile_job_may_say_anything_on_its_channel() {
    let mut runner = Runner::new();
    survives(&mut runner, &[]);
    let before = open_files(&runner);
    for input in hostile::corpus().into_iter().filter(|input| input.len() < 64 << 10) {
        survives(&mut runner, &framed(&input));
    }
    // Fewer cases than in tests that need no sandbox. PROPTEST_CASES scales both alike.
    let config = Config { cases: Config::default().cases / 16, failure_persistence: None, ..Config::default() };
    let mut tests = TestRunner::new(config);
    let said = prop_oneof![
        hostile::bytes(),
        hostile::bytes().prop_map(|bytes| framed(&bytes)),
        hostile::message(FIELDS).prop_map(|text| framed(text.as_bytes())),
    ];
    let runner_cell = std::cell::RefCell::new(runner);
    tests
        .run(&said, |bytes| {
            survives(&mut runner_cell.borrow_mut(), &bytes);
            Ok(())
        })
        .unwrap();
    let runner = runner_cell.into_inner();
    assert!(open_files(&runner) <= before + 4, "{} descriptors after {before}", open_files(&runner));
}
