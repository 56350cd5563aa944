//! How to reach RabbitMQ.

use std::fmt;
use std::time::Duration;

use lapin::uri::AMQPUri;
use thermae_service::secret::Secret;
use thermae_service::tls::Tls;

use crate::bus::Error;

/// How to reach RabbitMQ.
#[derive(Clone)]
pub struct RabbitOptions {
    /// `amqp://user:password@host:port/vhost`, or `amqps://…` for TLS. `%2f` is the vhost `/`. Several hosts of one
    /// cluster are separated by commas (`host:port,host:port`). They are tried in that order whenever a connection is
    /// needed. Never logged.
    pub url: String,
    /// Password that replaces the one in the URL. Never logged.
    pub password: Option<Secret>,
    /// The settings for TLS, used with `amqps://`.
    pub tls: Tls,
    /// Name of this connection in RabbitMQ's own lists.
    pub name: String,
    /// How long [`super::Rabbit::connect`] waits for a broker that does not answer. `None` means without a limit.
    pub deadline: Option<Duration>,
    /// Silence after which either side considers the connection dead.
    pub heartbeat: Duration,
}

impl RabbitOptions {
    /// The defaults for this URL: no deadline, and a heartbeat of 10 s.
    pub fn new(url: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            password: None,
            tls: Tls::default(),
            name: name.into(),
            deadline: None,
            heartbeat: Duration::from_secs(10),
        }
    }

    /// One URI for each host, in the order of the hosts. There is at least one.
    pub(super) fn uris(&self) -> Result<Vec<AMQPUri>, Error> {
        hosts(&self.url).iter().map(|url| self.uri(url)).collect()
    }

    /// The user that connects. It is the same on every host.
    pub(super) fn user(&self) -> Result<String, Error> {
        Ok(self.uris()?.swap_remove(0).authority.userinfo.username)
    }

    fn uri(&self, url: &str) -> Result<AMQPUri, Error> {
        // The parser's own message could repeat the password.
        let mut uri: AMQPUri = url.parse().map_err(|_| {
            Error::Denied(
                "the broker's URL is not of the form amqp://user:password@host:port/vhost (or amqps://…)".to_owned(),
            )
        })?;
        // The parser takes an address of IPv6 for no host, and then says localhost.
        if let Some(address) = ipv6(url) {
            uri.authority.host = address.to_owned();
        }
        if let Some(password) = &self.password {
            uri.authority.userinfo.password = password.expose().to_owned();
        }
        if uri.query.heartbeat.is_none() {
            uri.query.heartbeat = Some(self.heartbeat.as_secs().clamp(1, u16::MAX.into()) as u16);
        }
        Ok(uri)
    }
}

/// One URL for each host that this URL names.
pub(crate) fn hosts(url: &str) -> Vec<String> {
    let Some((scheme, rest)) = url.split_once("://") else { return vec![url.to_owned()] };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let (user, hosts) = match authority.rsplit_once('@') {
        Some((user, hosts)) => (format!("{user}@"), hosts),
        None => (String::new(), authority),
    };
    hosts.split(',').map(|host| format!("{scheme}://{user}{host}{path}")).collect()
}

/// The host of this URL, if it is an address of IPv6 in brackets.
fn ipv6(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    Some(host.strip_prefix('[')?.split_once(']')?.0)
}

/// Host and port, for logs.
pub(super) fn place(uri: &AMQPUri) -> String {
    let (host, port) = (&uri.authority.host, uri.authority.port);
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Hosts and ports, for logs.
pub(super) fn places(uris: &[AMQPUri]) -> String {
    uris.iter().map(place).collect::<Vec<_>>().join(", ")
}

impl fmt::Debug for RabbitOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.uris().map_or_else(|_| "invalid URL".to_owned(), |uris| places(&uris));
        f.debug_struct("RabbitOptions").field("at", &at).field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_share_all_but_their_names() {
        let uris = RabbitOptions::new("amqps://u:p@a,b:99,c/v", "test").uris().unwrap();
        assert_eq!(places(&uris), "a:5671, b:99, c:5671");
        assert!(uris.iter().all(|uri| uri.authority.userinfo.password == "p" && uri.vhost == "v"));
        assert_eq!(places(&RabbitOptions::new("amqp://a", "test").uris().unwrap()), "a:5672");
        let uris = RabbitOptions::new("amqp://u:p%5B@[2001:db8::1],[::1]:99/v", "test").uris().unwrap();
        assert_eq!(places(&uris), "[2001:db8::1]:5672, [::1]:99");
        assert_eq!(uris[0].authority.host, "2001:db8::1");
    }

    #[test]
    fn a_password_of_its_own_wins_and_neither_is_shown() {
        let options = RabbitOptions {
            password: Some("hunter2".into()),
            ..RabbitOptions::new("amqp://u:hunter1@a,b/%2f", "test")
        };
        assert_eq!(options.uris().unwrap()[1].authority.userinfo.password, "hunter2");
        let shown = format!("{options:?} {:?}", RabbitOptions::new("amqp://u:hunter1@a,:/x", "test"));
        assert!(!shown.contains("hunter") && shown.contains("b:5672"), "{shown}");
    }
}
