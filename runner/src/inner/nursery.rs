//! The nursery: pid 1 of the inner pid namespace. It forks the inits of sandboxes when the runner asks for them.
//!
//! The nursery is small and never receives a byte of a job. The inits are copies of it, so they hold nothing of any
//! job.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::mount::MountFlags;
use serde::{Deserialize, Serialize};

use super::{Handles, Shape, conceal, init};
use crate::error::{Context, Error, Result};
use crate::procfs;
use crate::seqpacket::{self, Packets};
use crate::sys::{self, Fork};

/// The nursery's answer to one request.
pub(crate) struct NurseryAnswer {
    /// Number of the request.
    pub(crate) id: u32,
    /// Handles on the new sandbox, or why there is none.
    pub(crate) result: Result<Handles, String>,
}

impl NurseryAnswer {
    /// Receives one answer.
    ///
    /// # Errors
    /// If the socket fails or the answer is too short; `UnexpectedEof` if the nursery is gone.
    pub(crate) fn receive(from: &Packets) -> io::Result<Self> {
        let (bytes, fds) = from.receive()?;
        let (id, text) = bytes.split_first_chunk::<4>().ok_or(io::ErrorKind::InvalidData)?;
        let result = match <[OwnedFd; 8]>::try_from(fds) {
            Ok([init, proc_dir, storage, pid, mnt, ipc, uts, user]) => {
                Ok(Handles { init, proc_dir, storage, namespaces: vec![pid, mnt, ipc, uts, user] })
            }
            Err(_) => Err(String::from_utf8_lossy(text).into_owned()),
        };
        Ok(Self { id: u32::from_le_bytes(*id), result })
    }
}

/// The request with this number asks for no sandbox: the nursery looks at itself instead, and answers with a [`Look`].
pub(crate) const LOOK: u32 = u32::MAX;

/// What the nursery sees when it looks at itself. The proof that the container is clean compares two looks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Look {
    /// Its open descriptors.
    pub(crate) descriptors: usize,
    /// Digest of its mount table, of which each sandbox gets a copy.
    pub(crate) mounts: u64,
}

impl Look {
    fn take() -> io::Result<Self> {
        Ok(Self { descriptors: procfs::descriptors("/proc/self/fd")?, mounts: own_mounts() })
    }
}

/// Digest of the mount table of this process.
pub(crate) fn own_mounts() -> u64 {
    let mut digest = DefaultHasher::new();
    procfs::bytes("/proc/self/mountinfo").unwrap_or_default().hash(&mut digest);
    digest.finish()
}

/// First message of a nursery that can make sandboxes. Any other first message says why it can't.
const READY: &[u8] = b"ready";

/// Waits until the nursery can make sandboxes. Zygotes may be started only after that, because until then they would
/// get pids that jobs have, too.
pub(super) fn await_ready(socket: &Packets) -> Result<()> {
    let (word, _) = socket.receive().step("hear from the nursery")?;
    if word == READY { Ok(()) } else { Err(Error::Protocol(String::from_utf8_lossy(&word).into_owned())) }
}

/// Runs the nursery. It ends when the runner ends.
pub(super) fn run(socket: Packets, shape: &Shape) -> ! {
    sys::die_with_parent();
    sys::default_signals();
    sys::close_all_but(&socket);
    if let Err(e) = prepare(shape) {
        crate::log(&format!("nursery: {e}"));
        let _ = socket.send(e.to_string().as_bytes(), &[]);
        sys::exit(1);
    }
    if socket.send(READY, &[]).is_err() {
        sys::exit(1);
    }
    loop {
        let Ok((request, _)) = socket.receive() else { sys::exit(0) };
        while let Ok(Some(_)) = sys::wait(-1, false) {}
        let id = request.get(..4).unwrap_or(&[0; 4]);
        if id == LOOK.to_le_bytes() {
            let text =
                Look::take().and_then(|look| Ok(serde_json::to_string(&look)?)).unwrap_or_else(|e| e.to_string());
            if socket.send(&[id, text.as_bytes()].concat(), &[]).is_err() {
                sys::exit(1);
            }
            continue;
        }
        let sent = match make_sandbox(shape) {
            Ok(fds) => socket.send(id, &fds),
            Err(e) => socket.send(&[id, e.to_string().as_bytes()].concat(), &[]),
        };
        if sent.is_err() {
            sys::exit(1);
        }
    }
}

/// Gives the nursery a mount namespace of its own, and prepares it: each sandbox gets a copy of this namespace. The
/// runner and the zygotes stay in theirs.
pub(super) fn prepare(shape: &Shape) -> Result<()> {
    rustix::process::umask(rustix::fs::Mode::empty());
    sys::unshare(sys::CLONE_NEWNS).step("nursery's mount namespace")?;
    if shape.foreign {
        conceal::conceal(shape.socket_dir.as_deref())?;
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    rustix::mount::mount("proc", "/proc", "proc", flags, None).step("mount /proc in the inner pid namespace")?;
    // Zygotes get pids above 9000, and no job has such a pid. So libraries that detect a fork by a changed pid always
    // detect the fork from a zygote.
    if let Err(e) = std::fs::write("/proc/sys/kernel/ns_last_pid", "9000") {
        crate::log(&format!("a zygote's pid may be a job's: ns_last_pid: {e}"));
    }
    Ok(())
}

/// Makes the namespaces of one sandbox. Returns the descriptors of its [`Handles`], in the order of their fields.
fn make_sandbox(shape: &Shape) -> Result<Vec<OwnedFd>> {
    let (mut ours, theirs) = UnixStream::pair().step("init's socket")?;
    match sys::fork(super::FRESH).step("fork a sandbox's init")? {
        Fork::Child => {
            drop(ours);
            init::run(shape, theirs)
        }
        Fork::Parent { pid, pidfd } => {
            drop(theirs);
            let none = || Error::Protocol("this kernel gives no handle on a process (pidfd)".into());
            let made = pidfd.ok_or_else(none).and_then(|pidfd| adopt(pid, pidfd, &mut ours));
            if made.is_err() {
                sys::kill(pid);
            }
            made
        }
    }
}

/// Waits until a new init has prepared its sandbox, writes the maps of its user namespace, opens the sandbox's handles,
/// and lets the init go on.
fn adopt(pid: i32, pidfd: OwnedFd, init: &mut UnixStream) -> Result<Vec<OwnedFd>> {
    let mut word = [0; 512];
    let (got, mut storage) = seqpacket::receive_with_fds(init.as_fd(), &mut word).step("hear from a sandbox's init")?;
    let storage = match storage.pop() {
        Some(storage) if word[..got] == init::UNSHARED => storage,
        _ => {
            let text = if got == 0 { "a sandbox's init died".into() } else { String::from_utf8_lossy(&word[..got]) };
            return Err(Error::Protocol(text.into_owned()));
        }
    };
    crate::outer::write_maps(pid, (init::JOB_ID, 0), (init::JOB_ID, 0), true)?;
    let open = |name: &str| File::open(format!("/proc/{pid}/{name}")).map(OwnedFd::from).step(format!("open {name}"));
    let mut fds = vec![pidfd, open("root/proc")?, storage];
    for name in ["ns/pid", "ns/mnt", "ns/ipc", "ns/uts", "ns/user"] {
        fds.push(open(name)?);
    }
    init.write_all(b"g").step("release a sandbox's init")?;
    Ok(fds)
}
