//! What has come of an SDK's message. A message can be large and come slowly, or never become whole, so its bytes count
//! as they come.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use thermae_bridge::Holds as _;
use tokio::io::{AsyncRead, ReadBuf};

use super::share::Share;

/// The bytes of the message that is arriving.
pub(super) struct Arriving {
    bytes: AtomicUsize,
    share: Share,
}

/// No more bytes of the message may be held.
#[derive(Debug, thiserror::Error)]
#[error("no more of a message may be held in memory")]
pub(super) struct NoRoom;

/// A connection, the bytes of which count.
pub(super) struct Counted<S> {
    stream: S,
    arriving: Arc<Arriving>,
}

impl Arriving {
    pub(super) fn new(share: Share) -> Arc<Self> {
        Arc::new(Self { bytes: AtomicUsize::new(0), share })
    }

    /// Counts the bytes of this connection.
    pub(super) fn of<S>(self: &Arc<Self>, stream: S) -> Counted<S> {
        Counted { stream, arriving: self.clone() }
    }

    /// The message is whole. Whoever has it counts it from now on.
    pub(super) fn is_whole(&self) {
        self.bytes.store(0, Ordering::Relaxed);
        self.share.hold(0);
    }

    fn more(&self, bytes: usize) -> io::Result<()> {
        let all = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if self.share.hold(all) { Ok(()) } else { Err(io::Error::other(NoRoom)) }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        let more = self.arriving.more(buf.filled().len() - before);
        if more.is_err() {
            // Nothing is read if there is an error.
            buf.set_filled(before);
        }
        Poll::Ready(more)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::Metrics;
    use crate::budget::Budget;

    #[tokio::test]
    async fn bytes_count_until_their_message_is_whole() {
        let metrics = Metrics::new(&prometheus::Registry::new()).unwrap();
        let budget = Budget::new(16 << 20, &metrics);
        let arriving = Arriving::new(Share::new(budget.hold(), 16 << 20, metrics.clone()));
        let (mut ours, theirs) = tokio::io::duplex(8 << 20);
        let mut counted = arriving.of(theirs);
        ours.write_all(&vec![0; 8 << 20]).await.unwrap();
        let mut read = vec![0; 3 << 20];
        counted.read_exact(&mut read).await.unwrap();
        assert_eq!(metrics.held.get(), 3 << 20);
        arriving.is_whole();
        assert_eq!(metrics.held.get(), 0);
        // A connection may hold a quarter.
        let error = counted.read_to_end(&mut read).await.unwrap_err();
        assert!(error.get_ref().is_some_and(|cause| cause.is::<NoRoom>()), "{error}");
        drop((counted, arriving));
        assert_eq!(metrics.held.get(), 0);
    }
}
