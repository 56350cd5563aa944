//! The events that a client gets while the code runs, if its job or the fleet asks for them. They are not persistent,
//! and may get lost.

use std::time::Duration;

use bytes::Bytes;
use thermae_backplane::bus;
use thermae_schemas::{Body, Event, EventBody, Stream};
use tokio::time::error::Elapsed;
use tokio::time::{Instant, sleep_until};

use super::settle::reply;
use crate::bundle::Bundle;
use crate::context::Context;
use crate::running::Entry;
use crate::wire;
use crate::work::Work;

/// How long one streamed event may hold up the run.
const EVENT_WITHIN: Duration = Duration::from_millis(200);

/// Events that are sent before the broker must have accepted them. A job that writes byte by byte makes a million
/// events. They share a connection with the results of all tenants, which would have to wait behind them.
const UNTAKEN: u32 = 128;

/// How long the client keeps answers back after it was told to. While it should, it is told again in half of this time:
/// the event may be lost, and another client may take the run over.
const HOLD: Duration = Duration::from_secs(10);

/// The least that an event costs of its tenant's allowance, in bytes. RabbitMQ has as much work with an event as with
/// this many bytes.
const LEAST: usize = 4 << 10;

/// Bytes of output that are gathered while the tenant exceeds its allowance. Beyond this, the code waits.
const GATHERED: usize = 64 << 10;

/// One of the two output streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    Stdout,
    Stderr,
}

/// Streams to the client those of a job's events that the job asks for.
pub(super) struct Streamer<'a> {
    ctx: &'a Context,
    work: &'a Work,
    entry: &'a Entry,
    lifecycle: bool,
    output: bool,
    display: bool,
    seq: u64,
    sent: bool,
    /// Number of events that were sent since the broker last had accepted all.
    untaken: u32,
    /// Bytes of each stream that are not sent yet: what was gathered, and the beginning of a character whose rest has
    /// not come.
    unsent: [Vec<u8>; 2],
}

impl<'a> Streamer<'a> {
    pub(super) fn new(ctx: &'a Context, work: &'a Work, entry: &'a Entry) -> Self {
        let wants = |s| work.job.stream.contains(&s);
        Self {
            ctx,
            work,
            entry,
            lifecycle: wants(Stream::Lifecycle),
            output: wants(Stream::Output),
            display: wants(Stream::Display),
            seq: 0,
            sent: false,
            untaken: 0,
            unsent: Default::default(),
        }
    }

    /// Whether anything was sent.
    pub(super) fn sent(&self) -> bool {
        self.sent
    }

    pub(super) async fn started(&mut self) {
        if self.lifecycle {
            self.send(EventBody::Started { worker: self.ctx.id.clone() }).await;
        }
    }

    /// Gathers output for one event, until it is released. If each byte of a job that writes byte by byte were sent at
    /// once, each would cost as much as an event.
    pub(super) fn gather(&mut self, output: Output, bytes: &[u8]) {
        if self.output {
            self.unsent[output as usize].extend_from_slice(bytes);
        }
    }

    /// Whether more output may be gathered.
    pub(super) fn has_room(&self) -> bool {
        self.unsent.iter().map(Vec::len).sum::<usize>() < GATHERED
    }

    /// Sends what was gathered.
    pub(super) async fn release(&mut self) {
        for output in [Output::Stdout, Output::Stderr] {
            self.send_gathered(output).await;
        }
    }

    async fn send_gathered(&mut self, output: Output) {
        let unsent = &mut self.unsent[output as usize];
        let whole = unsent.len() - unfinished(unsent);
        let text = String::from_utf8_lossy(&unsent[..whole]).into_owned();
        unsent.drain(..whole);
        self.text(output, text).await;
    }

    pub(super) async fn display(&mut self, data: &Bundle) {
        if self.display
            && self.entry.address().is_some()
            && let Ok(body) = wire::display(self.work, data)
        {
            self.publish(body).await;
        }
    }

    /// Sends all that is left, even characters that never became complete. After this, the result comes behind all
    /// events.
    pub(super) async fn end(&mut self) {
        for output in [Output::Stdout, Output::Stderr] {
            let rest = std::mem::take(&mut self.unsent[output as usize]);
            self.text(output, String::from_utf8_lossy(&rest).into_owned()).await;
        }
        if self.sent {
            flush(self.ctx).await;
        }
    }

