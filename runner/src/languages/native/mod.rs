//! The native zygote: a fork of the runner that is made before the runner reads a byte of any job.
//!
//! Its children wait in their sandbox for what they are to do. The programs of a language may be forked from it (see
//! [`Interpreter`]), and everything that runs beside a session's program is: see [`crate::guest`].

mod channel;
mod job;
mod zygote;

use std::ffi::CStr;
use std::io;

pub(super) use channel::{Channel, Program};

use super::{Language, Zygote, ZygoteContext};
use crate::error::{Context, Result};
use crate::frames::Run;
use crate::seqpacket::Packets;
use crate::sys::{self, Fork};

/// What runs the programs that are handed to children of a native zygote.
pub(super) trait Interpreter {
    /// The zygote's name, as `ps` shows it.
    const NAME: &CStr;

    /// Number of processes in a sandbox that belong to the language and not to the program.
    const HELPERS: u32;

    /// Name and version of what runs the programs.
    ///
    /// # Errors
    /// If it doesn't run here.
    fn version(&self) -> Result<String>;

    /// Turns the process, which is in its sandbox, into the program. Returns only if that fails.
    fn become_program(&self, channel: &mut Channel, program: Program, context: &ZygoteContext) -> io::Error;
}

/// Starts a native zygote.
///
/// # Errors
/// If a system call fails.
pub(super) fn start(context: &ZygoteContext, interpreter: &impl Interpreter) -> Result<Zygote> {
    let (ours, theirs) = Packets::pair().step("zygote's socket")?;
    match sys::fork(0).step("fork a zygote")? {
        Fork::Child => {
            drop(ours);
            zygote::run(&theirs, context, interpreter)
        }
        Fork::Parent { pid, .. } => Ok(Zygote::new(pid, ours)),
    }
}

/// Stands in the place of a language in containers whose languages have no native zygote. It runs no programs.
pub(super) struct NoLanguage;

impl Interpreter for NoLanguage {
    const NAME: &CStr = c"native zygote";
    const HELPERS: u32 = 0;

    fn version(&self) -> Result<String> {
        Ok(String::new())
    }

    fn become_program(&self, _channel: &mut Channel, _program: Program, _context: &ZygoteContext) -> io::Error {
        io::ErrorKind::Unsupported.into()
    }
}

impl Language for NoLanguage {
    fn path(&self) -> &'static str {
        "the runner"
    }

    fn extension(&self) -> &'static str {
        ""
    }

    fn zygotes(&self) -> usize {
        1
    }

    fn is_eager(&self, _zygote: usize) -> bool {
        true
    }

    fn has_spares_at_once(&self, _zygote: usize) -> bool {
        false
    }

    fn can_start_late(&self) -> bool {
        false
    }

    fn is_native(&self) -> bool {
        true
    }

    fn choose(&self, _run: &Run) -> usize {
        0
    }

    fn start(&self, _zygote: usize, context: &ZygoteContext) -> Result<Zygote> {
        start(context, self)
    }
}
