//! How to reach Redis.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use redis::{ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo};
use thermae_service::secret::Secret;
use thermae_service::tls::{Tls, Wire};

use thermae_backplane::registry::Error;

/// The default port of sentinels.
const SENTINEL_PORT: u16 = 26379;

/// How to reach Redis.
#[derive(Clone)]
pub struct RedisOptions {
    /// `redis://user:password@host:port/db`, or `rediss://…` for TLS. With Sentinel,
    /// `redis+sentinel://user:password@host:port,host:port/name/db` (or `rediss+sentinel://…`): the hosts of the
    /// sentinels, and the name that they use for the primary. Never logged.
    pub url: String,
    /// Password that replaces the one in the URL. Never logged.
    pub password: Option<Secret>,
    /// Password for the sentinels, if they need one. Never logged.
    pub sentinel_password: Option<Secret>,
    /// The settings for TLS, used with `rediss://`.
    pub tls: Tls,
    /// Prefix of every key and of the channel of notices. Fleets that share a Redis need different ones.
    pub prefix: String,
    /// How long [`super::Redis::connect`] waits for a Redis that does not answer. `None` means without a limit.
    pub deadline: Option<Duration>,
    /// How long a command may take before the connection counts as lost.
    pub response_timeout: Duration,
    /// Whether this process receives notices. One is sent for every job that ends, so only processes that act on
    /// notices should receive them.
    pub notices: bool,
    /// After an epoch has begun, how long a session without a record is not created again. Its worker may still
    /// announce it, so this must be longer than the time between two heartbeats.
    pub announce_grace: Duration,
}

/// What a URL says.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) servers: Servers,
    pub(super) wire: Wire,
    /// Database and credentials.
    pub(super) login: RedisConnectionInfo,
}

/// Where the Redis is that accepts writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Servers {
    /// At this host and port.
    At(String, u16),
    /// Behind this Unix socket.
    Socket(PathBuf),
    /// At the address that the sentinels name.
    Sentinels { hosts: Vec<(String, u16)>, name: String },
}

impl RedisOptions {
    /// The defaults for this URL: the prefix `thermae:`, no deadline, and notices are received.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            password: None,
            sentinel_password: None,
            tls: Tls::default(),
            prefix: "thermae:".to_owned(),
            deadline: None,
            response_timeout: Duration::from_secs(5),
            notices: true,
            announce_grace: Duration::from_secs(5),
        }
    }

    pub(super) fn target(&self) -> Result<Target, Error> {
        // The parser's own message could repeat the password.
        let mut target = parse(&self.url).ok_or_else(|| {
            Error::Unfit(
                "the registry's URL is not of the form redis://user:password@host:port/db (or rediss://…), nor of \
                 redis+sentinel://user:password@host:port,host:port/name/db (or rediss+sentinel://…)"
                    .to_owned(),
            )
        })?;
        if let Some(password) = &self.password {
            target.login = target.login.set_password(password.expose());
        }
        Ok(target)
    }
}

fn parse(url: &str) -> Option<Target> {
    let (scheme, rest) = url.split_once("://")?;
    // `#insecure` would ask the library to trust any certificate.
    if rest.contains('#') {
        return None;
    }
    let wire = if scheme.starts_with("rediss") { Wire::Encrypted } else { Wire::Plain };
    match scheme {
        // The library is built without TLS, and reads what is left when the encryption is taken care of.
        "redis" | "rediss" => one(&format!("redis://{rest}"), wire),
        "unix" | "redis+unix" => one(url, wire),
        "redis+sentinel" | "rediss+sentinel" => sentinels(rest, wire),
        _ => None,
    }
}

fn one(url: &str, wire: Wire) -> Option<Target> {
    let info = url.into_connection_info().ok()?;
    let servers = match info.addr() {
        ConnectionAddr::Tcp(host, port) => Servers::At(host.clone(), *port),
        ConnectionAddr::Unix(path) => Servers::Socket(path.clone()),
        _ => return None,
    };
    Some(Target { servers, wire, login: info.redis_settings().clone() })
}

