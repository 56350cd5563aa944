//! A connection, encrypted or not, for libraries that implement a protocol on a stream.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::Error;

/// A connection. A TLS error may come late: some servers refuse our certificate only after the handshake. It then has
/// the same message as an error of the handshake.
#[derive(Debug)]
pub struct Stream(Kind);

#[derive(Debug)]
enum Kind {
    Plain(TcpStream),
    Encrypted { tls: Box<TlsStream<TcpStream>>, at: Arc<str> },
}

impl Stream {
    pub(super) fn plain(tcp: TcpStream) -> Self {
        Self(Kind::Plain(tcp))
    }

    pub(super) fn encrypted(tls: TlsStream<TcpStream>, at: Arc<str>) -> Self {
        Self(Kind::Encrypted { tls: Box::new(tls), at })
    }
}

/// Replaces the library's error by ours, which says what to do.
fn explained(error: io::Error, at: &str) -> io::Error {
    match Error::of(error, at, None) {
        Error::Io { source, .. } => source,
        refused => io::Error::new(io::ErrorKind::InvalidData, refused),
    }
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Kind::Plain(tcp) => Pin::new(tcp).poll_read(cx, to),
            Kind::Encrypted { tls, at } => {
                let read = ready!(Pin::new(tls).poll_read(cx, to));
                Poll::Ready(read.map_err(|error| explained(error, at)))
            }
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            Kind::Plain(tcp) => Pin::new(tcp).poll_write(cx, bytes),
            Kind::Encrypted { tls, .. } => Pin::new(tls).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            Kind::Plain(tcp) => Pin::new(tcp).poll_write_vectored(cx, slices),
            Kind::Encrypted { tls, .. } => Pin::new(tls).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Kind::Plain(tcp) => Pin::new(tcp).poll_flush(cx),
            Kind::Encrypted { tls, .. } => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Kind::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Kind::Encrypted { tls, .. } => Pin::new(tls).poll_shutdown(cx),
        }
    }
}
