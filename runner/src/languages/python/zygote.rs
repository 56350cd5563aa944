//! Starts Python's zygotes: interpreters that have loaded the harness and modules ahead of programs. They run
//! `zygote.py`.

use std::ffi::CString;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};

use serde::Serialize;

use super::HARNESS;
use crate::error::{Context, Error, Result};
use crate::languages::zygote::{Zygote, ZygoteContext};
use crate::seqpacket::Packets;
use crate::sys::{self, Fork};

/// The zygote's program.
const SOURCE: &str = concat!(include_str!("zygote_kernel.py"), "\n", include_str!("zygote.py"));

/// The interpreter's `-c` argument: it reads the program from descriptor 4, so that the program is not on the command
/// line and `__main__` stays clean.
const BOOT: &str =
    "import os\nexec(compile(os.read(4, 1 << 20), '<thermae zygote>', 'exec'), {'__name__': 'thermae_zygote'})";

/// For the zygote only, which then removes it: symbols that are bound before a fork need not be bound in every child.
const BIND_NOW: &str = "LD_BIND_NOW=1";

/// First message to a zygote.
#[derive(Serialize)]
struct Hello<'a> {
    harness: &'a [(&'a str, &'a str)],
    common: &'a [&'a str],
    preload: &'a [String],
    workdir: &'a str,
    nested: bool,
    base: String,
    absent: String,
    seal: String,
}

/// Starts a zygote of the interpreter at `path`, which imports these modules. Modules of `common` that are missing are
/// skipped silently.
///
/// # Errors
/// If a system call fails.
pub(super) fn start(context: &ZygoteContext, path: &str, common: &[&str], preload: &[String]) -> Result<Zygote> {
    let (ours, theirs) = Packets::pair().step("zygote's socket")?;
    let source = rustix::fs::memfd_create("zygote", rustix::fs::MemfdFlags::CLOEXEC).step("memfd")?;
    let mut file = std::fs::File::from(source);
    file.write_all(SOURCE.as_bytes()).and_then(|()| std::io::Seek::rewind(&mut file)).step("write the zygote")?;
    let text = |s: &str| CString::new(s).map_err(|_| Error::Protocol("a NUL in the interpreter's path".into()));
    let python = text(path)?;
    let args = [path, "-I", "-B", "-c", BOOT].into_iter().map(text).collect::<Result<Vec<_>>>()?;
    let env = context.environment.iter().map(String::as_str).chain([BIND_NOW]).map(text).collect::<Result<Vec<_>>>()?;
    let null = sys::null_device().step("open /dev/null")?;
    match sys::fork(0).step("fork a zygote")? {
        Fork::Child => {
            let _ = become_interpreter(&null, theirs.as_fd(), file.as_fd());
            let e = sys::exec(&python, &args, &env);
            crate::log(&format!("{path}: {e}"));
            sys::exit(127)
        }
        Fork::Parent { pid, .. } => {
            let hello = Hello {
                harness: &HARNESS,
                common,
                preload,
                workdir: context.workdir(),
                nested: context.nested,
                base: hex::encode(&context.programs.base),
                absent: hex::encode(&context.programs.absent),
                seal: hex::encode(&context.programs.seal),
            };
            ours.send(&serde_json::to_vec(&hello)?, &[]).step("greet a zygote")?;
            Ok(Zygote::new(pid, ours))
        }
    }
}

/// Runs in the forked child: sets descriptors 0 to 4 as the interpreter expects them, closes all others and resets the
/// signals.
fn become_interpreter(
    null: &OwnedFd,
    control: std::os::fd::BorrowedFd<'_>,
    source: std::os::fd::BorrowedFd<'_>,
) -> std::io::Result<()> {
    sys::die_with_parent();
    sys::default_signals();
    rustix::process::setsid()?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    // Move them to high numbers first, so that none is overwritten when another is put in its place.
    let high = |fd| rustix::io::fcntl_dupfd_cloexec(fd, 10);
    let (control, source) = (high(control)?, high(source)?);
    let messages = rustix::io::fcntl_dupfd_cloexec(std::io::stderr(), 10)?;
    for (fd, to) in
        [(null.as_fd(), 0), (messages.as_fd(), 1), (messages.as_fd(), 2), (control.as_fd(), 3), (source.as_fd(), 4)]
    {
        sys::place_fd(fd, to)?;
    }
    sys::close_range(5, i32::MAX);
    // `close_range` has closed them: nothing may close these numbers again.
    std::mem::forget((control, source, messages));
    Ok(())
}
