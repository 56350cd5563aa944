//! Carries out one request: relays between its client and the runner.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use thermae_backplane::bus;
use thermae_runner::frames::{Beside, Exit, Frame, Kind};
use thermae_schemas::{ErrorCode, OutputStream, Request, RequestDone, RequestEnd, RequestWork};
use tokio::time::{Instant, sleep_until};

use super::inbox::{Next, Unwanted};
use super::order::{self, Early};
use super::{Open, failed};
use crate::conn::Running;
use crate::context::Context;
use crate::sessions::Presence;

/// How long a request may take to end after it was killed, or after its time was over by the runner's own clock.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// The least that an event costs of its tenant's allowance, in bytes.
const LEAST: usize = 4 << 10;

/// Carries out a request whose session is here.
pub(super) async fn run(ctx: &Arc<Context>, open: &Open, request: Request, presence: Presence) -> RequestDone {
    let limits = &presence.pool().options().limits;
    let most = limits.ceiling.wall.as_millis();
    let (work, wall_ms) = match request.work {
        RequestWork::Keepalive {} => return RequestDone::bare(RequestEnd::Exited { code: 0 }),
        RequestWork::Exec(exec) => (order::command(exec), limits.default.wall.as_millis()),
        // It takes as long as its client needs for the content.
        RequestWork::File(op) => (order::file(op), most),
    };
    let wall_ms = request.timeout_ms.unwrap_or(wall_ms).min(most);
    let (seat, home) = tokio::select! {
        biased;
        why = open.inbox.given_up() => return RequestDone::bare(early(why).end()),
        () = ctx.stop.cancelled() => return RequestDone::bare(stopped().end()),
        seated = presence.seat() => match seated {
            Some(seated) => seated,
            None => return failed(ErrorCode::SessionLost, "The session ended before the request began."),
        },
    };
    let session = presence.name().to_string();
    let beside = Beside { session, work, wall_ms: wall_ms.max(1), output_bytes: None, window: request.window };
    let running = match home.beside(&beside) {
        Ok(running) => running,
        Err(error) => return failed(ErrorCode::SandboxFailed, format!("It could not be started: {error}")),
    };
    let overdue = Instant::now() + Duration::from_millis(wall_ms) + END_TIMEOUT;
    let presence = &presence;
    let mut relay = Relay { ctx, open, presence, running, overdue, early: None, output_owed: 0, input_owed: None };
    let mut done = relay.follow().await;
    drop(seat);
    done.output = open.events.sent();
    done
}

fn stopped() -> Early {
    Early::error(ErrorCode::WorkerStopped, "The worker that holds the session stops.")
}

fn interrupted(why: impl std::fmt::Display) -> Early {
    let why = format!("A part of the request's input or output was lost: {why}. What it did until then stands.");
    Early::error(ErrorCode::RequestInterrupted, why)
}

/// Why a request ends at the client's word.
fn early(why: Next) -> Early {
    match why {
        Next::Spoiled(why @ (Unwanted::Gap | Unwanted::AfterEnd)) => interrupted(why),
        Next::Spoiled(why) => Early::error(ErrorCode::SchemaViolation, format!("A message about the request: {why}.")),
        _ => Early::Cancel,
    }
}

struct Relay<'a> {
    ctx: &'a Arc<Context>,
    open: &'a Open,
    presence: &'a Presence,
    running: Running,
    /// When it must have ended.
    overdue: Instant,
    early: Option<Early>,
    /// Bytes of output that the client has allowed, and that wait until its tenant may move more.
    output_owed: u64,
    /// How much input the client may have sent in all, if it is still to be told.
    input_owed: Option<u64>,
}

