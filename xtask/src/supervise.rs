//! Supervises steps and their processes: it adopts orphans, turns signals into a flag, and ends steps that take too
//! long. Tasks that use it call [`begin`] first.

use std::{
    fs::File,
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::process;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static ADOPTS: AtomicBool = AtomicBool::new(false);

/// The processes that are waited for: those of the steps that run, and of commands.
static STEPS: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// How long a step's output is still read after its own process has ended. A process that it left may hold the pipe
/// open.
const DRAIN: Duration = Duration::from_secs(2);

/// How often dead adopted processes are reaped while a step runs.
const REAP_EVERY: Duration = Duration::from_millis(100);

/// Makes this process adopt every orphan among its descendants, so that whatever a test leaves behind is found. Also
/// turns SIGINT, SIGTERM and SIGHUP into a flag, so that everything is stopped in order.
pub(crate) fn begin() -> Result<()> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).context("become a subreaper")?;
    ADOPTS.store(true, Ordering::SeqCst);
    std::thread::Builder::new().name("signals".to_owned()).spawn(|| {
        let listened = tokio::runtime::Builder::new_current_thread().enable_all().build().and_then(|runtime| {
            runtime.block_on(async {
                use tokio::signal::unix::{SignalKind, signal};
                let mut interrupt = signal(SignalKind::interrupt())?;
                let mut terminate = signal(SignalKind::terminate())?;
                let mut hangup = signal(SignalKind::hangup())?;
                loop {
                    tokio::select! {
                        _ = interrupt.recv() => {}
                        _ = terminate.recv() => {}
                        _ = hangup.recv() => {}
                    }
                    if !INTERRUPTED.swap(true, Ordering::SeqCst) {
                        eprintln!("interrupted: stopping what was started");
                    }
                }
            })
        });
        let listened: std::io::Result<()> = listened;
        if let Err(error) = listened {
            eprintln!("signals are not listened for: {error}");
        }
    })?;
    Ok(())
}

/// Whether SIGINT, SIGTERM or SIGHUP has arrived.
pub(crate) fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

/// How a step ended.
#[derive(Debug)]
pub(crate) struct Finished {
    /// Why the step failed; `None` if it succeeded.
    pub(crate) failure: Option<String>,
    /// The file with everything that the step printed.
    pub(crate) log: PathBuf,
}

/// Runs one step. Its output goes to a log, and line by line to `on_line`. After `limit`, or when the run is
/// interrupted, the step is ended with all its descendants.
pub(crate) fn run(
    mut command: Command,
    log: &Path,
    limit: Duration,
    mut on_line: impl FnMut(&str),
) -> Result<Finished> {
    if let Some(dir) = log.parent() {
        std::fs::create_dir_all(dir)?;
    }
    let mut file = File::create(log).with_context(|| format!("create {}", log.display()))?;
    let (reader, writer) = std::io::pipe().context("make a pipe")?;
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer).process_group(0);
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
    let (mut child, _counted) = spawn(&mut command)?;
    // The command holds the write end of the pipe, and would keep it open.
    drop(command);

    let (sender, lines) = mpsc::channel::<String>();
    std::thread::Builder::new().name("step output".to_owned()).spawn(move || {
        let mut reader = BufReader::new(reader);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
            if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
            line.clear();
        }
    })?;

    let end = Instant::now() + limit;
    let mut stopped: Option<String> = None;
    let mut ended: Option<(ExitStatus, Instant)> = None;
    let mut reaped = Instant::now();
    loop {
        if reaped.elapsed() > REAP_EVERY {
            reap_adopted();
            reaped = Instant::now();
        }
        match lines.recv_timeout(Duration::from_millis(50)) {
            Ok(line) => {
                file.write_all(line.as_bytes())?;
                on_line(line.trim_end_matches(['\n', '\r']));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) if ended.is_some() => break,
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(Duration::from_millis(20)),
        }
        if ended.is_none() {
            ended = child.try_wait()?.map(|status| (status, Instant::now()));
        }
        match ended {
            Some((_, at)) if at.elapsed() > DRAIN => break,
            Some(_) => {}
            None => {
                let why = if interrupted() {
                    Some("interrupted".to_owned())
                } else if Instant::now() > end {
                    Some(format!("took longer than {} s", limit.as_secs()))
                } else {
                    None
                };
                if let Some(why) = why.filter(|_| stopped.is_none()) {
                    stopped = Some(why);
                    end_all(child.id());
                }
            }
        }
    }
    let failure = match (stopped, ended) {
        (Some(why), _) => Some(why),
        (None, Some((status, _))) if !status.success() => Some(format!("{name}: {status}")),
        _ => None,
    };
    Ok(Finished { failure, log: log.to_path_buf() })
}

fn steps() -> MutexGuard<'static, Vec<u32>> {
    STEPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a process, and counts it among those that are waited for.
fn spawn(command: &mut Command) -> Result<(Child, Counted)> {
    // Nothing is reaped meanwhile.
    let mut steps = steps();
    let child = command.spawn().with_context(|| format!("start {}", command.get_program().display()))?;
    steps.push(child.id());
    let id = child.id();
    Ok((child, Counted(id)))
}

