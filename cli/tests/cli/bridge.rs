//! The process `thermae bridge`: how it takes its socket, and what it leaves behind.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use serde_json::Value;

use crate::thermae::Thermae;

/// A program with a bridge on which two programs run and others wait. A child of the program holds a copy of its
/// socket.
struct Served {
    program: Child,
    stdout: BufReader<ChildStdout>,
    bridge: Pid,
    holder: Pid,
}

impl Served {
    fn start(thermae: &Thermae) -> Self {
        thermae.file("tmp/.keep", "");
        let inner = thermae.command(&[]);
        let mut program = Command::new("python3");
        program.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/bridge.py")).arg(inner.get_program());
        for (name, value) in inner.get_envs() {
            match value {
                Some(value) => program.env(name, value),
                None => program.env_remove(name),
            };
        }
        program.env("TMPDIR", thermae.path().join("tmp")).env_remove("XDG_RUNTIME_DIR");
        let mut program = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(program.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let pids: Value = serde_json::from_str(&line).unwrap();
        let pid = |name: &str| Pid::from_raw(pids[name].as_i64().unwrap() as i32).unwrap();
        Self { program, stdout, bridge: pid("bridge"), holder: pid("holder") }
    }

    /// The bridge and its runners.
    fn processes(&self) -> Vec<OwnedFd> {
        let mut pids = vec![self.bridge];
        for task in std::fs::read_dir(format!("/proc/{}/task", self.bridge.as_raw_nonzero())).unwrap() {
            let children = std::fs::read_to_string(task.unwrap().path().join("children")).unwrap_or_default();
            pids.extend(children.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)));
        }
        assert!(pids.len() > 1, "the embedded fleet has no process");
        // A container that is still being made may end meanwhile.
        pids.into_iter().filter_map(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()).collect()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
        let _ = kill_process(self.holder, Signal::KILL);
    }
}

/// Waits until all these processes have ended.
fn ended(processes: &[OwnedFd]) {
    for process in processes {
        let within = Timespec { tv_sec: 10, tv_nsec: 0 };
        let ready = poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&within)).unwrap();
        assert_eq!(ready, 1, "a process goes on");
    }
}

fn folders(at: &Path) -> Vec<std::ffi::OsString> {
    let entries = std::fs::read_dir(at.join("tmp")).unwrap().map(|entry| entry.unwrap().file_name());
    entries.filter(|name| name != ".keep").collect()
}

#[test]
fn the_bridge_ends_with_its_program_and_leaves_nothing() {
    let thermae = Thermae::new();
    let mut served = Served::start(&thermae);
    let processes = served.processes();
    assert!(!folders(thermae.path()).is_empty(), "the embedded fleet has no folder");
    served.program.kill().unwrap();
    // Nobody waits for the bridge, and the holder has the socket still.
    ended(&processes);
    assert_eq!(folders(thermae.path()), Vec::<std::ffi::OsString>::new());
}

#[test]
fn the_code_ends_with_a_killed_bridge() {
    let thermae = Thermae::new();
    let served = Served::start(&thermae);
    let processes = served.processes();
    kill_process(served.bridge, Signal::KILL).unwrap();
    ended(&processes);
}

#[test]
fn an_interrupt_is_the_programs_own_and_sigterm_ends_the_bridge() {
    let thermae = Thermae::new();
    let mut served = Served::start(&thermae);
    kill_process(served.bridge, Signal::INT).unwrap();
    served.program.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    let mut line = String::new();
    served.stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "served\n");
    let processes = served.processes();
    kill_process(served.bridge, Signal::TERM).unwrap();
    ended(&processes);
    assert_eq!(folders(thermae.path()), Vec::<std::ffi::OsString>::new());
}

#[test]
fn only_a_socket_of_its_own_is_served() {
    let thermae = Thermae::new();
    for (number, why) in [("1", "standard streams"), ("77", "not open"), ("-3", "--fd"), ("x", "not a number")] {
        let answer = thermae.call(&["bridge", "--fd", number]);
        assert!(answer.status == 2 && answer.stderr.contains(why), "{answer:?}");
    }
    let spawn = "import os, sys; os.dup2(0, 5); os.execv(sys.argv[1], sys.argv[1:])";
    let inner = thermae.command(&["bridge", "--fd", "5"]);
    let mut command = Command::new("python3");
    command.args(["-c", spawn]).arg(inner.get_program()).args(inner.get_args()).stdin(Stdio::null());
    let answer = crate::thermae::Answer::from(command.output().unwrap());
    assert!(answer.status == 2 && answer.stderr.contains("not a socket"), "{answer:?}");
    assert!(!thermae.call(&["--help"]).stdout.contains("bridge"), "the command is not for people");
}
