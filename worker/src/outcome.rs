//! From the runner's report about a run to the outcome that the client reads.

use std::time::Duration;

use base64::Engine;
use thermae_runner::frames::{CodeError, End, Exit};
use thermae_schemas::{ErrorCode, ErrorInfo, Outcome, SessionState, Status, Usage, WorkerId};

use crate::artifacts::Gathered;
use crate::bundle::{self, Bundle};
use crate::fit::fit;
use crate::options::{Bounds, Granted};
pub(crate) use crate::told::Told;

/// What a run printed, displayed and left, byte for byte.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// What was displayed, in order.
    pub displays: Vec<Bundle>,
    /// How many more things were displayed, beyond the bounds.
    pub left_out: u64,
    /// The files that the run left.
    pub files: Gathered,
}

/// What an outcome reports besides how the run ended.
#[derive(Debug)]
pub(crate) struct About<'a> {
    /// The limits that applied.
    pub limits: &'a Granted,
    /// The worker that ran the job.
    pub worker: &'a WorkerId,
    /// Bounds on what the job could display and leave behind.
    pub bounds: &'a Bounds,
    /// Number of tool calls that passed the gate.
    pub tool_calls: u32,
    /// How long the job waited for answers to tool calls.
    pub tool_wait: Duration,
    /// The session that the job ran in.
    pub session: Option<SessionState>,
    /// What the worker notes about the job's tools.
    pub notes: &'a [String],
}

/// Makes the outcome of a run whose end the runner has reported.
pub(crate) fn of_exit(exit: Exit, collected: Collected, about: About<'_>) -> Told {
    let (status, error) = judge(&exit, &about);
    let mut outcome = Outcome::new(status);
    outcome.error = error;
    outcome.notes = exit.notes;
    match exit.end {
        End::Exited { code } => outcome.exit_code = Some(code),
        End::Raised => outcome.exit_code = Some(1),
        End::Signaled { signal } => outcome.signal = Some(signal),
        _ => {}
    }
    outcome.usage = Usage {
        wall_ms: ms(exit.usage.wall_us),
        cpu_ms: ms(exit.usage.cpu_us),
        memory_bytes: exit.usage.memory_bytes,
        files_bytes: exit.usage.files_bytes,
        output_bytes: exit.usage.output_bytes,
        tool_calls: about.tool_calls,
        paused_ms: exit.usage.paused_ms as f64,
    };
    tell(outcome, exit.value, collected, about)
}

/// Adds what is known of a run to its outcome.
pub(crate) fn tell(mut outcome: Outcome, value: Option<Bundle>, collected: Collected, about: About<'_>) -> Told {
    (outcome.stdout, outcome.stdout_base64) = text(collected.stdout);
    (outcome.stderr, outcome.stderr_base64) = text(collected.stderr);
    let mut displays = collected.displays;
    if collected.left_out > 0 {
        let Bounds { displays: most, display_bytes, .. } = about.bounds;
        displays.push(bundle::note(&format!(
            "{} more not shown: a job may display at most {most} things of {} bytes together; the pool's operator can \
             raise bounds.displays and bounds.display_bytes",
            collected.left_out, display_bytes.0
        )));
    }
    outcome.artifacts = collected.files.artifacts;
    outcome.artifact_map = collected.files.map;
    outcome.artifacts_left_out = collected.files.left_out;
    outcome.artifacts_left_out_more = collected.files.left_out_more;
    outcome.limits = Some(about.limits.used());
    outcome.usage.tool_calls = about.tool_calls;
    outcome.notes.splice(0..0, about.notes.iter().cloned());
    outcome.session = about.session;
    outcome.worker = Some(about.worker.clone());
    let mut told = Told { outcome, value, displays };
    fit(&mut told, about.bounds.outcome());
    told
}

/// Bytes as text. If they are not UTF-8, the exact bytes in base64, too.
fn text(bytes: Vec<u8>) -> (String, Option<String>) {
    match String::from_utf8(bytes) {
        Ok(text) => (text, None),
        Err(e) => {
            let exact = base64::engine::general_purpose::STANDARD.encode(e.as_bytes());
            (String::from_utf8_lossy(e.as_bytes()).into_owned(), Some(exact))
        }
    }
}

fn ms(us: u64) -> f64 {
    us as f64 / 1000.0
}

/// What is left of a session that was killed with the code of a job.
pub(crate) fn what_is_left(session: &SessionState) -> &'static str {
    if session.checkpointed {
        "The session's variables and processes are lost. Its files are kept, and the next session of its name begins with \
         them."
    } else {
        "The session's variables, processes and files are lost, except for the files of an earlier checkpoint."
    }
}

