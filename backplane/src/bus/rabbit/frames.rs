//! Checks what the broker sends, frame by frame, before the AMQP library reads it.
//!
//! A tenant writes a message's properties, headers and routing key, and the broker passes them on unchanged. The
//! library is not made for hostile input. It reads nested headers by recursion on a stack of two megabytes, and 26,000
//! levels in one frame exceed that. That would end the process that consumes the message. It also gives up the
//! connection if a name is not UTF-8. In both cases, the next consumer would get the message and fail in the same way.
//! So this module makes such frames harmless, in place (see [`tame`]).

mod tame;
#[cfg(test)]
mod tests;

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use futures::io::{AsyncRead, AsyncWrite};

/// Length of a frame's head: type, channel and length of the payload.
const HEAD: usize = 7;
/// Length of the mark at the end of each frame.
const END: usize = 1;
/// Most bytes that one read takes.
const CHUNK: usize = 16 * 1024;
/// Largest payload of a frame that is checked. The broker and the library agree on 128 KiB.
const LARGEST: usize = 1 << 20;

/// A stream from a broker whose frames can't harm the library.
#[derive(Debug)]
pub(super) struct Frames<S> {
    inner: S,
    arrived: Arrived,
}

impl<S> Frames<S> {
    pub(super) fn new(inner: S) -> Self {
        Self { inner, arrived: Arrived::default() }
    }
}

/// Bytes that have arrived and that the library hasn't read yet.
#[derive(Debug, Default)]
struct Arrived {
    bytes: BytesMut,
    /// How many of these bytes the library may read.
    good: usize,
    /// How many of the bytes after those belong to a frame that needs no check.
    skip: usize,
}

impl Arrived {
    /// Checks all frames that have arrived whole.
    fn look(&mut self) -> io::Result<()> {
        loop {
            let rest = &mut self.bytes[self.good..];
            let skipped = self.skip.min(rest.len());
            (self.good, self.skip) = (self.good + skipped, self.skip - skipped);
            let rest = &mut rest[skipped..];
            let Some((head, _)) = rest.split_first_chunk::<HEAD>() else { return Ok(()) };
            let [kind, _, _, length @ ..] = *head;
            let length = u32::from_be_bytes(length) as usize;
            let whole = HEAD + length + END;
            if !tame::concerns(kind) {
                self.skip = whole;
                continue;
            }
            if length > LARGEST {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the broker sent a frame that is too large"));
            }
            if rest.len() < whole {
                return Ok(());
            }
            tame::frame(kind, &mut rest[HEAD..HEAD + length]);
            self.good += whole;
        }
    }

    fn read(&mut self, to: &mut [u8]) -> usize {
        let n = self.good.min(to.len());
        self.bytes.copy_to_slice(&mut to[..n]);
        self.good -= n;
        n
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Frames<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut [u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        while this.arrived.good == 0 && !to.is_empty() {
            let before = this.arrived.bytes.len();
            this.arrived.bytes.resize(before + CHUNK, 0);
            let read = Pin::new(&mut this.inner).poll_read(cx, &mut this.arrived.bytes[before..]);
            let n = if let Poll::Ready(Ok(n)) = &read { *n } else { 0 };
            this.arrived.bytes.truncate(before + n);
            if ready!(read)? == 0 {
                return Poll::Ready(Ok(0));
            }
            this.arrived.look()?;
        }
        Poll::Ready(Ok(this.arrived.read(to)))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Frames<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, slices)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_close(cx)
    }
}
