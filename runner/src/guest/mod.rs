//! What runs beside a session's program, from the inside: the process of a command or of a file operation.
//!
//! The process is forked from the native zygote into the session's sandbox, and has the job's user, view, filter and
//! limits. So whatever it does, the job could do, too. Only one thing is its own: its entries in `/proc`, which show
//! the runner's program and start. [`paths`] keeps file operations out of them.

mod change;
mod command;
mod failure;
mod glob;
mod grep;
mod list;
mod paths;
mod transfer;
mod walk;

use std::os::fd::{AsFd, OwnedFd};

use serde::Serialize;
use serde_json::value::RawValue;

use crate::frames::{Failure, FileOp, Resolved, Work};
use crate::sys;
use failure::on;

/// The result of a file operation; `None` if it has none.
type Done = Result<Option<Box<RawValue>>, Failure>;

/// Does the work. `streams` are standard input, output and error, and `environment` is what every program has in its
/// environment. Doesn't return if the work is a command that could be started.
///
/// # Errors
/// Why the command could not be started, or the file operation failed.
pub(crate) fn run(work: &Work, streams: Vec<OwnedFd>, environment: &[String]) -> Done {
    for (fd, to) in streams.iter().zip(0..) {
        sys::place_fd(fd.as_fd(), to).map_err(on(""))?;
    }
    drop(streams);
    match work {
        Work::Command(command) => Err(command::exec(command, environment)),
        Work::File(op) => {
            // A file that would grow beyond the limit is an error, and not the end of the process.
            sys::ignore_signal(libc::SIGXFSZ);
            file(op)
        }
    }
}

fn file(op: &FileOp) -> Done {
    match op {
        FileOp::Stat { path, link } => value(paths::stat(path, *link)?),
        FileOp::List { path, depth, most } => value(list::list(path, *depth, *most)?),
        FileOp::Read { path, offset, length } => value(transfer::read(path, *offset, *length)?),
        FileOp::Write { path, mode, permissions } => value(transfer::write(path, *mode, *permissions)?),
        FileOp::MakeDir { path, parents } => change::make_dir(path, *parents).map(|()| None),
        FileOp::Move { from, to } => change::rename(from, to).map(|()| None),
        FileOp::Remove { path, recursive } => change::remove(path, *recursive).map(|()| None),
        FileOp::Glob { path, pattern, most } => value(list::glob(path, pattern, *most)?),
        FileOp::Grep { path, pattern, glob, ignore_case, most } => {
            let search = grep::Search::new(pattern, glob.as_deref(), *ignore_case, *most)?;
            value(search.run(path)?)
        }
        FileOp::Digest { path } => value(transfer::digest(path)?),
        FileOp::RealPath { path } => value(Resolved { path: paths::real(path)? }),
    }
}

fn value(result: impl Serialize) -> Done {
    serde_json::value::to_raw_value(&result).map(Some).map_err(on(""))
}
