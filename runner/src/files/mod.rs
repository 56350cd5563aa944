//! The files of a run, handled from outside its sandbox: [`place()`] writes its inputs, and [`Walk`] reads what it
//! leaves. [`Tree`] reads everything that a session has.
//!
//! ```text
//! storage (one sized tmpfs per sandbox; the runner holds a descriptor of its root, which no job can reach)
//!   ├─ w  = /workspace   └─ artifacts
//!   ├─ h  = /session     └─ artifacts
//!   └─ s, t = /dev/shm, /tmp
//! ```
//!
//! Whatever a job does to its files, nothing outside its storage may ever be opened. So every name that a job can
//! choose is a single component, opened below a descriptor, and never through a link. In a session, the job's processes
//! live on meanwhile and may swap any name at any moment.

mod place;
mod program;
mod seen;
mod tree;
mod walk;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, RawDir, openat};
use rustix::io::Errno;

pub(crate) use place::{Inbox, Inputs, place};
pub(crate) use program::{ProgramFile, Programs, is_programs_own};
pub(crate) use seen::Seen;
pub(crate) use tree::{Growth, Tree};
pub(crate) use walk::{Step, Walk};

/// Names of the storage's directories that are `/workspace` and `/session`, as [`crate::inner`] makes them.
pub(crate) const WORKSPACE: &str = "w";
pub(crate) const SESSION: &str = "h";

/// Name of the directory in both of them whose files are collected.
pub(crate) const ARTIFACTS: &str = "artifacts";

/// A directory whose new and changed files are collected.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Root {
    /// Its path below the storage's root.
    at: &'static str,
    /// Its path as the job's code knows it.
    path: &'static str,
}

const ROOTS: [Root; 2] =
    [Root { at: "w/artifacts", path: "/workspace/artifacts" }, Root { at: "h/artifacts", path: "/session/artifacts" }];

/// Which files in the [`ROOTS`] are collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All that a run leaves in a fresh sandbox.
    Run,
    /// Those that a session's run has made or changed.
    SessionRun,
}

/// Whether there is anything to collect. Every run asks, so this may take a few microseconds only.
pub(crate) fn any(storage: impl AsFd) -> bool {
    ROOTS.iter().any(|root| match directory(storage.as_fd(), root.at) {
        Ok(dir) => {
            let mut space = [std::mem::MaybeUninit::uninit(); 512];
            let mut entries = RawDir::new(dir, &mut space);
            loop {
                match entries.next() {
                    Some(Ok(entry)) if matches!(entry.file_name().to_bytes(), b"." | b"..") => {}
                    Some(_) => break true,
                    None => break false,
                }
            }
        }
        // The code has removed the directory, so there is nothing.
        Err(Errno::NOENT) => false,
        // The code has put something else there. The walk will report it.
        Err(_) => true,
    })
}

/// Opens a directory below another one. It fails if the last component is a link.
fn directory(below: BorrowedFd<'_>, name: impl rustix::path::Arg) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    openat(below, name, flags, Mode::empty())
}