fn judge(exit: &Exit, about: &About<'_>) -> (Status, Option<ErrorInfo>) {
    let About { limits, tool_wait, session, .. } = about;
    let error = |code, message: String| Some(with(ErrorInfo::new(code, message), exit.error.as_ref()));
    let seconds = |ms: u64| ms as f64 / 1000.0;
    let run = &limits.run;
    match &exit.end {
        End::Exited { code: 0 } => (Status::Succeeded, None),
        End::Exited { code } => {
            (Status::Failed, error(ErrorCode::CodeExited, format!("The code exited with status {code}.")))
        }
        End::Raised => {
            let what = exit.error.as_ref().map_or_else(|| "an exception".to_owned(), headline);
            (Status::Failed, error(ErrorCode::CodeRaised, format!("The code raised {what}")))
        }
        End::Signaled { signal } => {
            let message = format!("Signal {signal} ({}) ended the code.", signal_name(*signal));
            (Status::Failed, error(ErrorCode::CodeKilled, message))
        }
        End::TimedOut { limit, soft } if limit == "cpu" => {
            let message = format!(
                "The code used more than its {} s of CPU time and was {}. Make it do less, or raise limits.cpu_ms.",
                seconds(run.cpu_ms),
                if *soft { "interrupted" } else { "killed" }
            );
            (Status::TimedOut, error(ErrorCode::CpuTimeout, message))
        }
        End::TimedOut { soft, .. } => {
            let wall = seconds(run.wall_ms);
            let how = if *soft { "interrupted" } else { "killed" };
            let paused = Duration::from_millis(exit.usage.paused_ms);
            let waited = tool_wait.saturating_sub(paused).as_secs_f64();
            let message = if paused >= Duration::from_millis(run.pause_ms) {
                format!(
                    "The code waited for tools for longer than its {} s, and then ran or waited for more than its {wall} \
                     s, and was {how}. Answer faster, or raise limits.pause_ms.",
                    seconds(run.pause_ms)
                )
            } else if waited < wall / 20.0 {
                format!(
                    "The code ran for more than its {wall} s and was {how}. Make it do less, or raise limits.wall_ms."
                )
            } else {
                format!(
                    "The code ran for more than its {wall} s and was {how}. For {waited:.1} s of that time, a tool \
                     call waited for its answer while the code did something else. Answer faster, or raise limits.wall_ms."
                )
            };
            let message = match session.as_ref().filter(|_| !soft && !exit.session_lives) {
                Some(session) => format!("{message} {}", what_is_left(session)),
                None => message,
            };
            (Status::TimedOut, error(ErrorCode::WallTimeout, message))
        }
        End::OutOfMemory => {
            let message = format!(
                "The code needed more than its {} of memory. Make it hold less at once, or raise limits.memory_bytes.",
                amount(run.memory_bytes)
            );
            (Status::OutOfMemory, error(ErrorCode::OutOfMemory, message))
        }
        End::OutputLimit => {
            let message = format!(
                "The code printed more than {} bytes; what came before is kept. Print less, or raise limits.output_bytes.",
                run.output_bytes
            );
            (Status::OutputLimit, error(ErrorCode::OutputLimit, message))
        }
        End::Killed | End::Interrupted => {
            let message = match session {
                None => "The job was cancelled while it ran.".to_owned(),
                Some(_) if exit.session_lives => {
                    "The job was cancelled, and its code interrupted. The session keeps its variables and files."
                        .to_owned()
                }
                Some(session) if exit.end == End::Interrupted => format!(
                    "The job was cancelled, and its code ended the session's process when it was interrupted. {}",
                    what_is_left(session)
                ),
                Some(session) => format!(
                    "The job was cancelled, and its code did not end within the {} s after its interrupt, so it was killed \
                     with the session. {}",
                    seconds(run.grace_ms),
                    what_is_left(session)
                ),
            };
            (Status::Cancelled, error(ErrorCode::Cancelled, message))
        }
        End::NoSession => {
            let message = "The session and its variables were lost with the sandbox. Nothing of this job ran.";
            (Status::Rejected, error(ErrorCode::SessionLost, message.into()))
        }
        End::OtherLanguage { language } => {
            let message = format!("The session runs programs in {language}. Nothing of this job ran.");
            (Status::Rejected, error(ErrorCode::UnsupportedLanguage, message))
        }
        End::BadFile { path, reason } => {
            let message = format!("The file {path} could not be placed: {reason}. Nothing of the code ran.");
            (Status::Rejected, error(ErrorCode::FileNotPlaced, message))
        }
        // No job ends in these ways: they are of what runs beside a session's program.
        End::SessionEnded | End::Failed(_) => {
            (Status::Failed, error(ErrorCode::CodeKilled, "The session ended under the code.".into()))
        }
        End::NotStarted { reason } => {
            let message = format!("The sandbox could not be made: {reason}. Nothing of the code ran.");
            (Status::Rejected, error(ErrorCode::SandboxFailed, message))
        }
    }
}

/// An amount in the largest unit of which it is whole.
fn amount(bytes: u64) -> String {
    match bytes {
        bytes if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        bytes if bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        bytes => format!("{bytes} bytes"),
    }
}

fn headline(error: &CodeError) -> String {
    let first = error.message.lines().next().unwrap_or_default();
    let first: String = first.chars().take(300).collect();
    if first.is_empty() { format!("{}.", error.kind) } else { format!("{}: {first}", error.kind) }
}

