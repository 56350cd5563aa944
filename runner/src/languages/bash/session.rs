//! A session: bash, and the keeper that gives it one program after another.
//!
//! The keeper is a child of bash. It has called `setsid`, so it has a process group of its own, and no interrupt
//! reaches it.
//!
//! Bash can't receive descriptors over a socket. So it opens the keeper's descriptors by their paths in `/proc`: the
//! program's streams, the program itself, a pipe that wakes bash, and a pipe that takes the program's status. While a
//! program runs, bash has none of these open but the streams. So nothing that the program prints is taken for its
//! status, and the program may close every descriptor.
//!
//! `loop.bash` is what bash executes. It sources the file of one program after another, and reports its status. If the
//! shell ends in an orderly way (`exit`, `set -e`, an interrupt), which `guard.bash` tells, it runs `leave.bash`. This
//! script saves the shell's state and replaces the shell by a new bash in the same process, which restores the state
//! (`restore.bash`). If the process ends in any other way (a signal, `exec`, or `exit` after the program has set its own
//! trap on EXIT), the session ends, and the kernel reports how.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::MemfdFlags;
use rustix::pipe::PipeFlags;

use super::shell::{self, Command};
use crate::languages::ZygoteContext;
use crate::languages::native::{Channel, Program};
use crate::sys::{self, Fork};

/// The scripts, with the names by which they call each other. In a script, `@name@` stands for the path of one of the
/// keeper's files.
const SCRIPTS: [(&str, &str); 8] = [
    ("loop", include_str!("loop.bash")),
    ("restore", include_str!("restore.bash")),
    ("guard", include_str!("guard.bash")),
    ("begin", include_str!("begin.bash")),
    ("command", include_str!("command.bash")),
    ("finish", include_str!("finish.bash")),
    ("report", include_str!("report.bash")),
    ("leave", include_str!("leave.bash")),
];

/// The keeper's files.
struct Files {
    /// The run's streams, or `/dev/null` between runs.
    streams: [OwnedFd; 3],
    /// The pipe that wakes bash, by a line with the run's number.
    wake: (OwnedFd, File),
    /// The pipe for bash's answer: a line with the run's number and its status.
    status: (File, OwnedFd),
    /// The program's parameters and environment variables, as lines of bash.
    env: File,
    /// A program that has no file of its own.
    code: File,
    /// The shell's variables and functions, saved while bash is started anew.
    state: File,
    /// The shell's options and traps, saved at the same time.
    options: File,
    /// The output of a built-in command of bash, which a script reads back.
    text: File,
    scripts: Vec<File>,
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
            scripts: SCRIPTS.iter().map(|_| memory()).collect::<Result<_, _>>()?,
        })
    }

    /// Replaces the streams by these descriptors, which get the old numbers and therefore the same paths.
    fn connect(&mut self, streams: &[OwnedFd]) -> io::Result<()> {
        for (place, fd) in self.streams.iter_mut().zip(streams) {
            rustix::io::dup3(fd, place, rustix::io::DupFlags::CLOEXEC)?;
        }
        Ok(())
    }

    /// The path of a program's file: what `$0` is, and what the shell sources. A command only has it as its name.
    fn path(&mut self, program: &Program, context: &ZygoteContext) -> io::Result<String> {
        if program.written || !program.argv.is_empty() {
            // Bash would look for a name without a slash on `PATH` first.
            return Ok(format!("{}/{}", context.workdir(), program.name));
        }
        write_over(&mut self.code, &program.code)?;
        Ok(format!("/proc/{}/fd/{}", std::process::id(), self.code.as_raw_fd()))
    }

    /// Replaces each `@name@` in a script by the path of the keeper's file with that name.
    fn resolve(&self, script: &str, keeper: i32) -> String {
        let [stdin, stdout, stderr] = &self.streams;
        let streams = [("stdin", stdin.as_fd()), ("stdout", stdout.as_fd()), ("stderr", stderr.as_fd())];
        let pipes = [("wake", self.wake.0.as_fd()), ("status", self.status.1.as_fd())];
        let files = [("env", &self.env), ("state", &self.state), ("options", &self.options), ("text", &self.text)];
        let scripts = SCRIPTS.iter().zip(&self.scripts).map(|((name, _), file)| (*name, file.as_fd()));
        let all = streams.into_iter().chain(pipes).chain(files.map(|(name, file)| (name, file.as_fd()))).chain(scripts);
        all.fold(script.to_owned(), |text, (name, fd)| {
            text.replace(&format!("@{name}@"), &format!("/proc/{keeper}/fd/{}", fd.as_raw_fd()))
        })
    }
}

/// Forks the keeper, and turns this process into bash. The keeper gives bash the first program and those that follow.
/// Returns only if that fails.
pub(super) fn begin(channel: &mut Channel, first: Program, bash: &str, context: &ZygoteContext) -> io::Error {
    let become_bash = || {
        channel.started()?;
        let mut files = Files::make()?;
        match sys::fork(0)? {
            Fork::Child => {
                let ended = keep(channel, files, first, context);
                sys::exit(if ended.is_ok() { 0 } else { 1 })
            }
            Fork::Parent { pid, .. } => {
                // The keeper shares these files. This process writes the scripts, so that they are complete when bash
                // starts.
                for ((_, script), at) in SCRIPTS.iter().zip(0..) {
                    let text = files.resolve(script, pid);
                    write_over(&mut files.scripts[at], &text)?;
                }
                let script = files.resolve("@loop@", pid);
                let command = Command::new(bash, [&*script], &first.env, &context.environment)?;
                Ok(command.exec())
            }
        }
    };
    become_bash().unwrap_or_else(|e: io::Error| e)
}

/// Runs the keeper, until the runner closes the channel or bash ends.
fn keep(channel: &mut Channel, mut files: Files, first: Program, context: &ZygoteContext) -> io::Result<()> {
    sys::die_with_parent();
    let _ = rustix::process::setsid();
    sys::set_name(c"keeper");
    let (mut program, mut number) = (first, 1_u64);
    loop {
        let path = files.path(&program, context)?;
        write_over(&mut files.env, &shell::assignments(&path, &program.argv, &program.env))?;
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

/// The status in a line of bash's answer. The first word is the number of the run, and the last word is the status.
/// `None` if the line is about another run or about none. Bash sends such a line if an interrupt comes when the run has
/// just ended.
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
        for (_, script) in SCRIPTS {
            let text = files.resolve(script, 7);
            let named = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase());
            assert!(!text.split('@').any(named), "{text}");
        }
    }
}
