//! The inner wall: one user, mount and pid namespace per container, in which the zygotes live, and fresh namespaces
//! inside them for each sandbox.
//!
//! ```text
//! runner ──▶ nursery (pid 1 of the inner pid namespace; sees no job's byte) ──▶ each sandbox's init (pid 1 there)
//!        └─▶ zygotes ──▶ the job's processes (forked with CLONE_PARENT: the runner's own children, so that the kernel
//!                        reports their exit status and usage to it directly)
//! ```
//!
//! A sandbox's init is forked into fresh pid, mount, ipc and uts namespaces. It prepares the mounts, enters the
//! sandbox's own user namespace (whose maps the nursery writes) and sleeps. Its death ends every process of the
//! sandbox.

mod conceal;
mod init;
mod nursery;

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::mount::MountPropagationFlags;

use crate::error::{Context, Error, Result, USERNS_ADVICE};
use crate::seqpacket::Packets;
use crate::sys::{self, Fork};

pub(crate) use nursery::{LOOK, Look, NurseryAnswer, own_mounts};

/// The namespaces that a sandbox's init is forked into. It enters its user namespace later, as its last step.
const FRESH: i32 = sys::CLONE_NEWPID | sys::CLONE_NEWNS | sys::CLONE_NEWIPC | sys::CLONE_NEWUTS;

/// What every sandbox of this container has in common.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    /// Size of all writable file systems of a sandbox together, in bytes.
    pub(crate) disk_bytes: u64,
    /// Whether Docker made the container. If so, what the native outer wall never shows is hidden: most of `/dev`, all
    /// of `/sys` and `/run`.
    pub(crate) foreign: bool,
    /// Directory of the worker's socket, to be hidden as well.
    pub(crate) socket_dir: Option<String>,
    /// Paths of the view that the storage covers. Every sandbox shows them again at the same paths, read-only.
    pub(crate) covered: Vec<String>,
}

/// The inner wall, once it is built.
pub(crate) struct Wall {
    /// Socket for requests to the nursery and its answers.
    pub(crate) nursery: Packets,
    /// The nursery's pid, to notice its end.
    pub(crate) pid: i32,
}

impl Wall {
    /// Puts this process into the inner user and mount namespace and starts the nursery in the inner pid namespace.
    ///
    /// # Errors
    /// [`Error::Forbidden`] if nested namespaces are not allowed here.
    pub(crate) fn raise(shape: &Shape) -> Result<Self> {
        enter()?;
        let (ours, theirs) = Packets::pair().step("nursery's socket")?;
        match sys::fork(0).step("fork the nursery")? {
            Fork::Child => {
                drop(ours);
                nursery::run(theirs, shape)
            }
            Fork::Parent { pid, .. } => {
                drop(theirs);
                nursery::await_ready(&ours)?;
                Ok(Self { nursery: ours, pid })
            }
        }
    }

    /// Tries the whole wall in a process of its own, so that a failure leaves this process as it was.
    ///
    /// # Errors
    /// Why a sandbox can't be made here.
    pub(crate) fn probe(shape: &Shape) -> Result<(), String> {
        let (mut ours, theirs) = UnixStream::pair().map_err(|e| e.to_string())?;
        match sys::fork(0) {
            Err(e) => Err(e.to_string()),
            Ok(Fork::Child) => {
                let text = Self::raise(shape)
                    .map_err(|e| e.to_string())
                    .and_then(|wall| {
                        wall.nursery.send(&0u32.to_le_bytes(), &[]).map_err(|e| e.to_string())?;
                        let answer = NurseryAnswer::receive(&wall.nursery).map_err(|e| e.to_string())?;
                        answer.result.map(drop)
                    })
                    .err()
                    .unwrap_or_default();
                let _ = std::io::Write::write_all(&mut &theirs, text.as_bytes());
                sys::exit(0)
            }
            Ok(Fork::Parent { pid, .. }) => {
                drop(theirs);
                let mut text = String::new();
                let read = std::io::Read::read_to_string(&mut ours, &mut text);
                let _ = sys::wait(pid, true);
                match read {
                    Ok(_) if text.is_empty() => Ok(()),
                    Ok(_) => Err(text),
                    Err(e) => Err(e.to_string()),
                }
            }
        }
    }
}

/// Puts this process into the inner user and mount namespace, and its children into the inner pid namespace.
fn enter() -> Result<()> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    sys::unshare(sys::CLONE_NEWUSER | sys::CLONE_NEWNS | sys::CLONE_NEWPID).map_err(|source| Error::Forbidden {
        step: "inner namespaces".into(),
        source,
        advice: USERNS_ADVICE,
    })?;
    crate::outer::write_maps(std::process::id() as i32, (0, uid), (0, gid), true)?;
    rustix::mount::mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE).step("private mounts")
}

/// Handles on one sandbox's namespaces and its init.
#[derive(Debug)]
pub(crate) struct Handles {
    /// Pidfd of the init. Killing it ends everything in the sandbox.
    pub(crate) init: OwnedFd,
    /// The sandbox's own `/proc`, which shows its processes only.
    pub(crate) proc_dir: OwnedFd,
    /// The root directory of its storage, which nothing in the sandbox can reach.
    pub(crate) storage: OwnedFd,
    /// Pid, mount, ipc, uts and user namespace, in this order. Every process that joins the sandbox needs them, and
    /// nobody can open them later: the init is closed to the runner, too.
    pub(crate) namespaces: Vec<OwnedFd>,
}

impl Handles {
    /// Number of open descriptors.
    pub(crate) fn descriptors(&self) -> usize {
        3 + self.namespaces.len()
    }

    /// Kills every process in the sandbox.
    pub(crate) fn kill(&self) {
        let _ = rustix::process::pidfd_send_signal(self.init.as_fd(), rustix::process::Signal::KILL);
    }
}