/// Parses `user:password@host:port,host:port/name/db`.
fn sentinels(rest: &str, wire: Wire) -> Option<Target> {
    let (authority, path) = rest.split_once('/')?;
    let (user, hosts) =
        authority.rsplit_once('@').map_or((String::new(), authority), |(user, hosts)| (format!("{user}@"), hosts));
    let (name, db) = path.split_once('/').unwrap_or((path, ""));
    let login = one(&format!("redis://{user}sentinel/{db}"), wire)?.login;
    let host = |host: &str| match one(&format!("redis://{host}"), wire)?.servers {
        Servers::At(name, port) if host.ends_with(&format!(":{port}")) => Some((name, port)),
        Servers::At(name, _) => Some((name, SENTINEL_PORT)),
        _ => None,
    };
    let hosts = hosts.split(',').map(host).collect::<Option<Vec<_>>>()?;
    let servers = Servers::Sentinels { hosts, name: Some(name.to_owned()).filter(|name| !name.is_empty())? };
    Some(Target { servers, wire, login })
}

impl Target {
    /// The error for a Redis that is a replica. Sentinels make it the primary after a moment; without sentinels,
    /// nothing does.
    pub(super) fn replica(&self, place: &impl fmt::Display) -> Error {
        match self.servers {
            Servers::Sentinels { .. } => Error::Disconnected(format!("the Redis at {place} is not the primary yet")),
            _ => Error::Unfit(format!("the Redis at {place} is a replica: it can't be written")),
        }
    }
}

/// Where it is, for logs.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.servers {
            Servers::At(host, port) => write!(f, "{host}:{port}"),
            Servers::Socket(path) => write!(f, "{}", path.display()),
            Servers::Sentinels { hosts, name } => {
                let hosts: Vec<_> = hosts.iter().map(|(host, port)| format!("{host}:{port}")).collect();
                write!(f, "{name:?} of the sentinels {}", hosts.join(", "))
            }
        }
    }
}

impl fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.target().map_or_else(|_| "invalid URL".to_owned(), |target| target.to_string());
        f.debug_struct("RedisOptions").field("at", &at).field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str) -> Option<(String, Wire, i64, Option<String>)> {
        let target = RedisOptions::new(url).target().ok()?;
        let password = target.login.password().map(str::to_owned);
        Some((target.to_string(), target.wire, target.login.db(), password))
    }

    #[test]
    fn a_url_says_where_how_and_as_whom() {
        let some =
            |at: &str, wire, db, password: Option<&str>| Some((at.to_owned(), wire, db, password.map(str::to_owned)));
        assert_eq!(target("redis://h"), some("h:6379", Wire::Plain, 0, None));
        assert_eq!(target("rediss://u:p@h:1/2"), some("h:1", Wire::Encrypted, 2, Some("p")));
        assert_eq!(target("unix:///run/redis"), some("/run/redis", Wire::Plain, 0, None));
        assert_eq!(
            target("redis+sentinel://:p@a,b:99/main"),
            some("\"main\" of the sentinels a:26379, b:99", Wire::Plain, 0, Some("p"))
        );
        assert_eq!(
            target("rediss+sentinel://a/main/3"),
            some("\"main\" of the sentinels a:26379", Wire::Encrypted, 3, None)
        );
        for bad in [
            "",
            "h",
            "http://h",
            "rediss://h/#insecure",
            "redis+sentinel://a",
            "redis+sentinel://a/",
            "redis+sentinel:///x",
        ] {
            assert_eq!(target(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_password_of_its_own_wins_and_neither_is_shown() {
        let options = RedisOptions { password: Some("hunter2".into()), ..RedisOptions::new("redis://u:hunter1@h") };
        assert_eq!(options.target().unwrap().login.password(), Some("hunter2"));
        assert!(!format!("{options:?}").contains("hunter"));
    }
}
