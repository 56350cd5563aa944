//! The runner: the program inside a container that makes sandboxes and runs programs in them.
//!
//! ```text
//! thermae-runner --connect SOCKET [--outer JSON]
//! ```
//!
//! The runner connects to its worker's socket and receives its set-up. It keeps warm interpreters (zygotes) and
//! sandboxes made ahead (spares). Each program runs in a sandbox of its own behind two walls: the outer wall is the
//! container (`outer` builds the native one), and the inner wall is the sandbox (`inner`). The runner knows no queue,
//! no tenant and no other container, and it ends with its worker. [`frames`] is the wire format between the two.

mod channel;
mod cpu;
mod engine;
mod error;
mod files;
pub mod frames;
mod group;
mod guest;
#[cfg(test)]
mod hostile;
mod inherited;
mod inner;
mod io;
mod languages;
mod limits;
mod mounts;
pub mod outer;
mod procfs;
mod runs;
mod sandboxes;
mod seccomp;
mod seqpacket;
#[allow(unsafe_code)]
mod sys;
mod watch;

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

pub use error::{Error, Result};
use frames::{Kind, Setup};
use io::Link;
pub use languages::names as languages;
pub use languages::python::Options as PythonOptions;
use outer::{Outer, Spec};

/// Runs the runner with these command-line arguments (without the program name) and returns the process's exit status.
///
/// The status is 0 after the worker left or asked the runner to end, 2 for bad usage, and 3 when the runner can't work
/// here. In a native container it is 128 + n if signal n killed the runner. The process must be single-threaded: call
/// this before any runtime is started.
pub fn main_with(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let code = Options::parse(args).and_then(start).unwrap_or_else(|e| {
        log(&e.to_string());
        if matches!(e, Error::Usage(_)) { 2 } else { 3 }
    });
    ExitCode::from(u8::try_from(code).unwrap_or(3))
}

/// The command line.
struct Options {
    /// The worker's socket.
    connect: String,
    outer: Option<Spec>,
}

impl Options {
    fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Self> {
        let usage = |text: &str| Error::Usage(format!("{text}; usage: --connect PATH [--outer JSON]"));
        let (mut connect, mut outer) = (None, None);
        let mut args = args.into_iter();
        while let Some(flag) = args.next() {
            let value = args.next().and_then(|v| v.into_string().ok());
            match (flag.to_str(), value) {
                (Some("--connect"), Some(path)) => connect = Some(path),
                (Some("--outer"), Some(json)) => {
                    outer = Some(serde_json::from_str(&json).map_err(|e| usage(&format!("--outer: {e}")))?);
                }
                _ => return Err(usage(&format!("unknown or incomplete argument {}", flag.to_string_lossy()))),
            }
        }
        Ok(Self { connect: connect.ok_or_else(|| usage("--connect is missing"))?, outer })
    }
}

fn start(Options { connect, outer }: Options) -> Result<i32> {
    inherited::set_limits()?;
    self::connect(&connect, outer.map(prepared))
}

/// Completes a specification with the user, and makes this process's forks cheaper.
fn prepared(mut spec: Spec) -> Spec {
    // If this fails, forks only take longer. It is not done in a Docker container: the container would be charged for
    // the file, and the gain there was not measured.
    let _ = sys::share_relocated_data();
    spec.choose_user();
    spec
}

/// Does something else than a runner behind a native container's outer wall, as its pid 1, and returns the exit status.
/// The process must be single-threaded.
///
/// # Errors
/// If this machine doesn't allow this user to build the wall.
pub fn behind_outer_wall(spec: Spec, work: impl FnOnce() -> i32) -> Result<i32> {
    inherited::set_limits()?;
    outer::enter(&prepared(spec), |_| work())
}

fn connect(path: &str, outer: Option<Spec>) -> Result<i32> {
    use error::Context;
    let socket = UnixStream::connect(path).step(format!("connect to {path}"))?;
    let socket_dir = std::path::Path::new(path).parent().map(|d| d.to_string_lossy().into_owned());
    match outer {
        None => Ok(serve(socket, socket_dir, None)),
        Some(spec) => {
            let last_words = socket.try_clone().step("copy the socket")?;
            let ended = outer::enter(&spec, |wall| serve(socket, None, Some(wall)));
            if let Err(e) = &ended {
                say_fatal(last_words, e);
            }
            ended
        }
    }
}

/// Works for the worker at the other end of `socket` and returns the exit status. `socket_dir` is the socket's
/// directory, which the inner wall hides; it is `None` in a native container, where it is out of sight.
fn serve(socket: UnixStream, socket_dir: Option<String>, outer: Option<Outer>) -> i32 {
    let last_words = socket.try_clone();
    let mut link = Link::new(socket);
    let started = first_frame(&mut link);
    let setup = match started {
        Ok(Some(setup)) => setup,
        Ok(None) => return 0,
        Err(e) => {
            log(&e.to_string());
            return 3;
        }
    };
    let mut engine = match engine::Engine::start(link, setup, socket_dir, outer) {
        Ok(engine) => engine,
        Err(e) => {
            log(&e.to_string());
            if let Ok(socket) = last_words {
                say_fatal(socket, &e);
            }
            return 3;
        }
    };
    engine.run().unwrap_or_else(|e| {
        log(&e.to_string());
        engine.fatal(&e);
        3
    })
}

/// Tells the worker why the runner can't work.
fn say_fatal(mut socket: UnixStream, error: &Error) {
    let mut bytes = Vec::new();
    frames::Frame::raw(Kind::Fatal, 0, error.to_string()).encode(&mut bytes);
    let _ = socket.write_all(&bytes);
}

/// Waits for the worker's set-up. `None` if the worker leaves or asks the runner to end first.
fn first_frame(link: &mut Link) -> Result<Option<Setup>> {
    use error::Context;
    loop {
        if let Some(frame) = link.next().step("frame of the worker")? {
            return match frame.kind {
                Kind::Setup => Ok(Some(frame.parse()?)),
                Kind::Shutdown => Ok(None),
                other => Err(Error::Protocol(format!("the first frame is a set-up, not {other:?}"))),
            };
        }
        if !link.fill(&mut [0; 4096]).step("read from the worker")? {
            return Ok(None);
        }
    }
}

/// Writes one line to standard error, for the people who run the worker. Never pass a job's text.
pub(crate) fn log(text: &str) {
    let _ = writeln!(std::io::stderr(), "thermae-runner: {text}");
}