fn with(mut info: ErrorInfo, error: Option<&CodeError>) -> ErrorInfo {
    if let Some(error) = error {
        info.exception = Some(error.kind.clone());
        info.traceback = Some(error.traceback.clone());
    }
    info
}

/// Name of a signal that ended the code.
fn signal_name(signal: i32) -> &'static str {
    match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        10 => "SIGUSR1",
        11 => "SIGSEGV",
        12 => "SIGUSR2",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        31 => "SIGSYS: a forbidden system call",
        _ => "unnamed",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use thermae_runner::frames;
    use thermae_schemas::LimitRequest;

    use super::*;
    use crate::options::LimitOptions;

    fn outcome(end: End, stdout: &[u8]) -> Outcome {
        told(end, stdout, Duration::ZERO).outcome
    }

    fn told(end: End, stdout: &[u8], tool_wait: Duration) -> Told {
        let limits = LimitOptions::default().grant(&LimitRequest::default()).unwrap();
        let worker = WorkerId::new("w").unwrap();
        let exit = Exit {
            end,
            error: None,
            value: None,
            usage: frames::Usage { wall_us: 1500, ..Default::default() },
            phases: BTreeMap::new(),
            warm: true,
            session_lives: false,
            left_out: frames::Omissions::default(),
            notes: vec!["a note".to_owned()],
        };
        let bounds = Bounds::default();
        let about = About {
            limits: &limits,
            worker: &worker,
            bounds: &bounds,
            tool_calls: 2,
            tool_wait,
            session: None,
            notes: &["a note about a tool".to_owned()],
        };
        of_exit(exit, Collected { stdout: stdout.to_vec(), ..Default::default() }, about)
    }

    #[test]
    fn notes_about_tools_come_before_those_about_the_code() {
        assert_eq!(outcome(End::Exited { code: 0 }, b"").notes, ["a note about a tool", "a note"]);
        assert_eq!(outcome(End::Killed, b"").notes, ["a note about a tool", "a note"]);
    }

    #[test]
    fn output_is_exact_to_the_byte() {
        let clean = outcome(End::Exited { code: 0 }, "a\r\n\n\u{fffd}é".as_bytes());
        assert_eq!((clean.stdout.as_str(), clean.stdout_base64), ("a\r\n\n\u{fffd}é", None));
        let odd = outcome(End::Exited { code: 0 }, b"a\xff\0");
        assert_eq!(odd.stdout, "a\u{fffd}\0");
        assert_eq!(odd.stdout_base64.as_deref(), Some("Yf8A"));
        assert_eq!((odd.usage.wall_ms, odd.usage.tool_calls), (1.5, 2));
    }

    #[test]
    fn every_end_has_one_status_and_only_what_never_ran_is_safe_to_retry() {
        let timed_out = |limit: &str| End::TimedOut { limit: limit.into(), soft: false };
        for (end, status, code) in [
            (End::Exited { code: 3 }, Status::Failed, ErrorCode::CodeExited),
            (End::Raised, Status::Failed, ErrorCode::CodeRaised),
            (End::Signaled { signal: 11 }, Status::Failed, ErrorCode::CodeKilled),
            (timed_out("wall"), Status::TimedOut, ErrorCode::WallTimeout),
            (timed_out("cpu"), Status::TimedOut, ErrorCode::CpuTimeout),
            (End::OutOfMemory, Status::OutOfMemory, ErrorCode::OutOfMemory),
            (End::OutputLimit, Status::OutputLimit, ErrorCode::OutputLimit),
            (End::Killed, Status::Cancelled, ErrorCode::Cancelled),
            (End::Interrupted, Status::Cancelled, ErrorCode::Cancelled),
            (End::NoSession, Status::Rejected, ErrorCode::SessionLost),
            (End::NotStarted { reason: "x".into() }, Status::Rejected, ErrorCode::SandboxFailed),
            (End::OtherLanguage { language: "x".into() }, Status::Rejected, ErrorCode::UnsupportedLanguage),
            (End::BadFile { path: "a".into(), reason: "x".into() }, Status::Rejected, ErrorCode::FileNotPlaced),
        ] {
            let made = outcome(end, b"");
            let error = made.error.unwrap();
            assert_eq!((made.status, error.code), (status, code));
            let retry = status == Status::Rejected
                && ![ErrorCode::FileNotPlaced, ErrorCode::UnsupportedLanguage].contains(&code);
            assert_eq!(error.safe_to_retry, retry, "{code:?}");
        }
        assert_eq!(outcome(End::Exited { code: 0 }, b"").error, None);
    }

    #[test]
    fn a_wall_clock_that_tools_used_up_is_not_blamed_on_the_code() {
        let message = |waited| {
            let end = End::TimedOut { limit: "wall".into(), soft: false };
            told(end, b"", Duration::from_millis(waited)).outcome.error.unwrap().message
        };
        assert!(message(29_000).contains("For 29.0 s of that time, a tool call waited"), "{}", message(29_000));
        assert!(message(0).contains("Make it do less"));
    }
}
