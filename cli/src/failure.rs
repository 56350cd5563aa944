//! Why a command fails: exit status, stable code, message, help.
//!
//! ```text
//! error[broker_unreachable]: RabbitMQ at 127.0.0.1:5672 did not answer within 30s
//!  help: start it, or leave --amqp out to use the embedded fleet
//! ```

use std::fmt;
use std::io::Write;
use std::process::ExitCode;

use serde_json::json;
use thermae_schemas::{ErrorCode, Status};

use crate::style;

/// Exit status of every command. `docs/errors.md` says which error gives which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// The command succeeded.
    Success = 0,
    /// The code failed: it raised, exited with another status than 0, or hit a limit.
    Code = 1,
    /// The command line, a file or the job itself is wrong. Nothing ran.
    Usage = 2,
    /// The fleet failed: it was unreachable, refused the job for its own reasons, or lost it.
    Fleet = 3,
    /// Ctrl-C or SIGTERM ended the command.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

impl Exit {
    /// The exit status for an outcome.
    pub(crate) fn of(status: Status, code: Option<ErrorCode>) -> Self {
        match status {
            Status::Succeeded => Self::Success,
            Status::Failed | Status::TimedOut | Status::OutOfMemory | Status::OutputLimit | Status::Cancelled => {
                Self::Code
            }
            Status::Lost => Self::Fleet,
            Status::Rejected => match code {
                Some(code) if blames_the_job(code) => Self::Usage,
                _ => Self::Fleet,
            },
        }
    }
}

/// Whether a job that is rejected with this code must be changed. Otherwise it helps to wait, or to fix the fleet.
pub(crate) fn blames_the_job(code: ErrorCode) -> bool {
    use ErrorCode::*;
    matches!(
        code,
        MalformedJson
            | UnknownField
            | SchemaViolation
            | UnsupportedProtocol
            | JobTooLarge
            | BadPath
            | FilesTooLarge
            | UnknownRef
            | FileNotPlaced
            | UnknownPool
            | UnsupportedLanguage
            | LimitTooHigh
            | BadCapability
            | TokenTooLarge
            | TokenTooManyBlocks
            | TokenMalformed
            | TokenUnknownKey
            | TokenBadSignature
            | TokenRevoked
            | TokenForeignTenant
            | TokenNotYetValid
            | TokenExpired
            | TokenUnsupported
            | IdempotencyConflict
            | IdConflict
    )
}

/// The command line's own error codes, each with its exit status and meaning. [`ErrorCode::ALL`] has those of jobs.
pub(crate) const CODES: &[(&str, Exit, &str)] = &[
    ("usage", Exit::Usage, "An option has an invalid value."),
    (
        "file_not_read",
        Exit::Usage,
        "The program or its standard input can't be read or is not UTF-8, or a file of --file or an audit log can't be \
         read.",
    ),
    (
        "artifacts_not_written",
        Exit::Usage,
        "The folder of --artifacts can't be written, or already has a file with an artifact's name. The job has run.",
    ),
    ("unsupported_language", Exit::Usage, "No pool runs the language."),
    ("bad_capability", Exit::Usage, "The file of --capabilities is malformed."),
    ("bad_tool", Exit::Usage, "A tool's name or command can't be used."),
    ("bad_tools_file", Exit::Usage, "A tools file can't be read, or has an invalid key or value."),
    ("trust_not_recorded", Exit::Usage, "`thermae trust` can't record whether a tools file is trusted."),
    ("output_not_written", Exit::Usage, "Standard output can't be written. The command has done its work."),
    (
        "bad_jobs_file",
        Exit::Usage,
        "The file of jobs can't be read, or has lines that are not jobs. Nothing was run, unless the file changed \
         during the batch.",
    ),
    ("bad_results_file", Exit::Usage, "The file of results can't be written, or has lines that are not results."),
    ("results_in_use", Exit::Usage, "Another batch is writing to the file of results."),
    ("job_too_large", Exit::Usage, "The job is larger than RabbitMQ accepts. The job was not submitted."),
    ("bad_url", Exit::Usage, "The AMQP URL or the tenant's name is malformed."),
    ("bad_name", Exit::Usage, "The name of a pool or a session is invalid."),
    (
        "bad_token",
        Exit::Usage,
        "The token of `thermae serve` can't be read, is too short, or has characters that no header has.",
    ),
    ("bad_listen", Exit::Usage, "The address of --listen can't be used."),
    ("no_gateway_program", Exit::Usage, "`thermae key` needs the program `thermae-gateway`, which can't be started."),
    ("fix_failed", Exit::Usage, "`thermae doctor --fix` could not change a setting of the machine."),
    ("no_fleet", Exit::Usage, "The command needs a fleet that keeps running: --amqp is missing."),
    ("bad_log_options", Exit::Usage, "THERMAE_LOG, THERMAE_LOG_FORMAT or THERMAE_OTLP_ENDPOINT can't be used."),
    ("broker_unreachable", Exit::Fleet, "RabbitMQ did not answer within --connect-timeout."),
    (
        "broker_denied",
        Exit::Fleet,
        "RabbitMQ refused access: the credentials are wrong, or the user has no permission for the tenant's keys.",
    ),
    ("no_scheduler", Exit::Fleet, "No scheduler has ever run on this RabbitMQ."),
    (
        "queue_full",
        Exit::Fleet,
        "The tenant's queue is full: the waiting jobs have as many bytes as RabbitMQ allows. Try again later.",
    ),
    ("fleet_failed", Exit::Fleet, "The connection to the fleet ended before the outcome came."),
    ("embedded_fleet", Exit::Fleet, "The embedded fleet can't start on this machine."),
    (
        "artifact_not_fetched",
        Exit::Fleet,
        "An artifact of the job could not be fetched, or does not match the outcome. The job has run.",
    ),
    ("internal", Exit::Fleet, "The program itself failed."),
    ("interrupted", Exit::Interrupted, "Ctrl-C or SIGTERM ended the command."),
];

