//! Runs a job's code in a container and watches it: takes its output, passes its tool calls on, and ends it early if
//! necessary.

use std::sync::Arc;
use std::time::Duration;

use thermae_runner::frames::{End, Exit, Frame, Kind, Place, Run};
use thermae_schemas::Stream;
use tokio::time::{Instant, sleep_until};
use tracing::Instrument;

use super::events::{Hold, Output, Streamer};
use super::prepare::Prepared;
use super::seat::Seat;
use crate::artifacts::Gatherer;
use crate::bundle;
use crate::conn::{Conn, Running, exit_of};
use crate::context::Context;
use crate::course::Printed;
use crate::options::{Bounds, Granted};
use crate::outcome::Collected;
use crate::phase::Phase;
use crate::running::{Entry, LeaseLost};
use crate::tools::{self, InFlight, Patience, Unread};
use crate::work::Work;

/// How long a run may take to end after it was killed, or after its time was over by the runner's own clock.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// How a run ended.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "made once per run, and nearly always the largest")]
pub(crate) enum Ended {
    /// The runner reported this end.
    Exit(Exit),
    /// The container died, for this reason.
    Gone(String),
    /// The client cancelled the job, and the container died from that.
    Cancelled,
    /// The lease was lost, so nothing of the run counts.
    LeaseLost(LeaseLost),
    /// The worker stops.
    Stopped,
}

/// A run that ended.
#[derive(Debug)]
pub(crate) struct Ran {
    /// How it ended.
    pub ended: Ended,
    /// What it printed and displayed.
    pub collected: Collected,
    /// The files that it left. They may still be on their way to the store.
    pub files: Gatherer,
    /// Number of tool calls that passed the gate.
    pub tool_calls: u32,
    /// How long at least one tool call waited for its answer.
    pub tool_wait: Duration,
    /// Whether the container may be used again.
    pub usable: bool,
}

/// Why the worker ends a run.
#[derive(Debug, Clone, Copy)]
enum Early {
    Cancel,
    Lease(LeaseLost),
    Stop,
}

/// Runs a job's code. The job's claim must be valid.
#[tracing::instrument(name = "run", skip_all)]
pub(crate) async fn run_code(
    ctx: &Context,
    work: &Work,
    entry: &Entry,
    prepared: &mut Prepared,
    conn: &Arc<Conn>,
    place: Place,
    seat: &mut Seat<'_>,
) -> Ran {
    let began = Instant::now();
    let request = request(work, prepared, place);
    let calls_before = prepared.gate.calls();
    let (tenant, inline) = (work.key.tenant.clone(), work.job.artifacts.inline);
    let mut watch = Watch {
        collected: Collected::default(),
        files: Gatherer::new(ctx.artifacts.clone(), tenant, prepared.artifacts, inline),
        bounds: prepared.bounds,
        displayed: 0,
        tool_wait: Duration::ZERO,
        max_output: output_bound(&prepared.limits),
    };
    let ended = match conn.run(&request, &prepared.checkpoint, &prepared.files, || entry.check()).await {
        Ok(Ok(running)) => watch.follow(ctx, work, entry, prepared, running, seat).await,
        Ok(Err(lost)) => Ended::LeaseLost(lost),
        // The run was never sent, so nothing ran.
        Err(e) => Ended::Exit(not_started(e.to_string())),
    };
    seat.end(entry).await;
    let Printed { stdout, stderr } = std::mem::take(&mut *entry.course.printed());
    (watch.collected.stdout, watch.collected.stderr) = (stdout, stderr);
    let pool = &work.job.pool;
    ctx.metrics.phase(pool, Phase::Run, began.elapsed().as_secs_f64());
    if let Ended::Exit(exit) = &ended {
        ctx.metrics.sandbox(pool, exit.warm);
        for (name, us) in &exit.phases {
            if let Some(phase) = Phase::of_runner(name) {
                ctx.metrics.phase(pool, phase, *us as f64 / 1e6);
            }
        }
    }
    Ran {
        ended,
        collected: watch.collected,
        files: watch.files,
        tool_calls: prepared.gate.calls() - calls_before,
        tool_wait: watch.tool_wait,
        usable: !conn.closed().is_cancelled(),
    }
}

fn request(work: &Work, prepared: &mut Prepared, place: Place) -> Run {
    let job = &work.job;
    let mut env = job.env.clone();
    let trace = thermae_service::trace::forward(&tracing::Span::current(), &work.trace);
    if let Some(traceparent) = trace.traceparent {
        env.entry("TRACEPARENT".into()).or_insert(traceparent);
    }
    Run {
        language: job.language.as_str().to_owned(),
        code: job.code.clone(),
        argv: job.argv.clone(),
        stdin: job.stdin.clone(),
        env,
        inputs: std::mem::take(&mut prepared.values),
        place,
        limits: prepared.limits.run,
        tools: prepared.tools.clone(),
        sync_tools: job.sync_tools,
        follow: job.stream.contains(&Stream::Output),
    }
}