impl Relay<'_> {
    async fn follow(&mut self) -> RequestDone {
        let (ctx, open) = (self.ctx, self.open);
        let (stopping, over) = (ctx.stop.cancelled(), self.presence.stopped());
        tokio::pin!(stopping, over);
        // A frame that came after output of the other stream.
        let mut kept: Option<Frame> = None;
        loop {
            let owes = self.settle().await;
            let frame = match kept.take() {
                Some(frame) => Some(frame),
                None => tokio::select! {
                    biased;
                    () = &mut stopping, if self.early.is_none() => {
                        self.end_early(stopped());
                        continue;
                    }
                    () = &mut over, if self.early.is_none() => {
                        self.end_early(Early::error(ErrorCode::SessionLost, "The session ended before the request did."));
                        continue;
                    }
                    said = open.inbox.next() => {
                        self.heed(said).await;
                        continue;
                    }
                    () = sleep_until(owes.unwrap_or(self.overdue)), if owes.is_some() => continue,
                    frame = self.running.next() => frame,
                    () = sleep_until(self.overdue) => {
                        if self.early.is_none() {
                            // It has ended, and its client does not take its output.
                            self.end_early(Early::TimedOut);
                        } else {
                            // The runner can't end it, so it is ended with its container.
                            self.running.abandon("a request did not end");
                            self.overdue = Instant::now() + END_TIMEOUT;
                        }
                        continue;
                    }
                },
            };
            let Some(frame) = frame else { return self.gone() };
            match frame.kind {
                Kind::Stdout | Kind::Stderr => match self.output(frame).await {
                    Ok(other) => kept = other,
                    Err(error) => self.end_early(interrupted(error)),
                },
                Kind::Credit => self.input_owed = Some(open.inbox.allow(frame.parse::<u64>().unwrap_or(0))),
                Kind::Exit => return self.exit(frame).await,
                _ => {}
            }
        }
    }

    /// Passes on what each side allows the other one, unless the tenant has moved too much. Returns until when it must
    /// wait.
    async fn settle(&mut self) -> Option<Instant> {
        if self.output_owed == 0 && self.input_owed.is_none() {
            return None;
        }
        let owes = self.presence.pool().traffic().owes_until(self.presence.tenant());
        if owes.is_none() {
            if self.output_owed > 0 {
                self.running.allow(std::mem::take(&mut self.output_owed));
            }
            if let Some(input) = self.input_owed.take()
                && let Err(error) = self.open.events.credit(input).await
            {
                self.end_early(interrupted(error));
            }
        }
        owes
    }

    /// Does what the client says.
    async fn heed(&mut self, said: Next) {
        match said {
            Next::Signal(signal) => self.running.signal(signal),
            Next::Credit(bytes) => self.output_owed += bytes,
            Next::Input(bytes) => {
                self.count(bytes.len());
                self.running.input(&bytes).await;
            }
            Next::EndOfInput => self.running.end_input(),
            why => self.end_early(early(why)),
        }
    }

    /// Kills what runs. Its last output goes nowhere.
    fn end_early(&mut self, why: Early) {
        if self.early.is_none() {
            self.early = Some(why);
            self.overdue = Instant::now() + END_TIMEOUT;
            self.running.kill();
            self.running.allow(u64::from(u32::MAX) << 16);
        }
    }

    /// Sends output, together with what of the same stream has come after it. Returns the frame that came then.
    async fn output(&mut self, first: Frame) -> Result<Option<Frame>, bus::Error> {
        let kind = first.kind;
        let stream = if kind == Kind::Stdout { OutputStream::Stdout } else { OutputStream::Stderr };
        let mut data = first.body;
        let mut other = None;
        while data.len() < Request::CHUNK / 2 {
            match self.running.try_next() {
                Some(more) if more.kind == kind && data.len() + more.body.len() <= Request::CHUNK => {
                    data.extend_from_slice(&more.body);
                }
                Some(frame) => {
                    other = Some(frame);
                    break;
                }
                None => break,
            }
        }
        if self.early.is_some() {
            return Ok(other);
        }
        let bytes = data.len();
        self.count(bytes.max(LEAST));
        self.open.events.output(stream, Bytes::from(data)).await?;
        Ok(other)
    }

    async fn exit(&mut self, frame: Frame) -> RequestDone {
        let bytes = frame.body.len();
        let early = self.early.take();
        match self.ctx.heavy.scan(bytes, move || frame.parse::<Exit>().map(|exit| order::ended(exit, early))).await {
            Ok(done) => done,
            Err(error) => {
                self.running.abandon("the exit of a request can't be read");
                failed(ErrorCode::Internal, error.to_string())
            }
        }
    }

    /// The end of a request whose container is gone.
    fn gone(&mut self) -> RequestDone {
        let lost = || Early::error(ErrorCode::SessionLost, "The session's sandbox ended before the request did.");
        RequestDone::bare(self.early.take().unwrap_or_else(lost).end())
    }

    fn count(&self, bytes: usize) {
        self.presence.pool().traffic().count(self.presence.tenant(), bytes);
    }
}
