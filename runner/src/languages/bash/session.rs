//! A session: bash, and the keeper that gives it one program after the other.
//!
//! The keeper is a child of bash, with a session id and so a process group of its own, which no interrupt reaches. Bash
//! can't receive descriptors, so it opens the keeper's by their paths in `/proc`: the program's streams, the program
//! itself, a pipe that wakes it and a pipe that takes the program's status. None of them stays open in bash while a
//! program runs. The status so never comes from the program's output, and a program may close every descriptor.
//!
//! `loop.bash` reads a program, evaluates it in the shell itself and reports its status. Whatever ends the shell in an
//! orderly way (`exit`, `set -e`, an interrupt) runs `leave.bash`, which writes the shell's state down and makes the
//! process start bash anew, which takes the state up again. Whatever else ends the process (a signal, `exec`, `exit`
//! after the program has set a trap on EXIT itself) ends the session, and the kernel reports how.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::MemfdFlags;
use rustix::pipe::PipeFlags;

use super::channel::{Channel, Program};
use super::shell::{self, Command};
use crate::sys::{self, Fork};

/// The scripts, with the names that the others call them by. A `@name@` in them stands for a file of the keeper's.
const SCRIPTS: [(&str, &str); 5] = [
    ("restore", include_str!("restore.bash")),
    ("begin", include_str!("begin.bash")),
    ("finish", include_str!("finish.bash")),
    ("report", include_str!("report.bash")),
    ("leave", include_str!("leave.bash")),
];

/// What bash executes all the time.
const LOOP: &str = include_str!("loop.bash");

/// The keeper's files.
struct Files {
    /// The run's streams, or `/dev/null` between runs.
    streams: [OwnedFd; 3],
    /// What wakes bash: one line with the run's number.
    wake: (OwnedFd, File),
    /// What bash answers: one line with the run's number and its status.
    status: (File, OwnedFd),
    /// The program's parameters and environment variables, as lines of bash.
    env: File,
    code: File,
    /// The shell's variables and functions while bash is started anew.
    state: File,
    /// The shell's options and traps, likewise.
    options: File,
    /// A place for what a built-in command of bash prints.
    text: File,
    scripts: [File; SCRIPTS.len()],
}

impl Files {
    fn make() -> io::Result<Self> {
        let memory = || rustix::fs::memfd_create("session", MemfdFlags::CLOEXEC).map(File::from);
        let pipe = || rustix::pipe::pipe_with(PipeFlags::CLOEXEC);
        let ((wake, waker), (answer, status)) = (pipe()?, pipe()?);
        Ok(Self {
            streams: [sys::null_device()?, sys::null_device()?, sys::null_device()?],
            wake: (wake, waker.into()),
            status: (answer.into(), status),
            env: memory()?,
            code: memory()?,
            state: memory()?,
            options: memory()?,
            text: memory()?,
            scripts: [memory()?, memory()?, memory()?, memory()?, memory()?],
        })
    }

    /// Puts these descriptors in the places of the streams.
    fn connect(&mut self, streams: &[OwnedFd]) -> io::Result<()> {
        for (place, fd) in self.streams.iter_mut().zip(streams) {
            rustix::io::dup3(fd, place, rustix::io::DupFlags::CLOEXEC)?;
        }
        Ok(())
    }

    /// Replaces each `@name@` by the path of that file of the keeper's.
    fn resolve(&self, script: &str, keeper: i32) -> String {
        let [stdin, stdout, stderr] = &self.streams;
        let streams = [("stdin", stdin.as_fd()), ("stdout", stdout.as_fd()), ("stderr", stderr.as_fd())];
        let pipes = [("wake", self.wake.0.as_fd()), ("status", self.status.1.as_fd())];
        let files = [
            ("env", &self.env),
            ("code", &self.code),
            ("state", &self.state),
            ("options", &self.options),
            ("text", &self.text),
        ];
        let scripts = SCRIPTS.iter().zip(&self.scripts).map(|((name, _), file)| (*name, file.as_fd()));
        let all = streams.into_iter().chain(pipes).chain(files.map(|(name, file)| (name, file.as_fd()))).chain(scripts);
        all.fold(script.to_owned(), |text, (name, fd)| {
            text.replace(&format!("@{name}@"), &format!("/proc/{keeper}/fd/{}", fd.as_raw_fd()))
        })
    }
}

