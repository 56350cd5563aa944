//! The native backend's outer wall: the runner itself builds what a hardened Docker container provides.
//!
//! ```text
//! supervisor (host namespaces; makes and removes the cgroup) ── waits for ──▶ runner (pid 1 of all-new namespaces)
//! ```
//!
//! With `CAP_SYS_ADMIN`, the new process builds the view (the container's file tree) and then becomes an unprivileged
//! user of its own, which has no power over the mounts. As an ordinary user, it does the same inside a user namespace
//! and drops its capabilities at the end. Either way the runner starts as it would in a Docker container: with no
//! capabilities and with `no_new_privs`.

mod cgroup;
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
pub(crate) use view::COMMANDS;

/// The user and group id that an ordinary user's runner sees for itself. It is not 0: since Linux 5.12, mapping the
/// parent's root into the inner user namespace needs `CAP_SETFCAP`, and the runner has dropped all capabilities by
/// then.
const APPARENT_ID: u32 = 1000;

/// What the runner knows about the outer wall around it.
pub(crate) struct Outer {
    /// What this machine could not provide, for [`crate::frames::Ready::warnings`].
    pub(crate) warnings: Vec<String>,
    /// Memory counters of the container's control group; `None` if there is no group.
    pub(crate) memory: Option<MemoryGroup>,
    /// CPU time counter of the container's control group; `None` if there is no group.
    pub(crate) cpu: Option<CpuCounter>,
    /// Paths of the view that a sandbox's own storage would cover.
    pub(crate) covered: Vec<String>,
}

/// Builds the wall and calls `inside` behind it, as pid 1 of the new pid namespace.
///
/// The calling process stays outside as the supervisor and returns the runner's exit status.
///
/// # Errors
/// [`Error::Forbidden`] if this machine doesn't allow this user to build the wall; [`Error::Step`] for any other failed
/// step.
pub(crate) fn enter(spec: &Spec, inside: impl FnOnce(Outer) -> i32) -> Result<i32> {
    let privileged = rustix::process::geteuid().is_root() && has_sys_admin();
    let mut warnings = Vec::new();
    // From here on a SIGTERM stays pending until `supervise` handles it and can clean up.
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
    // An ordinary user also needs a user namespace, which then owns the other namespaces.
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
    // Ignore an error: a child that could not build its view has ended, and its exit status says so.
    let _ = ours.write_all(b"g");
    supervise(pid, &signals, group)
}

/// Waits for the runner's end and removes the control group. A SIGTERM or SIGINT kills the runner.
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

/// Runs in the new namespaces: builds the view and gives up every privilege.
fn wall_off(spec: &Spec, privileged: bool, mut parent: UnixStream) -> Result<()> {
    sys::die_with_parent();
    let mut word = [0];
    parent.read_exact(&mut word).step("wait for the supervisor's maps")?;
    sys::loopback_up().step("bring loopback up")?;
    forget_connections();
    rustix::system::sethostname(b"thermae").step("set the host name")?;
    view::build(spec, privileged)?;
    // The supervisor has moved this process into its control group meanwhile, which can take the kernel ten
    // milliseconds.
    parent.read_exact(&mut word).step("wait for the supervisor's control group")?;
    sys::unshare(sys::CLONE_NEWCGROUP).step("new cgroup namespace")?;
    sys::drop_bounding_set();
    if privileged {
        let uid = spec.uid.unwrap_or(65534);
        sys::become_user(uid, uid).step(format!("become user {uid}"))?;
    }
    sys::drop_capabilities().step("drop capabilities")?;
    // The change of user made the process undumpable, and its own /proc files would then belong to root.
    sys::set_dumpable(true);
    sys::die_with_parent();
    crate::seccomp::confine_container()
}

/// Turns TIME_WAIT off. The kernel would keep a closed connection for a minute in the network namespace, which all
/// sandboxes of the container share: the next job could see the last job's connections, and could not bind the same
/// ports. TIME_WAIT guards against late packets, and there are none within one machine.
fn forget_connections() {
    if let Err(e) = fs::write("/proc/sys/net/ipv4/tcp_max_tw_buckets", "0") {
        crate::log(&format!("closed connections outlive their job: tcp_max_tw_buckets: {e}"));
    }
}

/// Writes a process's user and group maps with one id each. A pair is the id inside the namespace and the id outside.
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