/// Why a command ended without doing what it should.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// Stable code, listed in [`CODES`].
    pub(crate) code: &'static str,
    /// What happened.
    pub(crate) message: String,
    /// What to do about it; `None` if there is no advice.
    pub(crate) help: Option<String>,
}

impl Failure {
    /// The command line or a file is wrong.
    pub(crate) fn usage(code: &'static str, message: impl fmt::Display) -> Self {
        Self::new(Exit::Usage, code, message)
    }

    /// The fleet failed.
    pub(crate) fn fleet(code: &'static str, message: impl fmt::Display) -> Self {
        Self::new(Exit::Fleet, code, message)
    }

    /// Ctrl-C or SIGTERM ended the command.
    pub(crate) fn interrupted(message: impl fmt::Display) -> Self {
        Self::new(Exit::Interrupted, "interrupted", message)
    }

    fn new(exit: Exit, code: &'static str, message: impl fmt::Display) -> Self {
        debug_assert!(CODES.iter().any(|(known, status, _)| (*known, *status) == (code, exit)), "{code} is not listed");
        Self { exit, code, message: message.to_string(), help: None }
    }

    /// Adds advice.
    pub(crate) fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    /// Reports the failure: as JSON on standard output, or as text on standard error.
    pub(crate) fn report(&self, as_json: bool) {
        if as_json {
            let error = json!({ "code": self.code, "message": self.message, "help": self.help });
            style::print(format!("{}\n", json!({ "error": error })).as_bytes());
        } else {
            style::error(self.code, &self.message, self.help.as_deref());
        }
        let _ = std::io::stdout().flush();
    }
}

/// An error and its causes in one line, such as `can't read x: permission denied`.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_blames_the_code_the_job_or_the_fleet() {
        assert_eq!(Exit::of(Status::Succeeded, None), Exit::Success);
        assert_eq!(Exit::of(Status::TimedOut, Some(ErrorCode::WallTimeout)), Exit::Code);
        assert_eq!(Exit::of(Status::Rejected, Some(ErrorCode::UnsupportedLanguage)), Exit::Usage);
        assert_eq!(Exit::of(Status::Rejected, Some(ErrorCode::NoWorker)), Exit::Fleet);
        assert_eq!(Exit::of(Status::Rejected, None), Exit::Fleet);
        assert_eq!(Exit::of(Status::Lost, Some(ErrorCode::WorkerLost)), Exit::Fleet);
    }
}
