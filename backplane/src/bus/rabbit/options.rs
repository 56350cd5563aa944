//! How to reach RabbitMQ.

use std::fmt;
use std::time::Duration;

use lapin::uri::AMQPUri;

use crate::bus::Error;

/// How to reach RabbitMQ.
#[derive(Clone)]
pub struct RabbitOptions {
    /// `amqp://user:password@host:port/vhost`; `%2f` is the vhost `/`. Never logged.
    pub url: String,
    /// What RabbitMQ's own lists call this connection.
    pub name: String,
    /// How long [`super::Rabbit::connect`] waits for a broker that does not answer; `None`: for ever.
    pub deadline: Option<Duration>,
    /// Silence after which either side takes the connection for dead.
    pub heartbeat: Duration,
}

impl RabbitOptions {
    /// The defaults for this URL: waits for ever, heartbeat 10 s.
    pub fn new(url: impl Into<String>, name: impl Into<String>) -> Self {
        Self { url: url.into(), name: name.into(), deadline: None, heartbeat: Duration::from_secs(10) }
    }

    pub(super) fn uri(&self) -> Result<AMQPUri, Error> {
        // The parser's own message could repeat the password.
        let mut uri: AMQPUri = self.url.parse().map_err(|_| {
            Error::Denied("the broker's URL is not of the form amqp://user:password@host:port/vhost".to_owned())
        })?;
        if uri.query.heartbeat.is_none() {
            uri.query.heartbeat = Some(self.heartbeat.as_secs().clamp(1, u16::MAX.into()) as u16);
        }
        Ok(uri)
    }
}

/// Host and port, for logs.
pub(super) fn place(uri: &AMQPUri) -> String {
    format!("{}:{}", uri.authority.host, uri.authority.port)
}

impl fmt::Debug for RabbitOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.uri().map_or_else(|_| "invalid URL".to_owned(), |uri| place(&uri));
        f.debug_struct("RabbitOptions").field("at", &at).field("name", &self.name).finish_non_exhaustive()
    }
}
