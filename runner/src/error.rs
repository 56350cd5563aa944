//! Errors that keep the runner from working. Each names the step that failed or says what a person can do about it.

use std::io;

/// A failure of the runner itself. A job's own failures are [`crate::frames::End`]s, never these errors.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed during the named step.
    #[error("{step}: {source}")]
    Step {
        /// What was being done.
        step: String,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// The kernel forbids this user the namespaces that the walls are made of.
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
    /// Another process (the worker, the nursery, a zygote) broke the protocol or ended unexpectedly.
    #[error("protocol: {0}")]
    Protocol(String),
    /// Bad arguments on the command line.
    #[error("usage: {0}")]
    Usage(String),
    /// JSON from the command line or another process could not be read, or a message could not be written as JSON.
    #[error("json: {0}")]
    Json(#[from] serde_json::Error),
    /// The system-call filter could not be compiled.
    #[error("seccomp filter: {0}")]
    Filter(#[from] seccompiler::BackendError),
    /// The container's own system-call filter could not be loaded.
    #[error("seccomp filter of the container: {0}")]
    Confine(String),
    /// The machine hands the memory of crashed programs to a handler that runs as root, and this user can't exempt
    /// jobs.
    #[error("core dumps: {0}")]
    CoreDumps(String),
    /// A path that jobs would be shown holds something other than files and folders, or could not be looked through.
    #[error("{path}: {reason}")]
    Shown {
        /// The path in question.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The interpreter could not be found or resolved.
    #[error("interpreter {path}: {reason}")]
    Interpreter {
        /// Its path, as it was asked for or found.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// Advice for [`Error::Forbidden`] when user namespaces are off.
pub(crate) const USERNS_ADVICE: &str = "this machine forbids user namespaces to this user: run as root, or allow them \
     (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0), \
     or use the Docker backend";

/// Result type of this crate.
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
