//! Pid 1 of one sandbox. The nursery forks it. It prepares the mounts, enters the sandbox's user namespace and then
//! reaps orphans, whose CPU time the kernel adds to its own. It never runs a job's code.

use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::MountFlags;

use super::Shape;
use crate::error::{Context, Result};
use crate::files;
use crate::{seqpacket, sys};

/// User and group that a job sees itself as.
pub(crate) const JOB_ID: u32 = 1000;

/// What an init says to the nursery once it is in its user namespace. A descriptor of its storage comes with it.
pub(super) const UNSHARED: [u8; 1] = *b"u";

/// Files of `/proc` that tell about the machine or about what other users do; `/dev/null` covers them. `/proc` itself
/// is read-only, and what only root may read is out of reach, because no job runs as the machine's root.
const MASKED_FILES: [&str; 14] = [
    "/proc/cmdline",
    "/proc/partitions",
    "/proc/diskstats",
    "/proc/sys/kernel/random/boot_id",
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

/// Directories of `/proc` that an empty one covers.
const MASKED_DIRS: [&str; 5] = ["/proc/acpi", "/proc/scsi", "/proc/pressure", "/proc/asound", "/proc/fs"];

/// Bounds of the sandbox's ipc namespace, whose objects take kernel memory that nothing else counts. `sem`: semaphores
/// in a set, semaphores in all, operations in one call, sets. `msgmni`: message queues, of 16 KiB each. `shmmni`:
/// segments of shared memory.
const IPC: [(&str, &str); 3] = [
    ("/proc/sys/kernel/sem", "256 4096 100 256"),
    ("/proc/sys/kernel/msgmni", "64"),
    ("/proc/sys/kernel/shmmni", "256"),
];

/// Runs the init. `nursery` is its socket to the nursery.
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
    // The job runs as the same user: without this it could write into our memory through /proc/1/mem.
    sys::set_dumpable(false);
    sys::close_range(0, i32::MAX);
    sys::reap_forever()
}

/// Does everything that needs no answer of the nursery. Returns the root directory of the storage.
fn prepare(shape: &Shape) -> Result<OwnedFd> {
    rustix::system::sethostname(b"sandbox").step("set the sandbox's host name")?;
    let covered = uncover(&shape.covered)?;
    storage(shape.disk_bytes)?;
    // Opened before the sandbox's /tmp covers it. From then on nothing in the sandbox can reach it.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open("/tmp", flags, Mode::empty()).step("open the sandbox's storage")?;
    places()?;
    for (path, shown) in shape.covered.iter().zip(&covered) {
        show(path, shown).step(format!("show {path} in the sandbox"))?;
    }
    proc_tree()?;
    bound_ipc();
    mask()?;
    last_namespace()?;
    Ok(root)
}

fn last_namespace() -> Result<()> {
    sys::unshare(sys::CLONE_NEWUSER).step("the sandbox's user namespace")
}

/// Mounts one tmpfs of limited size behind everything that is writable, so that the limit holds for the sum.
fn storage(bytes: u64) -> Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    let options = format!("size={bytes},nr_inodes={},mode=755\0", bytes / 8192 + 1024);
    let options = std::ffi::CStr::from_bytes_with_nul(options.as_bytes()).ok();
    rustix::mount::mount("sandbox", "/tmp", "tmpfs", flags, options).step("mount the sandbox's storage")
}

/// Mounts parts of the storage at every writable place of the sandbox.
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
            // A Docker image may lack the directory; a native view always has it.
            Err(Errno::NOENT) => Ok(()),
            other => other.step(format!("mount {at}")),
        }?;
    }
    Ok(())
}

/// Opens the paths that the storage is about to cover, so that [`show`] can mount them again.
fn uncover(paths: &[String]) -> Result<Vec<OwnedFd>> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    paths.iter().map(|path| rustix::fs::open(path, flags, Mode::empty()).step(format!("open {path}"))).collect()
}

/// Shows a covered path again, at its own path in the new storage. The bind mount is read-only, like the view's mount.
fn show(path: &str, shown: &OwnedFd) -> std::io::Result<()> {
    let path = Path::new(path);
    let make = |dir: &Path| std::fs::DirBuilder::new().recursive(true).mode(0o755).create(dir);
    match FileType::from_raw_mode(rustix::fs::fstat(shown)?.st_mode) {
        FileType::Directory => make(path)?,
        kind => {
            make(path.parent().unwrap_or(Path::new("/")))?;
            if kind == FileType::Symlink {
                let target = rustix::fs::readlinkat(shown, "", Vec::new())?;
                return Ok(rustix::fs::symlink(target.as_c_str(), path)?);
            }
            std::fs::write(path, "")?;
        }
    }
    let source = format!("/proc/self/fd/{}", shown.as_raw_fd());
    Ok(rustix::mount::mount_bind_recursive(source, path)?)
}

/// Mount flags of the sandbox's `/proc`.
const PROC: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV).union(MountFlags::NOEXEC);

fn proc_tree() -> Result<()> {
    rustix::mount::mount("proc", "/proc", "proc", PROC, None).step("mount the sandbox's /proc")
}

/// Sets the bounds of [`IPC`]. The owner of an ipc namespace may do so since Linux 6.9. Before, the kernel's defaults
/// hold.
fn bound_ipc() {
    for (file, bound) in IPC {
        if std::fs::write(file, bound).is_err() {
            return;
        }
    }
}

/// Hides what in `/proc` is not the sandbox's own, and makes `/proc` read-only.
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

/// An empty read-only directory that every view has.
const EMPTY: &str = "/sys";
