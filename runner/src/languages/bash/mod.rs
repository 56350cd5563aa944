//! Bash: its programs are forked from the native zygote ([`super::native`]).
//!
//! A fresh program's process becomes bash (`execve`) when its program comes, so the kernel's report on it is bash's
//! own. The process of a session becomes bash, too. Beside it runs a *keeper*, which gives bash one program after the
//! other ([`session`]).

mod session;
mod shell;

use std::ffi::CStr;
use std::io;
use std::os::fd::AsFd;
use std::process::Command;

use serde_json::Value;

use super::native::{self, Channel, Interpreter, Program};
use super::{Language, Zygote, ZygoteContext};
use crate::error::{Context, Error, Result};
use crate::frames::Run;
use crate::sys;

/// Where bash may be, the most common place first.
const PATHS: [&str; 3] = ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"];

struct Bash {
    path: &'static str,
}

pub(super) fn open(_options: &Value) -> Result<Box<dyn Language>> {
    let executable = |path: &&str| rustix::fs::access(*path, rustix::fs::Access::EXEC_OK).is_ok();
    let missing = || Error::Interpreter { path: PATHS[0].into(), reason: "there is none in this container".into() };
    Ok(Box::new(Bash { path: PATHS.into_iter().find(executable).ok_or_else(missing)? }))
}

impl Language for Bash {
    fn path(&self) -> &str {
        self.path
    }

    fn extension(&self) -> &'static str {
        "sh"
    }

    fn zygotes(&self) -> usize {
        1
    }

    fn is_eager(&self, _zygote: usize) -> bool {
        true
    }

    /// Many containers never run a program in bash, and each sandbox takes memory.
    fn has_spares_at_once(&self, _zygote: usize) -> bool {
        false
    }

    /// The zygote is a copy of the runner, and must not hold anything of a job.
    fn can_start_late(&self) -> bool {
        false
    }

    fn choose(&self, _run: &Run) -> usize {
        0
    }

    fn is_native(&self) -> bool {
        true
    }

    fn start(&self, _zygote: usize, context: &ZygoteContext) -> Result<Zygote> {
        native::start(context, self)
    }

    /// As in a terminal: the command that bash waits for must hear of the interrupt, because bash itself only heeds it
    /// once that command has ended.
    fn interrupts_group(&self) -> bool {
        true
    }
}

impl Interpreter for Bash {
    const NAME: &CStr = c"bash zygote";
    /// The keeper.
    const HELPERS: u32 = 1;

    /// Asks bash, which also shows that it runs here.
    fn version(&self) -> Result<String> {
        let bash = self.path;
        let output = Command::new(bash).args(["--norc", "-c", "echo \"$BASH_VERSION\""]).env_clear().output();
        let output = output.step(format!("start {bash}"))?;
        let version = String::from_utf8_lossy(&output.stdout);
        match version.split('(').next().map(str::trim).filter(|version| output.status.success() && !version.is_empty())
        {
            Some(version) => Ok(format!("bash {version}")),
            None => Err(Error::Interpreter { path: bash.into(), reason: format!("it ended with {}", output.status) }),
        }
    }

    fn become_program(&self, channel: &mut Channel, program: Program, context: &ZygoteContext) -> io::Error {
        if program.session {
            session::begin(channel, program, self.path, context)
        } else {
            fresh(channel, &program, self.path, context)
        }
    }
}

/// Becomes bash with a fresh program. Returns only if that fails.
fn fresh(channel: &mut Channel, program: &Program, bash: &str, context: &ZygoteContext) -> io::Error {
    let mut become_bash = || {
        channel.started()?;
        let command = shell::fresh(program, bash, context)?;
        for (fd, to) in program.streams.iter().zip(0..) {
            sys::place_fd(fd.as_fd(), to)?;
        }
        Ok(command.exec())
    };
    become_bash().unwrap_or_else(|e: io::Error| e)
}
