//! What zygotes of all languages have in common: how they are told to fork, and what they answer.
//!
//! The runner and a zygote talk over a sequenced-packet socket:
//!
//! ```text
//! zygote ──▶ runner   first: ZygoteInfo, as JSON
//! runner ──▶ zygote   per sandbox: u32 number; with descriptors: the job's end of its channel, and (with an inner
//!                     wall) the sandbox's pid, mount, ipc, uts and user namespace
//! zygote ──▶ runner   per sandbox: u32 number, i32 errno, i32 pid; on success the child's pidfd, if the kernel has any
//! ```
//!
//! A child is forked with CLONE_PARENT, which makes it a child of the runner: the kernel reports its exit status and
//! usage to the runner.

use std::os::fd::OwnedFd;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::seccomp::Programs;
use crate::seqpacket::Packets;

/// Environment of every program, to which the container's languages add ([`environment`]).
const ENVIRONMENT: [&str; 7] = [
    "HOME=/workspace",
    "USER=sandbox",
    "LOGNAME=sandbox",
    "TMPDIR=/tmp",
    "LANG=C.UTF-8",
    "TZ=UTC",
    // Writable in a zygote, too: libraries without a writable cache directory complain on standard error.
    "XDG_CACHE_HOME=/tmp/.cache",
];

/// Folders with the commands of every program, after those that the container's languages add.
const COMMANDS: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];

/// What a language adds to the environment of every program. A program of any language may start programs of the
/// others.
#[derive(Debug, Default)]
pub(crate) struct Additions {
    /// Folders with commands, which take the place of the system's.
    pub(crate) commands: Vec<String>,
    /// Variables, as `NAME=value`.
    pub(crate) variables: Vec<String>,
}

/// Environment of every program, whatever its language, as `NAME=value`.
pub(super) fn environment(additions: impl IntoIterator<Item = Additions>) -> Vec<String> {
    let (mut commands, mut variables) = (Vec::new(), Vec::new());
    for added in additions {
        commands.extend(added.commands);
        variables.extend(added.variables);
    }
    let mut path: Vec<String> = Vec::new();
    for folder in commands.into_iter().chain(COMMANDS.map(str::to_owned)) {
        if !path.contains(&folder) {
            path.push(folder);
        }
    }
    let fixed = ENVIRONMENT.into_iter().map(str::to_owned);
    std::iter::once(format!("PATH={}", path.join(":"))).chain(fixed).chain(variables).collect()
}

/// A zygote's first message. It says that the zygote is ready to be forked from, and describes it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct ZygoteInfo {
    /// Name and version of what runs the programs, such as `Python 3.11.7`.
    pub(crate) version: String,
    /// Modules of the preload list that it could import.
    #[serde(default)]
    pub(crate) preloaded: Vec<String>,
    /// Modules that it could not import, with the reason.
    #[serde(default)]
    pub(crate) missing: Vec<String>,
    /// Number of its threads. With more than one, its children may deadlock.
    pub(crate) threads: u32,
    /// Its address space, in bytes.
    pub(crate) vm: u64,
    /// Its writable private memory, in bytes.
    pub(crate) data: u64,
    /// Number of processes in a sandbox that belong to the language and not to the program.
    #[serde(default)]
    pub(crate) helpers: u32,
}

/// A process that jobs' processes are forked from.
pub(crate) struct Zygote {
    /// Its process id, to kill and to reap it.
    pub(crate) pid: i32,
    /// The runner's end of the socket to it.
    pub(crate) control: Packets,
    /// When it was started or last answered.
    pub(crate) heard: Instant,
    /// Its first message; `None` until it is ready.
    pub(crate) info: Option<ZygoteInfo>,
}

impl Zygote {
    /// A zygote that was started just now.
    pub(super) fn new(pid: i32, control: Packets) -> Self {
        Self { pid, control, heard: Instant::now(), info: None }
    }

    /// Whether it can be forked from.
    pub(crate) fn is_ready(&self) -> bool {
        self.info.is_some()
    }
}

/// What all zygotes of a container, and the processes forked from them, have to know about the container.
pub(crate) struct ZygoteContext {
    /// Whether there is an inner wall to fork into.
    pub(crate) nested: bool,
    /// The system-call filters that zygotes and their children load.
    pub(crate) programs: Programs,
    /// Environment of every program, as `NAME=value`.
    pub(crate) environment: Vec<String>,
}

impl ZygoteContext {
    /// The directory in which programs start. With an inner wall, every sandbox has a writable `/workspace` if the view
    /// has the directory. Without one, it may be read-only; programs then start in `/tmp`.
    pub(in crate::languages) fn workdir(&self) -> &'static str {
        let writable = || rustix::fs::access("/workspace", rustix::fs::Access::WRITE_OK).is_ok();
        if std::path::Path::new("/workspace").is_dir() && (self.nested || writable()) { "/workspace" } else { "/tmp" }
    }
}

/// A process that a zygote forked.
#[derive(Debug)]
pub(crate) struct Child {
    /// Its pid in the zygote's pid namespace. The runner sees the same number only without an inner wall.
    pub(crate) pid: i32,
    /// `None` if the kernel gives none (gVisor).
    pub(crate) pidfd: Option<OwnedFd>,
}

impl Child {
    /// Kills it.
    pub(crate) fn kill(&self) {
        match &self.pidfd {
            Some(pidfd) => drop(rustix::process::pidfd_send_signal(pidfd, rustix::process::Signal::KILL)),
            None => crate::sys::kill(self.pid),
        }
    }
}

/// Sends the answer to a request: the child, or an errno.
pub(super) fn send_child(to: &Packets, id: u32, child: Result<Child, i32>) -> std::io::Result<()> {
    let (errno, pid, pidfd) = match child {
        Ok(Child { pid, pidfd }) => (0, pid, pidfd),
        Err(errno) => (errno, 0, None),
    };
    let bytes = [id.to_le_bytes(), errno.to_le_bytes(), pid.to_le_bytes()].concat();
    to.send(&bytes, pidfd.as_slice())
}

/// Receives a zygote's answer to a request: the request's number, then the child or an errno. `None` if the message is
/// too short.
pub(crate) fn receive_child(from: &Packets) -> std::io::Result<Option<(u32, Result<Child, i32>)>> {
    let (bytes, mut fds) = from.receive()?;
    let ([id, errno, pid, ..], _) = bytes.as_chunks() else { return Ok(None) };
    let errno = i32::from_le_bytes(*errno);
    let child = Child { pid: i32::from_le_bytes(*pid), pidfd: fds.pop() };
    Ok(Some((u32::from_le_bytes(*id), if errno == 0 { Ok(child) } else { Err(errno) })))
}
