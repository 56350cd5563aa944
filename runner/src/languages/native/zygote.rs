//! The zygote: forks the processes of sandboxes.

use std::os::fd::{AsFd, OwnedFd};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::{Interpreter, job};
use crate::error::{Context, Error, Result};
use crate::languages::zygote::{Child, ZygoteContext, ZygoteInfo, send_child};
use crate::procfs;
use crate::seqpacket::Packets;
use crate::sys::{self, Fork};

/// Runs the zygote, which ends with the runner.
pub(super) fn run<I: Interpreter>(control: &Packets, context: &ZygoteContext, interpreter: &I) -> ! {
    sys::die_with_parent();
    sys::default_signals();
    let _ = rustix::process::setsid();
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    sys::close_all_but(control);
    let ended = serve(control, context, interpreter);
    if let Err(e) = ended {
        crate::log(&format!("{}: {e}", I::NAME.to_string_lossy()));
    }
    sys::exit(1)
}

fn serve<I: Interpreter>(control: &Packets, context: &ZygoteContext, interpreter: &I) -> Result<()> {
    let version = interpreter.version()?;
    let null = sys::null_device().step("open /dev/null")?;
    for fd in 0..3 {
        sys::place_fd(null.as_fd(), fd).step("close the standard streams")?;
    }
    drop(null);
    sys::set_name(I::NAME);
    let home = open_pid_namespace(context)?;
    let method = ForkMethod::find(context)?;
    if context.nested {
        context.programs.load_base()?;
    }
    let (vm, data) = sizes();
    let info = ZygoteInfo { version, threads: 1, vm, data, helpers: I::HELPERS, ..ZygoteInfo::default() };
    control.send(&serde_json::to_vec(&info)?, &[]).step("greet the runner")?;
    loop {
        let Ok((request, fds)) = control.receive() else { sys::exit(0) };
        let Some(id) = request.first_chunk().map(|id| u32::from_le_bytes(*id)) else { continue };
        let forked = match &home {
            Some(home) => fork_into(home, &fds),
            None => method.fork().map_err(|e| Error::Step { step: "fork".into(), source: e }),
        };
        let answer = match forked {
            Ok(Fork::Child) => job::run(fds, context, interpreter),
            Ok(Fork::Parent { pid, pidfd }) => Ok(Child { pid, pidfd }),
            Err(Error::Step { source, .. }) => Err(source.raw_os_error().unwrap_or(libc::EIO)),
            Err(_) => Err(libc::EIO),
        };
        send_child(control, id, answer).step("answer the runner")?;
    }
}

/// The zygote's own pid namespace, to which it returns after each fork. `None` without an inner wall.
fn open_pid_namespace(context: &ZygoteContext) -> Result<Option<OwnedFd>> {
    let open = || std::fs::File::open("/proc/self/ns/pid").map(OwnedFd::from).step("open the pid namespace");
    context.nested.then(open).transpose()
}

/// Forks a process, whose parent is the runner, into the pid namespace that is the second of these descriptors.
fn fork_into(home: &OwnedFd, fds: &[OwnedFd]) -> Result<Fork> {
    let join = |namespace: &OwnedFd| {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::ProcessID)).step("join a pid namespace")
    };
    join(fds.get(1).ok_or_else(|| Error::Protocol("a request without namespaces".into()))?)?;
    let forked = sys::fork(sys::CLONE_PARENT).step("fork");
    if !matches!(forked, Ok(Fork::Child)) {
        join(home)?;
    }
    forked
}

/// How the zygote forks a process whose parent is the runner, if there is no inner wall.
enum ForkMethod {
    /// With the flag `CLONE_PARENT`.
    Parent,
    /// gVisor's kernel ignores that flag. There, a child is forked twice and orphaned, and orphans become children of
    /// the runner, too.
    Orphan,
}

impl ForkMethod {
    /// Finds out by a trial which of the two this kernel needs.
    fn find(context: &ZygoteContext) -> Result<Self> {
        if context.nested {
            return Ok(Self::Parent);
        }
        match sys::fork(sys::CLONE_PARENT).step("fork on trial")? {
            Fork::Child => sys::exit(0),
            Fork::Parent { pid, .. } => {
                let own = sys::wait(pid, true).step("wait for a trial")?;
                Ok(if own.is_some() { Self::Orphan } else { Self::Parent })
            }
        }
    }

    fn fork(&self) -> std::io::Result<Fork> {
        match self {
            Self::Parent => sys::fork(sys::CLONE_PARENT),
            Self::Orphan => orphan(),
        }
    }
}

fn orphan() -> std::io::Result<Fork> {
    let (heard, told) = rustix::pipe::pipe()?;
    match sys::fork(0)? {
        Fork::Child => match sys::fork(0) {
            Ok(Fork::Child) => Ok(Fork::Child),
            Ok(Fork::Parent { pid, .. }) => {
                let _ = rustix::io::write(&told, &pid.to_le_bytes());
                sys::exit(0)
            }
            Err(_) => sys::exit(1),
        },
        Fork::Parent { pid: middle, .. } => {
            drop(told);
            let mut pid = [0; 4];
            let got = rustix::io::read(&heard, &mut pid);
            sys::wait(middle, true)?;
            match got {
                Ok(4) => Ok(Fork::Parent { pid: i32::from_le_bytes(pid), pidfd: None }),
                _ => Err(std::io::Error::from_raw_os_error(libc::EAGAIN)),
            }
        }
    }
}

/// Address space and private writable memory of this process, in bytes.
fn sizes() -> (u64, u64) {
    let status = procfs::text("/proc/self/status").unwrap_or_default();
    let size = |key: &str| {
        let kib =
            status.lines().find_map(|line| line.strip_prefix(key)?.split_whitespace().next()?.parse::<u64>().ok());
        kib.unwrap_or(0) * 1024
    };
    (size("VmSize:"), size("VmData:"))
}
