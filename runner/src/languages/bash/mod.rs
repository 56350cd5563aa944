//! Bash: one zygote, which is a fork of the runner that is made before the runner reads a byte of any job.
//!
//! A fresh program's process becomes bash (`execve`) when its program comes, so the kernel's report on it is bash's
//! own. The process of a session becomes bash, too. Beside it runs a *keeper*, which gives bash one program after the
//! other ([`session`]).

mod channel;
mod job;
mod session;
mod shell;
mod zygote;

use serde_json::Value;

use super::{Language, Zygote, ZygoteContext};
use crate::error::{Context, Error, Result};
use crate::frames::Run;
use crate::seqpacket::Packets;
use crate::sys::{self, Fork};

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

    fn start(&self, _zygote: usize, context: &ZygoteContext) -> Result<Zygote> {
        let (ours, theirs) = Packets::pair().step("zygote's socket")?;
        match sys::fork(0).step("fork a zygote")? {
            Fork::Child => {
                drop(ours);
                zygote::run(&theirs, context, self.path)
            }
            Fork::Parent { pid, .. } => Ok(Zygote::new(pid, ours)),
        }
    }

    /// As in a terminal: the command that bash waits for must hear of the interrupt, because bash itself only heeds it
    /// once that command has ended.
    fn interrupts_group(&self) -> bool {
        true
    }
}
