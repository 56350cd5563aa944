//! A process in a sandbox: its way into the sandbox, and what it becomes there.

use std::os::fd::{AsFd, OwnedFd};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::channel::{Channel, Order};
use super::{Interpreter, Program};
use crate::error::{Context, Result};
use crate::frames::Work;
use crate::guest;
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
pub(super) fn run(mut fds: Vec<OwnedFd>, context: &ZygoteContext, interpreter: &impl Interpreter) -> ! {
    if fds.is_empty() {
        sys::exit(FAILED);
    }
    let mut channel = Channel::new(fds.remove(0));
    if let Err(e) = enter(&channel, fds, context) {
        let _ = channel.failed(&e.to_string());
        sys::exit(FAILED);
    }
    let order = channel.ready().and_then(|()| channel.order());
    match order {
        Ok((Order::Run(program), streams)) => {
            // A session's shell opens files of this process by way of `/proc`.
            sys::set_dumpable(true);
            let error = interpreter.become_program(&mut channel, Program { streams, ..program }, context);
            let _ = channel.raised(error.to_string());
            sys::exit(1)
        }
        Ok((Order::Beside { work }, streams)) => beside(&mut channel, &work, streams, &context.environment),
        Err(_) => sys::exit(FAILED),
    }
}

/// Does something beside a session's program.
fn beside(channel: &mut Channel, work: &Work, streams: Vec<OwnedFd>, environment: &[String]) -> ! {
    let told = channel.started().and_then(|()| match guest::run(work, streams, environment) {
        Ok(value) => channel.finished(value.as_deref()),
        Err(failure) => channel.refused(&failure).and(Err(std::io::ErrorKind::Other.into())),
    });
    sys::exit(i32::from(told.is_err()))
}

/// Joins the sandbox, and gives up everything that only joining it needed.
fn enter(channel: &Channel, fds: Vec<OwnedFd>, context: &ZygoteContext) -> Result<()> {
    let _ = rustix::process::setsid();
    if context.nested {
        // What runs beside a session's program is in reach of the program, which must not read or change this process.
        // The runner can't write this file once the process is closed: if memory runs out, a job is to be killed first.
        let _ = std::fs::write("/proc/self/oom_score_adj", "900");
        sys::set_dumpable(false);
    }
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
