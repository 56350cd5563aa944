//! How to reach Redis.

use std::fmt;
use std::time::Duration;

use redis::{ConnectionInfo, IntoConnectionInfo};

use crate::registry::Error;

/// How to reach Redis.
#[derive(Clone)]
pub struct RedisOptions {
    /// `redis://user:password@host:port/db`. Never logged.
    pub url: String,
    /// Prefix of every key and of the channel of notices: fleets that share a Redis have different ones.
    pub prefix: String,
    /// How long [`super::Redis::connect`] waits for a Redis that does not answer; `None`: for ever.
    pub deadline: Option<Duration>,
    /// How long a command may take before the connection counts as lost.
    pub response_timeout: Duration,
    /// How long after the beginning of an epoch a session that nobody knows is not made anew, because its worker may yet
    /// announce it: longer than the time between two heartbeats.
    pub announce_grace: Duration,
}

impl RedisOptions {
    /// The defaults for this URL: prefix `thermae:`, waits for ever.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            prefix: "thermae:".to_owned(),
            deadline: None,
            response_timeout: Duration::from_secs(5),
            announce_grace: Duration::from_secs(5),
        }
    }

    pub(super) fn info(&self) -> Result<ConnectionInfo, Error> {
        // The parser's own message could repeat the password.
        let info = self.url.as_str().into_connection_info().map_err(|_| {
            Error::Unfit("the registry's URL is not of the form redis://user:password@host:port/db".to_owned())
        })?;
        let tcp = info.tcp_settings().clone().set_nodelay(true);
        Ok(info.set_tcp_settings(tcp))
    }
}

impl fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.info().map_or_else(|_| "invalid URL".to_owned(), |info| info.addr().to_string());
        f.debug_struct("RedisOptions").field("at", &at).field("prefix", &self.prefix).finish_non_exhaustive()
    }
}
