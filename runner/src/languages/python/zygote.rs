//! Starts zygotes (the warm interpreters that jobs' processes are forked from) and receives their answers. `zygote.py`
//! is what a zygote does.

use std::ffi::CString;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::HARNESS;
use crate::error::{Context, Error, Result};
use crate::seccomp::Programs;
use crate::seqpacket::Packets;
use crate::sys::{self, Fork};

/// The zygote's program.
const SOURCE: &str = include_str!("zygote.py");

/// The interpreter's `-c` argument: it reads the program from descriptor 4, so that the program is not on the command
/// line and `__main__` stays clean.
const BOOT: &str =
    "import os\nexec(compile(os.read(4, 1 << 20), '<thermae zygote>', 'exec'), {'__name__': 'thermae_zygote'})";

/// Environment of zygotes, and so of every job. Numeric libraries get one thread each, because a zygote must be
/// single-threaded to be forked from.
const ENVIRONMENT: [&str; 17] = [
    "PATH=/usr/local/bin:/usr/bin:/bin",
    "HOME=/workspace",
    "USER=sandbox",
    "LOGNAME=sandbox",
    "TMPDIR=/tmp",
    "LANG=C.UTF-8",
    "TZ=UTC",
    // Writable in a zygote, too: libraries without a writable cache directory complain on standard error.
    "XDG_CACHE_HOME=/tmp/.cache",
    "MPLBACKEND=Agg",
    "MPLCONFIGDIR=/tmp/matplotlib",
    "PYTHONDONTWRITEBYTECODE=1",
    "OPENBLAS_NUM_THREADS=1",
    "OMP_NUM_THREADS=1",
    "MKL_NUM_THREADS=1",
    "NUMEXPR_NUM_THREADS=1",
    "ARROW_DEFAULT_MEMORY_POOL=system",
    // For the zygote only, which then removes it: symbols that are bound before a fork need not be bound in every
    // child.
    "LD_BIND_NOW=1",
];

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

/// A zygote's first message: it is ready to be forked from.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Hatched {
    /// Version of Python.
    pub(crate) python: String,
    /// Modules of the preload list that it could import.
    pub(crate) preloaded: Vec<String>,
    /// Modules that it could not import, with the reason.
    pub(crate) missing: Vec<String>,
    /// Number of its threads. With more than one, its children may deadlock.
    pub(crate) threads: u32,
    /// Its address space, in bytes.
    pub(crate) vm: u64,
    /// Its writable private memory, in bytes.
    pub(crate) data: u64,
}

/// One warm interpreter.
pub(crate) struct Zygote {
    /// Its process id, to kill and to reap it.
    pub(crate) pid: i32,
    /// The runner's end of the socket to it.
    pub(crate) control: Packets,
    /// When it was started or last answered.
    pub(crate) heard: Instant,
    /// Its first message; `None` until it is ready.
    pub(crate) hatched: Option<Hatched>,
}

/// What all zygotes of a container share.
pub(crate) struct Nest<'a> {
    /// Path of the interpreter.
    pub(crate) python: &'a str,
    /// Whether there is an inner wall to fork into.
    pub(crate) nested: bool,
    /// The system-call filters that zygotes and their children load.
    pub(crate) programs: &'a Programs,
}

impl Nest<'_> {
    /// The directory in which programs start. With an inner wall, every sandbox has a writable `/workspace` if the view
    /// has the directory. Without one, it may be read-only; programs then start in `/tmp`.
    fn workdir(&self) -> &'static str {
        let writable = || rustix::fs::access("/workspace", rustix::fs::Access::WRITE_OK).is_ok();
        if std::path::Path::new("/workspace").is_dir() && (self.nested || writable()) { "/workspace" } else { "/tmp" }
    }

    /// Starts a zygote that imports these modules. It sends [`Hatched`] when it is ready. Modules of `common` that are
    /// missing are skipped silently.
    pub(crate) fn start(&self, common: &[&str], preload: &[String]) -> Result<Zygote> {
        let (ours, theirs) = Packets::pair().step("zygote's socket")?;
        let source = rustix::fs::memfd_create("zygote", rustix::fs::MemfdFlags::CLOEXEC).step("memfd")?;
        let mut file = std::fs::File::from(source);
        file.write_all(SOURCE.as_bytes()).and_then(|()| std::io::Seek::rewind(&mut file)).step("write the zygote")?;
        let text = |s: &str| CString::new(s).map_err(|_| Error::Protocol("a NUL in the interpreter's path".into()));
        let python = text(self.python)?;
        let args = [self.python, "-I", "-B", "-c", BOOT].into_iter().map(text).collect::<Result<Vec<_>>>()?;
        let env = ENVIRONMENT.into_iter().map(text).collect::<Result<Vec<_>>>()?;
        let null = sys::null_device().step("open /dev/null")?;
        match sys::fork(0).step("fork a zygote")? {
            Fork::Child => {
                let _ = become_interpreter(&null, theirs.as_fd(), file.as_fd());
                let e = sys::exec(&python, &args, &env);
                crate::log(&format!("{}: {e}", self.python));
                sys::exit(127)
            }
            Fork::Parent { pid, .. } => {
                let hello = Hello {
                    harness: &HARNESS,
                    common,
                    preload,
                    workdir: self.workdir(),
                    nested: self.nested,
                    base: hex::encode(&self.programs.base),
                    absent: hex::encode(&self.programs.absent),
                    seal: hex::encode(&self.programs.seal),
                };
                ours.send(&serde_json::to_vec(&hello)?, &[]).step("greet a zygote")?;
                Ok(Zygote { pid, control: ours, heard: Instant::now(), hatched: None })
            }
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

/// A process that a zygote forked.
#[derive(Debug)]
pub(crate) struct Child {
    /// Its pid in the zygote's pid namespace. The runner sees the same number only without an inner wall.
    pub(crate) pid: i32,
    /// `None` if the kernel gives none (gVisor).
    pub(crate) pidfd: Option<OwnedFd>,
}

/// Receives a zygote's answer to a request: the request's number, then the child or an errno. `None` if the message is
/// too short.
pub(crate) fn receive_child(from: &Packets) -> std::io::Result<Option<(u32, Result<Child, i32>)>> {
    let (bytes, mut fds) = from.receive()?;
    let ([id, errno, pid, ..], _) = bytes.as_chunks() else { return Ok(None) };
    let errno = i32::from_le_bytes(*errno);
    let child = Child { pid: i32::from_le_bytes(*pid), pidfd: fds.pop() };
    Ok(Some((u32::from_le_bytes(*id), if errno == 0 { Ok(child) } else { Err(errno) })))
}