fn not_started(reason: String) -> Exit {
    Exit::bare(End::NotStarted { reason }, false)
}

/// The runner cuts the output at the limit. This bound is for a runner that does not.
fn output_bound(limits: &Granted) -> usize {
    usize::try_from(limits.run.output_bytes).unwrap_or(usize::MAX).saturating_add(64 << 10)
}

struct Watch {
    collected: Collected,
    files: Gatherer,
    bounds: Bounds,
    /// Bytes of the displayed things that were kept.
    displayed: u64,
    /// As [`Ran::tool_wait`], from the end of the run.
    tool_wait: Duration,
    max_output: usize,
}

impl Watch {
    async fn follow(
        &mut self,
        ctx: &Context,
        work: &Work,
        entry: &Entry,
        prepared: &mut Prepared,
        mut running: Running,
        seat: &mut Seat<'_>,
    ) -> Ended {
        let began = Instant::now();
        let limits = prepared.limits;
        let (wall, pause) = (Duration::from_millis(limits.run.wall_ms), Duration::from_millis(limits.run.pause_ms));
        let at_most = wall + Duration::from_millis(limits.run.grace_ms) + END_TIMEOUT;
        let mut streamer = Streamer::new(ctx, work, entry);
        let mut calls = InFlight::new();
        // Answers that the run has not got: it is paused, and must have a slot before it gets them, or it has not read
        // those before.
        let mut answers = Unread::default();
        let mut hold = Hold::default();
        // Whether a signal has come for the paused run, so that it must go on without an answer.
        let mut wakes = false;
        let mut early: Option<Early> = None;
        // Whether the code may still go on, as far as this loop knows.
        let mut in_code = true;
        // A frame that must wait until the output before it was sent.
        let mut waiting: Option<Frame> = None;
        let overdue_at = sleep_until(began + at_most);
        let (cancelled, lost, stopped) = (entry.cancel.cancelled(), entry.lost(), ctx.stop.cancelled());
        tokio::pin!(overdue_at, cancelled, lost, stopped);
        let end = loop {
            if !seat.is_paused() && std::mem::take(&mut wakes) {
                running.wake();
            }
            while !seat.is_paused()
                && running.takes_answers()
                && let Some(answered) = answers.pop()
            {
                answered.give(&ctx.heavy, &mut running).await;
            }
            hold.tell(&mut streamer, answers.on_disk() > 0).await;
            // Output beyond the tenant's allowance waits: a little of it here, so that few events carry it, and the
            // rest in the sandbox, where the code waits with it. It waits no longer than the job's wall clock, because
            // the runner reports the end of the run after all output.
            let patient_until = began + wall + calls.waited().min(pause);
            let owes = if streamer.sent() { ctx.owes_until(work).map(|until| until.min(patient_until)) } else { None };
            let owes = owes.filter(|until| *until > Instant::now());
            if owes.is_none() {
                streamer.release().await;
            }
            let takes = owes.is_none() || (waiting.is_none() && streamer.has_room());
            let frame = async {
                match waiting.take() {
                    Some(frame) => Some(frame),
                    None => running.next().await,
                }
            };
            let end_it = tokio::select! {
                biased;
                // These come before the code's own frames, which may never stop.
                why = &mut lost, if !matches!(early, Some(Early::Lease(_))) => Early::Lease(why),
                () = &mut cancelled, if early.is_none() => Early::Cancel,
                () = &mut stopped, if early.is_none() => Early::Stop,
                () = sleep_until(owes.unwrap_or(patient_until)), if owes.is_some() => continue,
                frame = frame, if takes => {
                    let Some(frame) = frame else { break gone(early, running.why()) };
                    match frame.kind {
                        Kind::Stdout => self.output(entry, &mut streamer, Output::Stdout, &frame.body),
                        Kind::Stderr => self.output(entry, &mut streamer, Output::Stderr, &frame.body),
                        Kind::Credit => running.taken(frame.parse().unwrap_or_default()),
                        kind if owes.is_some() && kind != Kind::Exit => waiting = Some(frame),
                        Kind::Started => {
                            entry.runs.cancel();
                            streamer.started().await;
                        }
                        // If the runner knows of more calls, it has not got an answer yet that is on its way, and the
                        // run goes on with it.
                        Kind::Waits if early.is_none() && frame.parse().is_ok_and(|open: usize| open == calls.len()) => {
                            if !seat.pause(entry) {
                                entry.course.waits();
                                running.charge();
                            }
                        }
                        Kind::Stays if early.is_none() => seat.stay(entry),
                        Kind::Wakes if early.is_none() => wakes = true,
                        Kind::Display => self.display(ctx, &mut streamer, frame).await,
                        Kind::ToolCall => match prepared.gate.comes(frame.body.len()) {
                            Ok(open) => {
                                let patience = Patience::new(&limits, began);
                                let call = tools::call(ctx, work, entry, frame, open, patience);
                                calls.push(call.in_current_span());
                            }
                            Err(refused) => {
                                match tools::turn_away(ctx, work, entry, &prepared.gate, &frame, &refused).await {
                                    Ok(answered) => answers.push(answered),
                                    Err(unreadable) => running.abandon(&unreadable.to_string()),
                                }
                            }
                        },
                        Kind::Artifact | Kind::ArtifactData | Kind::ArtifactEnd => {
                            // The code has ended. What counts now is that its files keep coming.
                            in_code = false;
                            overdue_at.as_mut().reset(Instant::now() + END_TIMEOUT);
                            if let Err(why) = self.files.take(&frame) {
                                running.abandon(&format!("its artifacts can't be read: {why}"));
                                break gone(early, why.to_string());
                            }
                        }
                        Kind::Exit => {
                            calls.stop();
                            let bytes = frame.body.len();
                            break match ctx.heavy.scan(bytes, move || exit_of(&frame)).await {
                                Ok(exit) => ended(early, exit),
                                Err(e) => {
                                    running.abandon("its exit can't be read");
                                    gone(early, e.to_string())
                                }
                            };
                        }
                        other => tracing::debug!(kind = ?other, "an unexpected frame in a run"),
                    }
                    continue;
                }
                Some(answered) = calls.next(), if !calls.is_empty() => {
                    match answered {
                        Ok(answered) => answers.push(answered),
                        Err(unreadable) => running.abandon(&unreadable.to_string()),
                    }
                    if !seat.is_paused() {
                        entry.course.runs();
                    }
                    continue;
                }
                () = hold.due() => continue,
                () = seat.resumed(entry, seat.is_paused() && (wakes || !answers.is_empty())) => continue,
                () = &mut overdue_at => {
                    // Time in which the code waited may not count against its wall clock.
                    let until = began + at_most + calls.waited().min(pause);
                    if in_code && Instant::now() < until {
                        overdue_at.as_mut().reset(until);
                        continue;
                    }
                    // The runner can't end the run, so it is ended with its container.
                    in_code = false;
                    running.abandon("a run did not end");
                    overdue_at.as_mut().reset(Instant::now() + END_TIMEOUT);
                    continue;
                }
            };
            (early, in_code) = (Some(end_it), false);
            // A session outlives the cancel of a run that heeds its interrupt. Of a fresh sandbox, nothing is left.
            let patience = if matches!(end_it, Early::Cancel) && work.job.session.is_some() {
                running.interrupt();
                Duration::from_millis(limits.run.grace_ms)
            } else {
                running.kill();
                Duration::ZERO
            };
            overdue_at.as_mut().reset(Instant::now() + patience + END_TIMEOUT);
        };
        // However the run ended, but not without a lease: then nothing is sent.
        if !matches!(end, Ended::LeaseLost(_)) {
            streamer.end().await;
        }
        self.tool_wait = calls.waited();
        end
    }

