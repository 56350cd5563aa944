//! What the client hears while the code runs, if it asked for it. These events are not persistent, and nothing waits for them.

use std::time::Duration;

use bytes::Bytes;
use thermae_backplane::bus;
use thermae_schemas::{Event, EventBody, Stream};
use tokio::time::error::Elapsed;

use super::settle::reply;
use crate::bundle::Bundle;
use crate::context::Context;
use crate::running::Entry;
use crate::wire;
use crate::work::Work;

/// How long a streamed event may hold the run up.
const EVENT_WITHIN: Duration = Duration::from_millis(200);

/// Events that are sent before the broker must have taken them. A job that writes byte by byte makes a million; they share a connection
/// with the results of all tenants, which would wait behind them.
const UNTAKEN: u32 = 128;

/// What an event costs at least of its tenant's allowance, in bytes: RabbitMQ has as much work with it as with so many.
const LEAST: usize = 4 << 10;

/// So much output is gathered while its tenant owes, in bytes; the code waits then.
const GATHERED: usize = 64 << 10;

/// Which of the two streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    Stdout,
    Stderr,
}

/// Streams a job's events to its client, as far as it asked for them.
pub(super) struct Streamer<'a> {
    ctx: &'a Context,
    work: &'a Work,
    entry: &'a Entry,
    key: Option<&'a str>,
    lifecycle: bool,
    output: bool,
    display: bool,
    seq: u64,
    /// Whether anything was sent.
    sent: bool,
    /// Events since the broker had taken all.
    untaken: u32,
    /// What is not sent yet of either stream: what was gathered, and the beginnings of characters whose rest has not come yet.
    unsent: [Vec<u8>; 2],
}

impl<'a> Streamer<'a> {
    pub(super) fn new(ctx: &'a Context, work: &'a Work, entry: &'a Entry) -> Self {
        let wants = |s| work.job.stream.contains(&s);
        Self {
            ctx,
            work,
            entry,
            key: work.reply_to.as_deref(),
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

    /// Keeps output for one event, until it is released. A job that writes byte by byte would pay for each with an event's
    /// price.
    pub(super) fn gather(&mut self, output: Output, bytes: &[u8]) {
        if self.output {
            self.unsent[output as usize].extend_from_slice(bytes);
        }
    }

    /// Whether more may be gathered.
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
            && self.key.is_some()
            && let Ok(body) = wire::display(self.work, data)
        {
            self.publish(body).await;
        }
    }

    /// Sends what is left of characters that never became whole; when it returns, the result comes after all that was sent.
    pub(super) async fn end(&mut self) {
        for output in [Output::Stdout, Output::Stderr] {
            let rest = std::mem::take(&mut self.unsent[output as usize]);
            self.text(output, String::from_utf8_lossy(&rest).into_owned()).await;
        }
        if self.sent {
            lost(tokio::time::timeout(EVENT_WITHIN, self.ctx.bus.flush()).await);
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
        if let Ok(body) = serde_json::to_vec(&event) {
            self.publish(body.into()).await;
        }
    }

    async fn publish(&mut self, body: Bytes) {
        let Some(key) = self.key else { return };
        // Without a lease nothing of the run counts, and its client may hear of another attempt already.
        if self.entry.check().is_err() {
            return;
        }
        self.ctx.moves(self.work, body.len().max(LEAST));
        let message = bus::Message { mandatory: false, ..reply(self.work, key, body, false) };
        self.sent = true;
        lost(tokio::time::timeout(EVENT_WITHIN, self.ctx.bus.publish(message)).await);
        self.untaken += 1;
        if self.untaken >= UNTAKEN {
            self.untaken = 0;
            lost(tokio::time::timeout(EVENT_WITHIN, self.ctx.bus.flush()).await);
        }
    }
}

/// Says so where an event may be lost: that costs nothing but the event.
fn lost<T>(sent: Result<Result<T, bus::Error>, Elapsed>) {
    match sent {
        Ok(Ok(_)) => {}
        Ok(Err(e)) => tracing::debug!(error = %e, "a streamed event may be lost; the result has it all"),
        Err(e) => tracing::debug!(error = %e, "a streamed event may be lost; the result has it all"),
    }
}

/// Bytes at the end that are the beginning of a character.
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