    async fn text(&mut self, output: Output, text: String) {
        if !text.is_empty() {
            let seq = self.seq;
            self.seq += 1;
            self.send(match output {
                Output::Stdout => EventBody::Stdout { seq, text },
                Output::Stderr => EventBody::Stderr { seq, text },
            })
            .await;
        }
    }

    async fn send(&mut self, body: EventBody) {
        let event = Event::new(self.work.key.job.clone(), self.work.attempt, body);
        if let Ok(body) = event.to_json() {
            self.publish(body.into()).await;
        }
    }

    async fn publish(&mut self, body: Bytes) {
        if !send(self.ctx, self.work, self.entry, body).await {
            return;
        }
        self.sent = true;
        self.untaken += 1;
        if self.untaken >= UNTAKEN {
            self.untaken = 0;
            flush(self.ctx).await;
        }
    }
}

/// Has the client keep answers back while some of them are on the worker's disk.
#[derive(Debug, Default)]
pub(super) struct Hold(Option<Instant>);

impl Hold {
    /// Tells the client what it does not know yet: whether it should keep answers back.
    pub(super) async fn tell(&mut self, streamer: &mut Streamer<'_>, holds: bool) {
        let known = match self.0 {
            Some(told) => holds && told.elapsed() < HOLD / 2,
            None => !holds,
        };
        if !known {
            self.0 = holds.then(Instant::now);
            let time = if holds { HOLD } else { Duration::ZERO };
            streamer.send(EventBody::Hold { for_ms: time.as_millis() as u64 }).await;
        }
    }

    /// Waits until the client must be told again.
    pub(super) async fn due(&self) {
        match self.0 {
            Some(told) => sleep_until(told + HOLD / 2).await,
            None => std::future::pending().await,
        }
    }
}

/// Sends one event of a run, beside its streams, and waits until the broker has it.
pub(crate) async fn send_alone(ctx: &Context, work: &Work, entry: &Entry, body: EventBody) {
    let event = Event::new(work.key.job.clone(), work.attempt, body);
    if let Ok(body) = event.to_json()
        && send(ctx, work, entry, body.into()).await
    {
        flush(ctx).await;
    }
}

/// Sends an event to the client that has the run. Returns `false` if there is nobody to send it to.
async fn send(ctx: &Context, work: &Work, entry: &Entry, body: Bytes) -> bool {
    let Some(to) = entry.address() else { return false };
    // Without a lease, nothing of the run counts, and the client may already get the events of another attempt.
    if entry.check().is_err() {
        return false;
    }
    ctx.moves(work, body.len().max(LEAST));
    let message = bus::Message { mandatory: false, ..reply(work, to, body, false) };
    lost(tokio::time::timeout(EVENT_WITHIN, ctx.bus.publish(message)).await);
    true
}

/// Waits until the broker has accepted what was sent.
async fn flush(ctx: &Context) {
    lost(tokio::time::timeout(EVENT_WITHIN, ctx.bus.flush()).await);
}

/// Logs that an event may be lost. The result has everything that the event has.
fn lost<T>(sent: Result<Result<T, bus::Error>, Elapsed>) {
    match sent {
        Ok(Ok(_)) => {}
        Ok(Err(e)) => tracing::debug!(error = %e, "a streamed event may be lost; the result has everything"),
        Err(e) => tracing::debug!(error = %e, "a streamed event may be lost; the result has everything"),
    }
}

/// Number of bytes at the end that are an incomplete character.
fn unfinished(bytes: &[u8]) -> usize {
    let tail = bytes.len().saturating_sub(3);
    (tail..bytes.len())
        .rev()
        .map(|at| (&bytes[at..], bytes.len() - at))
        .find(|(rest, _)| rest[0] & 0xc0 != 0x80)
        .map_or(0, |(rest, len)| match std::str::from_utf8(rest) {
            Err(e) if e.error_len().is_none() => len,
            _ => 0,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_in_two_pieces_stays_whole() {
        let text = "aé€😀".as_bytes();
        for cut in 0..text.len() {
            let head = &text[..cut];
            let whole = head.len() - unfinished(head);
            assert!(std::str::from_utf8(&head[..whole]).is_ok(), "cut at {cut}");
        }
        assert_eq!(unfinished(b"a\xff"), 0, "what can't become whole is not waited for");
        assert_eq!(unfinished(b""), 0);
    }
}
