//! Opens the stream to a broker, encrypted or plain as the URL says. The AMQP library is built without TLS and would
//! open a plain connection for `amqps://`. So it never opens one itself: it gets a stream that [`thermae_service::tls`]
//! made.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_rs::traits::{Executor, Reactor, RuntimeKit};
use async_rs::util::Task;
use async_rs::{Runtime, Tokio};
use futures::io::{AsyncRead, AsyncWrite};
use futures::stream::Stream as Items;
use lapin::uri::{AMQPScheme, AMQPUri};
use lapin::{AsyncTcpStream, Connection, ConnectionProperties};
use thermae_service::tls::{self, Stream, Tls, Wire};
use tokio_util::compat::{Compat, TokioAsyncReadCompatExt};

use super::errors::mapped;
use super::frames::Frames;
use crate::bus::Error;

/// The bus's error for a connection that could not be opened.
pub(super) fn failed(error: &tls::Error) -> Error {
    match error.is_final() {
        true => Error::Denied(error.to_string()),
        false => Error::Disconnected(error.to_string()),
    }
}

/// Connects to a broker and logs in.
pub(super) async fn connect(uri: AMQPUri, properties: ConnectionProperties, tls: &Tls) -> Result<Connection, Error> {
    let wire = match uri.scheme {
        AMQPScheme::AMQP => Wire::Plain,
        AMQPScheme::AMQPS => Wire::Encrypted,
    };
    let stream = tls.connect(&uri.authority.host, uri.authority.port, wire, &[]).await.map_err(|e| failed(&e))?;
    // The library asks for a stream only once, because its own reconnecting is off.
    let stream = Mutex::new(Some(Frames::new(stream.compat())));
    let give = async move |_: AMQPUri, _: Runtime<Kit>| {
        let stream = stream.lock().unwrap_or_else(PoisonError::into_inner).take();
        let stream = stream.ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected))?;
        Ok(AsyncTcpStream::Plain(stream))
    };
    let runtime = Runtime::new(Kit(Tokio::current()));
    Connection::connector(uri, runtime, give, properties).await.map_err(|error| mapped(&error))
}

/// Tokio as the library's runtime, with streams of type [`Frames`].
#[derive(Debug, Clone)]
struct Kit(Tokio);

impl RuntimeKit for Kit {}

impl Executor for Kit {
    type Task<T: Send + 'static> = <Tokio as Executor>::Task<T>;

    fn block_on<T, F: Future<Output = T>>(&self, f: F) -> T {
        self.0.block_on(f)
    }

    fn spawn<T: Send + 'static, F: Future<Output = T> + Send + 'static>(&self, f: F) -> Task<Self::Task<T>> {
        self.0.spawn(f)
    }

    fn spawn_blocking<T: Send + 'static, F: FnOnce() -> T + Send + 'static>(&self, f: F) -> Task<Self::Task<T>> {
        self.0.spawn_blocking(f)
    }
}

impl Reactor for Kit {
    type TcpStream = Frames<Compat<Stream>>;
    type Sleep = <Tokio as Reactor>::Sleep;

    // The library opens no connection itself, neither with this nor with `tcp_connect_addr`.
    fn register<H: Read + Write + Send + 'static>(
        &self,
        _: H,
    ) -> io::Result<impl AsyncRead + AsyncWrite + Send + Unpin + 'static> {
        Err::<Self::TcpStream, _>(io::Error::from(io::ErrorKind::Unsupported))
    }

    fn sleep(&self, dur: Duration) -> Self::Sleep {
        self.0.sleep(dur)
    }

    fn interval(&self, dur: Duration) -> impl Items<Item = Instant> + Send + 'static {
        self.0.interval(dur)
    }

    fn tcp_connect_addr(&self, _: SocketAddr) -> impl Future<Output = io::Result<Self::TcpStream>> + Send + 'static {
        std::future::ready(Err(io::Error::from(io::ErrorKind::Unsupported)))
    }
}
