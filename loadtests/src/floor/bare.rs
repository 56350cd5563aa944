//! The process that forks, behind a container's outer wall: `<exe> __floor SPEC PLAN`.
//!
//! It forks in the place of the runner's nursery, so that it copies the same namespaces as a sandbox does. The child
//! mounts a tmpfs and `/proc`, enters a user namespace and ends; the parent waits for that. It starts no interpreter,
//! masks nothing and exchanges no messages, so no sandbox can be cheaper.

use std::fs;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use serde::{Deserialize, Serialize};

use super::sys::{FRESH, in_child, unshare};

/// First argument of this program when it is started to fork.
pub(super) const ENTRY: &str = "__floor";

/// What to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Plan {
    /// Size of the tmpfs, as that of a sandbox's storage, in bytes.
    pub(super) disk_bytes: u64,
    /// Forks before the clock starts.
    pub(super) warm_up: u32,
    /// Forks that are timed, one after the other.
    pub(super) samples: u32,
    /// How long the rate is measured afterwards, in milliseconds; 0 skips this.
    pub(super) rate_ms: u64,
}

/// What was measured: one line of JSON on standard output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Times {
    /// Nanoseconds that each timed fork took, in order.
    pub(super) nanos: Vec<u64>,
    /// Forks per second, back to back; `None` if the rate was not measured.
    pub(super) per_second: Option<f64>,
}

/// If this process was started to fork, does that and gives the exit status. Otherwise, gives `None` at once.
///
/// Call this first in `main`, while the process has only one thread.
pub fn entry() -> Option<ExitCode> {
    let mut args = std::env::args().skip(1);
    if args.next()? != ENTRY {
        return None;
    }
    let ran = (|| {
        let (spec, plan) = (args.next().unwrap_or_default(), args.next().unwrap_or_default());
        let (spec, plan) = (serde_json::from_str(&spec)?, serde_json::from_str(&plan)?);
        Ok(thermae_runner::behind_outer_wall(spec, || measured(&plan))?)
    })();
    Some(match ran {
        Ok(status) => ExitCode::from(u8::try_from(status).unwrap_or(1)),
        Err(error) => {
            let error: anyhow::Error = error;
            eprintln!("floor: {error:#}");
            ExitCode::FAILURE
        }
    })
}

/// Measures, prints the times and returns the exit status.
fn measured(plan: &Plan) -> i32 {
    let measured = enter().and_then(|()| {
        in_child(0, || {
            enter_mount_namespace()?;
            print(&measure(plan)?)
        })
    });
    measured.unwrap_or_else(|e| {
        eprintln!("floor: {e}");
        1
    })
}

/// Puts this process into an inner user and mount namespace, and its children into an inner pid namespace, as the
/// runner does.
fn enter() -> io::Result<()> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS | libc::CLONE_NEWPID)?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("0 {uid} 1"))?;
    fs::write("/proc/self/gid_map", format!("0 {gid} 1"))?;
    Ok(mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?)
}

/// Gives this process a mount namespace of its own with the inner `/proc`, as the nursery has.
fn enter_mount_namespace() -> io::Result<()> {
    unshare(libc::CLONE_NEWNS)?;
    proc_tree()
}

fn proc_tree() -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    Ok(mount("proc", "/proc", "proc", flags, None)?)
}

fn measure(plan: &Plan) -> io::Result<Times> {
    for _ in 0..plan.warm_up {
        once(plan)?;
    }
    let nanos = (0..plan.samples).map(|_| Ok(once(plan)?.as_nanos() as u64)).collect::<io::Result<_>>()?;
    let per_second = (plan.rate_ms > 0).then(|| rate(plan)).transpose()?;
    Ok(Times { nanos, per_second })
}

fn rate(plan: &Plan) -> io::Result<f64> {
    let (begun, mut done) = (Instant::now(), 0_u32);
    while begun.elapsed() < Duration::from_millis(plan.rate_ms) {
        once(plan)?;
        done += 1;
    }
    Ok(f64::from(done) / begun.elapsed().as_secs_f64())
}

fn once(plan: &Plan) -> io::Result<Duration> {
    let begun = Instant::now();
    let status = in_child(FRESH, || {
        let options = format!("size={},nr_inodes={},mode=755\0", plan.disk_bytes, plan.disk_bytes / 8192 + 1024);
        let options = std::ffi::CStr::from_bytes_with_nul(options.as_bytes()).ok();
        mount("sandbox", "/tmp", "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, options)?;
        proc_tree()?;
        unshare(libc::CLONE_NEWUSER)
    })?;
    let took = begun.elapsed();
    if status == 0 { Ok(took) } else { Err(io::Error::other(format!("a bare fork ended with {status}"))) }
}

/// Prints one line and flushes it, because the process ends without destructors.
fn print(times: &Times) -> io::Result<()> {
    let mut line = serde_json::to_vec(times)?;
    line.push(b'\n');
    let mut out = io::stdout();
    out.write_all(&line).and_then(|()| out.flush())
}