/// Becomes bash, beside a keeper that gives it the first program and those that follow. Returns only if that fails.
pub(super) fn begin(channel: &mut Channel, first: Program, bash: &str) -> io::Error {
    let become_bash = || {
        channel.started()?;
        let mut files = Files::make()?;
        match sys::fork(0)? {
            Fork::Child => {
                let ended = keep(channel, files, first);
                sys::exit(if ended.is_ok() { 0 } else { 1 })
            }
            Fork::Parent { pid, .. } => {
                // The keeper has the same files. They are written here, so that bash finds them as soon as it starts.
                for ((_, script), at) in SCRIPTS.iter().zip(0..) {
                    let text = files.resolve(script, pid);
                    write_over(&mut files.scripts[at], &text)?;
                }
                let command = Command::new(bash, files.resolve(LOOP, pid).trim_end(), &[], &first.env)?;
                Ok(command.exec())
            }
        }
    };
    become_bash().unwrap_or_else(|e: io::Error| e)
}

/// Runs the keeper, until the runner closes the channel or bash ends.
fn keep(channel: &mut Channel, mut files: Files, first: Program) -> io::Result<()> {
    sys::die_with_parent();
    let _ = rustix::process::setsid();
    sys::set_name(c"keeper");
    let (mut program, mut number) = (first, 1_u64);
    loop {
        write_over(&mut files.env, &shell::assignments(&program.argv, &program.env))?;
        write_over(&mut files.code, program.script())?;
        files.connect(&program.streams)?;
        drop(program);
        writeln!(files.wake.1, "{number}")?;
        let code = await_status(&mut files.status.0, number)?;
        let null = sys::null_device()?;
        files.connect(&[null.try_clone()?, null.try_clone()?, null])?;
        channel.exited(code)?;
        program = channel.receive()?;
        channel.started()?;
        number += 1;
    }
}

/// Waits until bash reports the status of that run.
fn await_status(from: &mut File, number: u64) -> io::Result<i32> {
    let mut line = Vec::new();
    loop {
        let mut byte = [0];
        from.read_exact(&mut byte)?;
        if byte != *b"\n" {
            line.extend(byte);
            continue;
        }
        if let Some(code) = status(&line, number) {
            return Ok(code);
        }
        line.clear();
    }
}

/// The status in such a line: its first word is the number of the run, its last the status. `None` if it is about
/// another run, or about none: an interrupt may come when the run has just ended.
fn status(line: &[u8], number: u64) -> Option<i32> {
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    let of = words.next()?.parse::<u64>().ok()?;
    let code = words.next_back()?.parse().ok()?;
    (of == number).then_some(code)
}

fn write_over(file: &mut File, text: &str) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_run_itself_has_a_status() {
        assert_eq!(status(b"7 0", 7), Some(0));
        assert_eq!(status(b"7 1 5", 7), Some(5), "a trap on EXIT has the last word");
        for other in [&b"6 0"[..], b"7", b"", b" 130", b"x 0", b"7 x", b"\xff 0"] {
            assert_eq!(status(other, 7), None, "{other:?}");
        }
    }

    #[test]
    fn every_name_in_a_script_is_a_file() {
        let files = Files::make().unwrap();
        for script in SCRIPTS.iter().map(|(_, script)| *script).chain([LOOP]) {
            let text = files.resolve(script, 7);
            assert!(!text.contains('@'), "{text}");
        }
    }
}