/// Counts a process among those that are waited for, until this is dropped.
struct Counted(u32);

impl Drop for Counted {
    fn drop(&mut self) {
        steps().retain(|step| *step != self.0);
    }
}

/// Runs a command to its end and gives its output. Its stderr is this program's, unless the caller says otherwise. When
/// the run is interrupted, the command is ended with all its descendants, and this function fails.
pub(crate) fn output(command: &mut Command) -> Result<Output> {
    output_until(command, interrupted)
}

fn output_until(command: &mut Command, stop: impl Fn() -> bool) -> Result<Output> {
    ensure!(!stop(), "interrupted");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
    let (child, counted) = spawn(command)?;
    let id = counted.0;
    std::thread::scope(|scope| {
        let output = scope.spawn(|| child.wait_with_output());
        let mut stopped = false;
        while !output.is_finished() {
            std::thread::sleep(Duration::from_millis(20));
            if !stopped && stop() {
                stopped = true;
                end_all(id);
            }
        }
        ensure!(!stopped, "interrupted");
        output.join().expect("reading does not panic").context("read its output")
    })
}

/// Reaps the dead processes that this process has adopted. Tests wait until processes are gone, and a zombie is not
/// gone.
///
/// The processes of [`run`] and [`output`] are left out, because these wait for them. Servers are reaped here, too: nobody waits
/// for them.
fn reap_adopted() {
    if !ADOPTS.load(Ordering::SeqCst) {
        return;
    }
    // No step begins meanwhile.
    let steps = steps();
    let me = std::process::id();
    let dead = |pid: &i32| {
        let ours = |stat: process::Stat| stat.state == 'Z' && u32::try_from(stat.parent) == Ok(me);
        u32::try_from(*pid).is_ok_and(|pid| !steps.contains(&pid)) && process::stat(*pid).is_some_and(ours)
    };
    for pid in process::pids().into_iter().filter(dead).filter_map(Pid::from_raw) {
        let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::NOHANG);
    }
}

/// Sends SIGTERM to a step's process group, and SIGKILL to all its descendants that are still alive five seconds later.
fn end_all(leader: u32) {
    let Some(group) = i32::try_from(leader).ok().and_then(Pid::from_raw) else { return };
    let family = process::descendants(group.as_raw_nonzero().get());
    let _ = kill_process_group(group, Signal::TERM);
    process::wait_until(Duration::from_secs(5), || !family.iter().any(|member| member.alive()));
    for member in family {
        member.kill();
    }
    let _ = kill_process_group(group, Signal::KILL);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn log(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("thermae-xtask-{}-{name}.log", std::process::id()))
    }

    #[test]
    fn a_step_gives_its_lines_and_its_status() {
        let log = log("lines");
        let mut lines = Vec::new();
        let done =
            run(shell("echo a; echo b >&2; exit 3"), &log, Duration::from_secs(10), |line| lines.push(line.to_owned()))
                .unwrap();
        lines.sort();
        assert_eq!(lines, ["a", "b"]);
        assert!(done.failure.unwrap().contains('3'));
        std::fs::remove_file(log).unwrap();
    }

    #[test]
    fn a_step_past_its_limit_is_ended_with_its_children() {
        let log = log("limit");
        let begun = Instant::now();
        let done = run(shell("sleep 300 & sleep 300"), &log, Duration::from_millis(200), |_| {}).unwrap();
        assert!(done.failure.unwrap().contains("longer"));
        assert!(begun.elapsed() < Duration::from_secs(60));
        std::fs::remove_file(log).unwrap();
    }

    #[test]
    fn a_command_that_ends_gives_its_output() {
        let done = output_until(&mut shell("echo a; exit 3"), || false).unwrap();
        assert_eq!((done.stdout, done.status.code()), (b"a\n".to_vec(), Some(3)));
    }

    #[test]
    fn an_interrupted_command_is_ended_with_its_children() {
        let begun = Instant::now();
        let stop = || begun.elapsed() > Duration::from_millis(200);
        let error = output_until(&mut shell("sleep 300 & sleep 300"), stop).unwrap_err();
        assert_eq!(error.to_string(), "interrupted");
        assert!(begun.elapsed() < Duration::from_secs(60));
        // After an interrupt, nothing more is started.
        output_until(&mut shell("exit 0"), || true).unwrap_err();
    }

    #[test]
    fn a_daemon_that_holds_the_pipe_does_not_hold_the_step() {
        let log = log("daemon");
        let begun = Instant::now();
        let mut daemon = None;
        let done = run(shell("sleep 600 & echo $!"), &log, Duration::from_secs(100), |line| {
            daemon = process::ProcId::of(line.parse().unwrap());
        })
        .unwrap();
        daemon.unwrap().kill();
        assert!(done.failure.is_none());
        assert!(begun.elapsed() < Duration::from_secs(60));
        std::fs::remove_file(log).unwrap();
    }
}
