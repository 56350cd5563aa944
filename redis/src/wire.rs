//! Streams to Redis, and to the sentinels that know which Redis is the primary.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use redis::aio::{MultiplexedConnection, PubSub};
use redis::{AsyncConnectionConfig, ErrorKind, RedisConnectionInfo, RedisError, ServerErrorKind};
use thermae_service::tls::{self, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio_util::task::AbortOnDropHandle;

use super::options::{RedisOptions, Servers, Target};
use thermae_backplane::registry::Error;

/// The address of the primary at this moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ServerAddr {
    At(String, u16),
    Socket(std::path::PathBuf),
}

impl std::fmt::Display for ServerAddr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::At(host, port) => write!(f, "{host}:{port}"),
            Self::Socket(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Finds the primary. The sentinels are asked again for every connection.
pub(super) async fn address(target: &Target, options: &RedisOptions) -> Result<ServerAddr, Error> {
    let (hosts, name) = match &target.servers {
        Servers::At(host, port) => return Ok(ServerAddr::At(host.clone(), *port)),
        Servers::Socket(path) => return Ok(ServerAddr::Socket(path.clone())),
        Servers::Sentinels { hosts, name } => (hosts, name),
    };
    let mut said = Error::Disconnected("no sentinel is named".to_owned());
    for (host, port) in hosts {
        match ask(host, *port, name, target, options).await {
            Ok((host, port)) => return Ok(ServerAddr::At(host, port)),
            Err(error) => said = error,
        }
    }
    Err(said)
}

/// Asks one sentinel.
async fn ask(
    host: &str,
    port: u16,
    name: &str,
    target: &Target,
    options: &RedisOptions,
) -> Result<(String, u16), Error> {
    let stream = options.tls.connect(host, port, target.wire, &[]).await.map_err(|error| failed(&error))?;
    let mut login = RedisConnectionInfo::default();
    if let Some(password) = &options.sentinel_password {
        login = login.set_password(password.expose());
    }
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(options.response_timeout));
    let (mut connection, driver) =
        MultiplexedConnection::new_with_config(&login, stream, config).await.map_err(|error| mapped(&error))?;
    let _driver = AbortOnDropHandle::new(tokio::spawn(driver));
    let answer = redis::cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(name).query_async(&mut connection).await;
    let found: Option<(String, u16)> = answer.map_err(|error| mapped(&error))?;
    found.ok_or_else(|| Error::Unfit(format!("the sentinel at {host}:{port} knows no primary named {name:?}")))
}

/// A connection for commands. It ends when its last handle is dropped.
pub(super) async fn commands(
    address: &ServerAddr,
    target: &Target,
    options: &RedisOptions,
    config: AsyncConnectionConfig,
) -> Result<MultiplexedConnection, Error> {
    let stream = open(address, target, options).await?;
    let made = MultiplexedConnection::new_with_config(&target.login, stream, config).await;
    let (connection, driver) = made.map_err(|error| mapped(&error))?;
    tokio::spawn(driver);
    Ok(connection)
}

/// A connection for notices.
pub(super) async fn notices(address: &ServerAddr, target: &Target, options: &RedisOptions) -> Result<PubSub, Error> {
    let stream = open(address, target, options).await?;
    PubSub::new(&target.login, stream).await.map_err(|error| mapped(&error))
}

async fn open(address: &ServerAddr, target: &Target, options: &RedisOptions) -> Result<Either, Error> {
    match address {
        ServerAddr::At(host, port) => {
            let opened = options.tls.connect(host, *port, target.wire, &[]).await;
            opened.map(Either::Tcp).map_err(|error| failed(&error))
        }
        ServerAddr::Socket(path) => {
            let opened = UnixStream::connect(path).await;
            opened.map(Either::Unix).map_err(|error| Error::Disconnected(format!("{}: {error}", path.display())))
        }
    }
}

fn failed(error: &tls::Error) -> Error {
    match error.is_final() {
        true => Error::Unfit(error.to_string()),
        false => Error::Disconnected(error.to_string()),
    }
}

#[derive(Debug)]
enum Either {
    Tcp(Stream),
    Unix(UnixStream),
}

impl AsyncRead for Either {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, to),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, to),
        }
    }
}

impl AsyncWrite for Either {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Self::Unix(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

/// The registry's error for an error of Redis.
pub(super) fn mapped(error: &RedisError) -> Error {
    if let Some(refusal) = tls::refusal(error) {
        return Error::Unfit(refusal.to_string());
    }
    let text = error.to_string();
    match error.kind() {
        ErrorKind::AuthenticationFailed | ErrorKind::InvalidClientConfig => Error::Unfit(text),
        ErrorKind::Server(ServerErrorKind::NoPerm | ServerErrorKind::ReadOnly) => Error::Unfit(text),
        ErrorKind::Server(ServerErrorKind::ResponseError) => Error::Corrupt(text),
        ErrorKind::UnexpectedReturnType | ErrorKind::Parse => Error::Corrupt(text),
        _ => match error.code() {
            Some("OOM") => Error::Full,
            Some("MISCONF" | "NOAUTH" | "WRONGPASS" | "NOREPLICAS") => Error::Unfit(text),
            Some("WRONGTYPE") => Error::Corrupt(text),
            _ => Error::Disconnected(text),
        },
    }
}
