//! The native backend's outer wall: what a hardened Docker container gives, drawn by the runner itself.
//!
//! ```text
//! supervisor (host namespaces; makes and removes the cgroup) ── waits for ──▶ runner (pid 1 of all-new namespaces)
//! ```
//!
//! With `CAP_SYS_ADMIN` the view is built first and the runner then becomes an unprivileged user of its own, so that it
//! has no power over its mounts; as an ordinary user the same happens inside a user namespace whose capabilities are
//! dropped at the end. Either way the runner starts as it would in a container: no capabilities, `no_new_privs`.

mod cgroup;
mod layout;
mod resolve;
mod shown;
mod spec;
mod view;

use std::fs;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use rustix::process::Pid;

use crate::cpu::CpuCounter;
use crate::error::{Context, Error, Result, USERNS_ADVICE};
use crate::group::MemoryGroup;
use crate::sys::{self, Fork};

pub use shown::only_files;
pub use spec::Spec;

/// What an ordinary user's runner sees itself as. Not 0: the kernel (since 5.12) maps a root into the inner namespace
/// only for who has `CAP_SETFCAP`, and the runner has dropped everything by then.
const APPARENT_ID: u32 = 1000;

/// What the runner is told about the wall it stands in.
pub(crate) struct Outer {
    /// What could not be had, for [`crate::frames::Ready::warnings`].
    pub(crate) warnings: Vec<String>,
    /// Counts the memory of the container's group, where there is one.
    pub(crate) memory: Option<MemoryGroup>,
    /// Counts the CPU time of the container's group, where there is one.
    pub(crate) cpu: Option<CpuCounter>,
    /// Directories and files of the view that a sandbox's own storage would cover.
    pub(crate) covered: Vec<String>,
}

/// Draws the wall and calls `inside` in it, as pid 1 of the new pid namespace.
///
/// The calling process stays outside as the supervisor and returns the runner's exit status.
///
/// # Errors
/// [`Error::Forbidden`] where this machine does not allow it to this user; any failed step otherwise.
pub(crate) fn enter(spec: &Spec, inside: impl FnOnce(Outer) -> i32) -> Result<i32> {
    let privileged = rustix::process::geteuid().is_root() && has_sys_admin();
    let mut warnings = Vec::new();
    // From here on a SIGTERM waits until there is somebody to clean up.
    let signals = sys::signal_fd(&[libc::SIGCHLD, libc::SIGTERM, libc::SIGINT]).step("signalfd")?;
    let group = match cgroup::Group::make(spec) {
        Ok(group) => {
            if let Some(reason) = &group.no_quota {
                warnings.push(format!("no quota of CPU time ({reason}): a container may use every processor"));
            }
            Some(group)
        }
        Err(reason) => {
            if spec.cpu_quota.is_some() {
                warnings.push("no quota of CPU time, either: a container may use every processor".to_owned());
            }
            warnings.push(format!(
                "no control group ({reason}): memory is bounded by rlimits and a watch, not by the kernel"
            ));
            None
        }
    };
    let (mut ours, theirs) = UnixStream::pair().step("socketpair")?;
    // An ordinary user needs the user namespace first; the others then belong to it.
    let flags = if privileged { 0 } else { sys::CLONE_NEWUSER }
        | sys::CLONE_NEWNS
        | sys::CLONE_NEWPID
        | sys::CLONE_NEWNET
        | sys::CLONE_NEWIPC
        | sys::CLONE_NEWUTS;
    let ids = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let pid = match sys::fork(flags) {
        Err(source) => {
            return Err(Error::Forbidden { step: "new namespaces".into(), source, advice: USERNS_ADVICE });
        }
        Ok(Fork::Child) => {
            drop((ours, signals));
            sys::unblock_signals();
            let memory = group.as_ref().and_then(cgroup::Group::memory_counter);
            let cpu = group.as_ref().and_then(cgroup::Group::cpu_counter);
            std::mem::forget(group);
            let code = match wall_off(spec, privileged, theirs) {
                Ok(()) => inside(Outer { warnings, memory, cpu, covered: spec.covered() }),
                Err(e) => {
                    crate::log(&format!("outer wall: {e}"));
                    3
                }
            };
            sys::exit(code)
        }
        Ok(Fork::Parent { pid, .. }) => pid,
    };
    drop(theirs);
    if !privileged && let Err(e) = write_maps(pid, (APPARENT_ID, ids.0), (APPARENT_ID, ids.1), true) {
        kill(pid);
        return Err(e);
    }
    ours.write_all(b"m").step("let the runner build its view")?;
    if let Some(group) = &group
        && let Err(e) = group.admit(pid)
    {
        crate::log(&format!("control group: {e}"));
    }
    // One that could not build its view is gone: its status tells.
    let _ = ours.write_all(b"g");
    supervise(pid, &signals, group)
}