    /// Collects output, and gathers it for the client.
    fn output(&self, entry: &Entry, streamer: &mut Streamer<'_>, output: Output, bytes: &[u8]) {
        let mut printed = entry.course.printed();
        let room = self.max_output.saturating_sub(printed.stdout.len() + printed.stderr.len());
        let bytes = &bytes[..bytes.len().min(room)];
        match output {
            Output::Stdout => printed.stdout.extend_from_slice(bytes),
            Output::Stderr => printed.stderr.extend_from_slice(bytes),
        }
        drop(printed);
        streamer.gather(output, bytes);
    }

    async fn display(&mut self, ctx: &Context, streamer: &mut Streamer<'_>, frame: Frame) {
        let bytes = frame.body.len();
        let room = self.bounds.display_bytes.0.saturating_sub(self.displayed);
        if self.collected.displays.len() >= self.bounds.displays as usize || bytes as u64 > room {
            self.collected.left_out += 1;
            return;
        }
        self.displayed += bytes as u64;
        let read = ctx.heavy.scan(bytes, move || bundle::read(frame.body));
        let bundle = read.await.unwrap_or_else(|why| bundle::note(&format!("not shown: {why}")));
        streamer.display(&bundle).await;
        self.collected.displays.push(bundle);
    }
}

fn gone(early: Option<Early>, why: String) -> Ended {
    match early {
        None => Ended::Gone(why),
        Some(Early::Cancel) => Ended::Cancelled,
        Some(Early::Lease(lost)) => Ended::LeaseLost(lost),
        Some(Early::Stop) => Ended::Stopped,
    }
}

/// If a run ended before the worker's kill reached it, its own end counts. But without a lease, nothing counts.
fn ended(early: Option<Early>, exit: Exit) -> Ended {
    match (early, &exit.end) {
        (Some(Early::Lease(lost)), _) => Ended::LeaseLost(lost),
        (Some(Early::Stop), End::Killed) => Ended::Stopped,
        (None, End::Killed) => Ended::Gone("the runner killed it without being asked to".into()),
        _ => Ended::Exit(exit),
    }
}
