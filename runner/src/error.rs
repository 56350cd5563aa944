//! What can keep the runner from working, with the step that failed and what a person can do about it.

use std::io;

/// Any failure of the runner itself; a job's own failures are [`crate::frames::End`]s, never these.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call of a named step failed.
    #[error("{step}: {source}")]
    Step {
        /// What was being done.
        step: String,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// The kernel forbids what the walls are made of.
    #[error("{step}: {source}; {advice}")]
    Forbidden {
        /// What was being done.
        step: String,
        /// The kernel's answer.
        #[source]
        source: io::Error,
        /// What a person can do.
        advice: &'static str,
    },
    /// The peer spoke another language than expected.
    #[error("protocol: {0}")]
    Protocol(String),
    /// Bad arguments on the command line.
    #[error("usage: {0}")]
    Usage(String),
    /// JSON from the worker or a zygote could not be read, or ours not written.
    #[error("json: {0}")]
    Json(#[from] serde_json::Error),
    /// The system-call filter could not be compiled.
    #[error("seccomp filter: {0}")]
    Filter(#[from] seccompiler::BackendError),
    /// The container's own filter could not be loaded.
    #[error("seccomp filter of the container: {0}")]
    Confine(String),
    /// The machine hands memory of crashed programs to a program of root's, and this user can't keep jobs out of that.
    #[error("core dumps: {0}")]
    CoreDumps(String),
    /// Something that jobs were to be shown holds more than files.
    #[error("{path}: {reason}")]
    Shown {
        /// Where.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The interpreter could not be found or resolved.
    #[error("interpreter {path}: {reason}")]
    Interpreter {
        /// Path as it was asked for.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// Advice for [`Error::Forbidden`] when user namespaces are off.
pub(crate) const USERNS_ADVICE: &str = "this machine forbids user namespaces to this user: run as root, or allow them \
     (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0), \
     or use the Docker backend";

/// Shorthand of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Names the step of a failed call.
pub(crate) trait Context<T> {
    /// Turns the error into [`Error::Step`].
    fn step(self, step: impl Into<String>) -> Result<T>;
}

impl<T, E: Into<io::Error>> Context<T> for std::result::Result<T, E> {
    fn step(self, step: impl Into<String>) -> Result<T> {
        self.map_err(|e| Error::Step { step: step.into(), source: e.into() })
    }
}