/// Waits for the runner's end and removes the group; hands a SIGTERM on.
fn supervise(pid: i32, signals: &OwnedFd, group: Option<cgroup::Group>) -> Result<i32> {
    loop {
        if let Some(reaped) = sys::wait(pid, false).step("wait for the runner")? {
            drop(group);
            return Ok(match reaped.status {
                sys::Status::Exited(code) => code,
                sys::Status::Signaled(signal) => 128 + signal,
            });
        }
        let mut fds = [rustix::event::PollFd::new(signals, rustix::event::PollFlags::IN)];
        let _ = rustix::event::poll(&mut fds, None);
        if sys::drain_signals(std::os::fd::AsFd::as_fd(signals)) {
            kill(pid);
        }
    }
}

fn kill(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

/// In the new namespaces: builds the view, gives up every power.
fn wall_off(spec: &Spec, privileged: bool, mut parent: UnixStream) -> Result<()> {
    sys::die_with_parent();
    let mut word = [0];
    parent.read_exact(&mut word).step("wait for the supervisor's maps")?;
    sys::loopback_up().step("bring loopback up")?;
    forget_connections();
    rustix::system::sethostname(b"thermae").step("set the host name")?;
    view::build(spec, privileged)?;
    // The kernel may take ten milliseconds to put a process into a control group; they passed meanwhile.
    parent.read_exact(&mut word).step("wait for the supervisor's control group")?;
    sys::unshare(sys::CLONE_NEWCGROUP).step("new cgroup namespace")?;
    sys::drop_bounding_set();
    if privileged {
        let uid = spec.uid.unwrap_or(65534);
        sys::become_user(uid, uid).step(format!("become user {uid}"))?;
    }
    sys::drop_capabilities().step("drop capabilities")?;
    // The change of user made the process undumpable, which would take its own /proc files away.
    sys::set_dumpable(true);
    sys::die_with_parent();
    crate::seccomp::confine_container()
}

/// The kernel keeps a closed connection in mind for a minute, in its network namespace: the next job could read of the last one's, and
/// not bind the same port. Inside one machine there are no late packets to wait for.
fn forget_connections() {
    if let Err(e) = fs::write("/proc/sys/net/ipv4/tcp_max_tw_buckets", "0") {
        crate::log(&format!("closed connections outlive their job: tcp_max_tw_buckets: {e}"));
    }
}

/// Writes a child's user and group maps: one id each, `inside` seen for `outside`.
pub(crate) fn write_maps(pid: i32, uid: (u32, u32), gid: (u32, u32), deny_groups: bool) -> Result<()> {
    let write = |file: &str, text: String| {
        fs::write(format!("/proc/{pid}/{file}"), text).map_err(|source| Error::Forbidden {
            step: format!("write {file}"),
            source,
            advice: USERNS_ADVICE,
        })
    };
    if deny_groups {
        write("setgroups", "deny".into())?;
    }
    write("uid_map", format!("{} {} 1", uid.0, uid.1))?;
    write("gid_map", format!("{} {} 1", gid.0, gid.1))
}

fn has_sys_admin() -> bool {
    rustix::thread::capabilities(None).is_ok_and(|c| c.effective.contains(rustix::thread::CapabilitySet::SYS_ADMIN))
}
