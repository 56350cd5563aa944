//! The process of one sandbox: its way into the sandbox, and what it becomes there.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::channel::{Channel, Program};
use super::{session, shell};
use crate::error::{Context, Result};
use crate::languages::zygote::ZygoteContext;
use crate::sys;

/// Exit status of a process that could not enter its sandbox.
const FAILED: i32 = 70;

/// What the namespaces are that come with a request, after the channel and the pid namespace.
const JOINS: [LinkNameSpaceType; 4] = [
    LinkNameSpaceType::Mount,
    LinkNameSpaceType::InterProcessCommunication,
    LinkNameSpaceType::HostNameAndNISDomainName,
    LinkNameSpaceType::User,
];

/// Runs in the forked child. `fds` are the descriptors of the request.
pub(super) fn run(mut fds: Vec<OwnedFd>, context: &ZygoteContext, bash: &str) -> ! {
    if fds.is_empty() {
        sys::exit(FAILED);
    }
    let mut channel = Channel::new(fds.remove(0));
    if let Err(e) = enter(&channel, fds, context) {
        let _ = channel.failed(&e.to_string());
        sys::exit(FAILED);
    }
    let program = channel.ready().and_then(|()| channel.receive());
    let Ok(program) = program else { sys::exit(FAILED) };
    let error =
        if program.session { session::begin(&mut channel, program, bash) } else { fresh(&mut channel, &program, bash) };
    let _ = channel.raised(error.to_string());
    sys::exit(1)
}

/// Joins the sandbox, and gives up everything that only joining it needed.
fn enter(channel: &Channel, fds: Vec<OwnedFd>, context: &ZygoteContext) -> Result<()> {
    let _ = rustix::process::setsid();
    for (fd, kind) in fds.iter().skip(1).zip(JOINS) {
        move_into_link_name_space(fd.as_fd(), Some(kind)).step(format!("join the {kind:?} namespace"))?;
    }
    rustix::process::chdir(context.workdir()).step("enter the working directory")?;
    if !context.nested {
        // The keeper's files are opened by way of its `/proc`.
        sys::set_dumpable(true);
    }
    sys::drop_bounding_set();
    sys::drop_capabilities().step("drop capabilities")?;
    drop(fds);
    sys::close_all_but(channel);
    if !context.nested {
        // With an inner wall, the zygote has loaded these already.
        context.programs.load_base()?;
    }
    context.programs.load_seal()
}

/// Becomes bash with a fresh program. Returns only if that fails.
fn fresh(channel: &mut Channel, program: &Program, bash: &str) -> io::Error {
    let mut become_bash = || {
        channel.started()?;
        let command = shell::command(program, bash)?;
        for (fd, to) in program.streams.iter().zip(0..) {
            sys::place_fd(fd.as_fd(), to)?;
        }
        Ok(command.exec())
    };
    become_bash().unwrap_or_else(|e: io::Error| e)
}
