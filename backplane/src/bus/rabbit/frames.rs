//! What the broker sends, looked at frame by frame before the AMQP library reads it.
//!
//! A tenant writes a message's properties, its headers and its routing key, and the broker passes them on as they are. The library
//! is not made for enemies: it reads nested headers by recursion, on a stack of two megabytes, which 26,000 levels in one frame exceed,
//! and it gives a connection up at a name that is not UTF-8. Either would end whoever consumes the message, and whoever gets it next.
//! So such frames are made harmless here, in place: [`tame`].

mod tame;
#[cfg(test)]
mod tests;

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use futures::io::{AsyncRead, AsyncWrite};

/// Type, channel and length.
const HEAD: usize = 7;
/// What stands behind each frame.
const END: usize = 1;
/// Most bytes read at once.
const CHUNK: usize = 16 * 1024;
/// A frame that is looked at is never larger: the broker and the library agree on 128 KiB.
const LARGEST: usize = 1 << 20;

/// A connection to a broker whose frames can't harm the library.
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

/// What has arrived and was not read yet.
#[derive(Debug, Default)]
struct Arrived {
    bytes: BytesMut,
    /// How many of them may be read.
    good: usize,
    /// How many of those that follow belong to a frame that need not be looked at.
    skip: usize,
}

impl Arrived {
    /// Looks at all frames that are there whole.
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
