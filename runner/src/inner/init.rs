//! Pid 1 of one sandbox: prepares its mounts, enters its last user namespace, then sleeps. The kernel reaps for it.

use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::MountFlags;

use super::Shape;
use crate::error::{Context, Result};
use crate::files;
use crate::{seqpacket, sys};

/// User and group that a job sees itself as.
pub(crate) const JOB_ID: u32 = 1000;

/// What an init says once it stands in its user namespace, with a descriptor of its storage.
pub(super) const UNSHARED: [u8; 1] = *b"u";

/// Files of `/proc` that tell about the machine or other people's doings; covered by `/dev/null`. `/proc` itself is
/// read-only, and what only root may read is out of reach anyway: no job's user is the machine's root.
const MASKED_FILES: [&str; 10] = [
    "/proc/kcore",
    "/proc/keys",
    "/proc/key-users",
    "/proc/kallsyms",
    "/proc/kmsg",
    "/proc/sched_debug",
    "/proc/timer_list",
    "/proc/sysrq-trigger",
    "/proc/modules",
    "/proc/latency_stats",
];

/// Directories of `/proc` covered by an empty one.
const MASKED_DIRS: [&str; 4] = ["/proc/acpi", "/proc/scsi", "/proc/pressure", "/proc/asound"];

/// The init's life.
pub(super) fn run(shape: &Shape, mut nursery: UnixStream) -> ! {
    let (word, storage) = match prepare(shape) {
        Ok(storage) => (UNSHARED.to_vec(), Some(storage)),
        Err(e) => (e.to_string().into_bytes(), None),
    };
    let mut go = [0];
    let told = seqpacket::send_with_fds(nursery.as_fd(), &word, storage.as_slice());
    let released = told.and_then(|_| nursery.read_exact(&mut go));
    if word != UNSHARED || released.is_err() || sys::drop_capabilities().is_err() {
        sys::exit(1);
    }
    // The job is of the same user: without this it could write into our memory through /proc/1/mem.
    sys::set_dumpable(false);
    sys::close_range(0, i32::MAX);
    sys::reap_and_sleep()
}

/// Does everything but the last step, which waits for the nursery; the root of the storage.
fn prepare(shape: &Shape) -> Result<OwnedFd> {
    rustix::system::sethostname(b"sandbox").step("set the sandbox's host name")?;
    storage(shape.disk_bytes)?;
    // Before /tmp covers it: from then on nobody in the sandbox can reach it.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open("/tmp", flags, Mode::empty()).step("open the sandbox's storage")?;
    places()?;
    proc_tree()?;
    mask()?;
    last_namespace()?;
    Ok(root)
}

/// The least that a sandbox is made of, for [`crate::floor`]: the steps of an init that no kernel does without.
pub(crate) fn bare(shape: &Shape) -> Result<()> {
    storage(shape.disk_bytes)?;
    proc_tree()?;
    last_namespace()
}

fn last_namespace() -> Result<()> {
    sys::unshare(sys::CLONE_NEWUSER).step("the sandbox's user namespace")
}

/// One sized tmpfs behind all that is writable, so that the size holds for their sum.
fn storage(bytes: u64) -> Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    let options = format!("size={bytes},nr_inodes={},mode=755\0", bytes / 8192 + 1024);
    let options = std::ffi::CStr::from_bytes_with_nul(options.as_bytes()).ok();
    rustix::mount::mount("sandbox", "/tmp", "tmpfs", flags, options).step("mount the sandbox's storage")
}

/// Shows the storage at every writable place.
fn places() -> Result<()> {
    let make = |at: &str, mode| std::fs::DirBuilder::new().mode(mode).create(at).step(format!("make {at}"));
    for (name, mode, at) in [
        (files::WORKSPACE, 0o755, "/workspace"),
        (files::SESSION, 0o755, "/session"),
        ("s", 0o1777, "/dev/shm"),
        ("t", 0o1777, "/tmp"),
    ] {
        let from = &*format!("/tmp/{name}");
        make(from, mode)?;
        if mode == 0o755 {
            make(&format!("{from}/{}", files::ARTIFACTS), mode)?;
        }
        match rustix::mount::mount_bind(from, at) {
            // An image need not have the place; a native view always does.
            Err(Errno::NOENT) => Ok(()),
            other => other.step(format!("mount {at}")),
        }?;
    }
    Ok(())
}

/// Flags of the sandbox's `/proc`.
const PROC: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV).union(MountFlags::NOEXEC);

fn proc_tree() -> Result<()> {
    rustix::mount::mount("proc", "/proc", "proc", PROC, None).step("mount the sandbox's /proc")
}

/// Hides what is not the sandbox's own in `/proc`.
fn mask() -> Result<()> {
    let masks = MASKED_FILES.iter().map(|f| ("/dev/null", *f)).chain(MASKED_DIRS.iter().map(|d| (EMPTY, *d)));
    for (from, at) in masks {
        match rustix::mount::mount_bind(from, at) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(e) => return Err(e).step(format!("mask {at}")),
        }
    }
    let flags = PROC | MountFlags::BIND | MountFlags::RDONLY;
    rustix::mount::mount_remount("/proc", flags, "").step("make /proc read-only")?;
    debug_assert!(Path::new(EMPTY).is_dir());
    Ok(())
}

/// An empty read-only directory of every view.
const EMPTY: &str = "/sys";
