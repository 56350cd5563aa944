//! Hides what a Docker container shows beyond the native view, once per container, in the nursery's mount namespace.

use std::fs;
use std::path::Path;

use rustix::io::Errno;
use rustix::mount::MountFlags;

use crate::error::{Context, Result};
use crate::mounts;

/// Devices that programs need.
const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];

/// Covers `/dev`, `/sys`, `/run` and the socket's directory, and makes all mounts read-only.
pub(super) fn conceal(socket_dir: Option<&str>) -> Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    let empty = |at: &str, size: &str| {
        let options = std::ffi::CString::new(format!("{size},mode=755")).unwrap_or_default();
        match rustix::mount::mount("none", at, "tmpfs", flags, options.as_c_str()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(e) => Err(e).step(format!("cover {at}")),
        }
    };
    // The new /dev is made at /tmp, while the old one still shows its devices. Every sandbox covers /tmp later with its
    // storage.
    empty("/tmp", "size=64k")?;
    for name in DEVICES {
        let (from, to) = (format!("/dev/{name}"), format!("/tmp/{name}"));
        fs::write(&to, "").step("device mount point")?;
        rustix::mount::mount_bind(&from, &to).step(format!("show {from}"))?;
    }
    fs::create_dir("/tmp/shm").step("make /dev/shm")?;
    for (name, target) in [("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")] {
        std::os::unix::fs::symlink(target, format!("/tmp/{name}")).step("link in /dev")?;
    }
    rustix::mount::mount_bind_recursive("/tmp", "/dev").step("cover /dev")?;
    for at in ["/sys", "/run"].into_iter().chain(socket_dir.filter(|d| Path::new(d) != Path::new("/"))) {
        empty(at, "size=4k")?;
    }
    mounts::make_read_only(|at| mounts::at_or_below(at, "/proc")).step("make the view read-only")
}
