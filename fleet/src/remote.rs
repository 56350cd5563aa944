//! A real fleet, over AMQP, for one of its tenants.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use thermae_backplane::bus::{self, Rabbit, RabbitOptions, SharedBus};
use thermae_client::Client;
use thermae_schemas::TenantName;
use thermae_service::secret::Secret;
use thermae_service::tls::Tls;
use tokio::time::Instant;

use crate::{Error, Fleet};

/// How much longer than the timeout the last step may take, so that its own error, if it has one, is reported.
const MARGIN: Duration = Duration::from_millis(200);

/// Pause between two tries while no scheduler takes jobs.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// Which fleet to connect to, and as whom.
///
/// ```
/// use thermae_fleet::{RemoteOptions, Secret, Tls};
///
/// let options = RemoteOptions {
///     amqp_password: Some(Secret::from("secret")),
///     tls: Tls { ca: Some("/etc/fleet/ca.pem".into()), ..Tls::default() },
///     ..RemoteOptions::new("amqps://acme@fleet.example")
/// };
/// assert_eq!(options.host(), "fleet.example:5671");
/// assert_eq!(options.user().as_deref(), Some("acme"));
/// ```
#[derive(Debug, Clone)]
pub struct RemoteOptions {
    /// URL of the fleet's RabbitMQ: `amqp://user:password@host:port/vhost`, or `amqps://…` for TLS. Several hosts are
    /// separated by commas.
    pub amqp: Secret,
    /// Password that replaces the one in the URL.
    pub amqp_password: Option<Secret>,
    /// The authorities to trust for `amqps://`, and the client certificate.
    pub tls: Tls,
    /// Tenant to act as; by default, the user in the URL.
    pub tenant: Option<String>,
    /// How long to wait for a fleet that doesn't answer.
    pub connect_timeout: Duration,
}

impl RemoteOptions {
    /// Options for the fleet with this URL, with the user and password in it, the system's authorities and a timeout of
    /// 30 s.
    pub fn new(amqp: impl Into<Secret>) -> Self {
        Self {
            amqp: amqp.into(),
            amqp_password: None,
            tls: Tls::default(),
            tenant: None,
            connect_timeout: Duration::from_secs(30),
        }
    }

    /// The user in the URL, which may be empty. `None` if the URL is malformed.
    pub fn user(&self) -> Option<String> {
        Endpoint::of(self.amqp.expose()).ok().map(|endpoint| endpoint.user)
    }

    /// Host and port in the URL, for messages to people; `?` if the URL is malformed. Never contains the password.
    pub fn host(&self) -> String {
        Endpoint::of(self.amqp.expose()).map_or_else(|_| "?".to_owned(), |endpoint| endpoint.host)
    }
}

impl From<&str> for RemoteOptions {
    fn from(amqp: &str) -> Self {
        Self::new(amqp)
    }
}

impl From<String> for RemoteOptions {
    fn from(amqp: String) -> Self {
        Self::new(amqp)
    }
}

impl From<Secret> for RemoteOptions {
    fn from(amqp: Secret) -> Self {
        Self::new(amqp)
    }
}

/// Connects. Boxed, so that this crate compiles it, and not each program that connects.
pub(crate) fn connect(options: RemoteOptions) -> BoxFuture<'static, Result<Fleet, Error>> {
    Box::pin(connect_in_time(options))
}

async fn connect_in_time(options: RemoteOptions) -> Result<Fleet, Error> {
    options.tls.check()?;
    let (host, timeout) = (Endpoint::of(options.amqp.expose())?.host, options.connect_timeout);
    let why = "it accepts connections, but does not answer".to_owned();
    // If a port is open and silent, the AMQP library waits for the greeting for a time of its own, which can't be
    // changed.
    let within = tokio::time::timeout(timeout + MARGIN, connected(options)).await;
    within.unwrap_or(Err(Error::Unreachable { host, within: timeout, why }))
}

async fn connected(options: RemoteOptions) -> Result<Fleet, Error> {
    let RemoteOptions { amqp, amqp_password, tls, tenant, connect_timeout } = options;
    let endpoint = Endpoint::of(amqp.expose())?;
    let name = tenant.unwrap_or_else(|| endpoint.user.clone());
    if name.is_empty() {
        return Err(Error::NoTenant);
    }
    let tenant = TenantName::new(name).map_err(Error::Tenant)?;
    let deadline = Instant::now() + connect_timeout;
    let options = RabbitOptions {
        password: amqp_password,
        tls,
        deadline: Some(connect_timeout),
        ..RabbitOptions::new(amqp.expose(), format!("thermae client of {tenant}"))
    };
    let bus: SharedBus = match Rabbit::connect(options).await {
        Ok(bus) => Arc::new(bus),
        Err(bus::Error::Denied(why)) => return Err(Error::Denied { host: endpoint.host, why }),
        Err(error) => {
            let (host, within) = (endpoint.host, connect_timeout);
            return Err(Error::Unreachable { host, within, why: error.to_string() });
        }
    };
    loop {
        match Client::connect(bus.clone(), tenant.clone(), thermae_client::Options::default()).await {
            Ok(client) => return Ok(Fleet { client, bus, embedded: None }),
            // The fleet may just be starting.
            Err(thermae_client::Error::NoScheduler) if Instant::now() + LOOK_AGAIN < deadline => {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            Err(error) => {
                bus.close().await;
                return Err(Error::Client(error));
            }
        }
    }
}

struct Endpoint {
    user: String,
    host: String,
}

impl Endpoint {
    fn of(url: &str) -> Result<Self, Error> {
        let (scheme, rest) = url.split_once("://").ok_or(Error::Url)?;
        if !["amqp", "amqps"].contains(&scheme) {
            return Err(Error::Url);
        }
        let authority = rest.split(['/', '?']).next().unwrap_or_default();
        let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        if host.is_empty() {
            return Err(Error::Url);
        }
        let user = decode(user.split(':').next().unwrap_or_default()).ok_or(Error::Url)?;
        let port = if scheme == "amqps" { 5671 } else { 5672 };
        let with_port = |host: &str| {
            let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()));
            if has_port { host.to_owned() } else { format!("{host}:{port}") }
        };
        Ok(Self { user, host: host.split(',').map(with_port).collect::<Vec<_>>().join(", ") })
    }
}

/// Decodes `%XX`; `None` if the text is malformed.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |b: u8| char::from(b).to_digit(16);
        let (high, low) = (digit(rest.next()?)?, digit(rest.next()?)?);
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_host_are_read_from_the_url() {
        let endpoint = |url: &str| Endpoint::of(url).map(|endpoint| (endpoint.user, endpoint.host)).ok();
        let pair = |user: &str, host: &str| Some((user.to_owned(), host.to_owned()));
        assert_eq!(endpoint("amqp://acme:se@cret@fleet"), pair("acme", "fleet:5672"));
        assert_eq!(endpoint("amqps://a%63me@[::1]:99/vhost?x=1"), pair("acme", "[::1]:99"));
        assert_eq!(endpoint("amqp://127.0.0.1:5673/%2f"), pair("", "127.0.0.1:5673"));
        assert_eq!(endpoint("amqps://acme@a,b:99"), pair("acme", "a:5671, b:99"));
        for bad in ["", "fleet:5672", "http://x", "amqp://", "amqp://a%4@h", "amqp://u@/x"] {
            assert_eq!(endpoint(bad), None, "{bad}");
        }
    }

    fn within(url: &str, millis: u64) -> RemoteOptions {
        RemoteOptions { connect_timeout: Duration::from_millis(millis), ..RemoteOptions::new(url) }
    }

    #[tokio::test]
    async fn errors_repeat_no_password() {
        for url in ["amqq://acme:secret@h", "amqp://:secret@127.0.0.1:1"] {
            let error = connect(within(url, 10)).await.unwrap_err();
            assert!(!format!("{error:?} {error}").contains("secret"), "{error:?}");
        }
    }

    #[tokio::test]
    async fn a_silent_port_is_left_after_the_time() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("amqp://acme:x@{}", listener.local_addr().unwrap());
        let error = connect(within(&url, 300)).await.unwrap_err();
        assert!(matches!(&error, Error::Unreachable { why, .. } if why.contains("does not answer")), "{error:?}");
    }

    #[tokio::test]
    async fn nobody_there_is_said_after_the_time() {
        // Nobody listens on this port.
        let error = connect(within("amqp://acme:x@127.0.0.1:1", 50)).await.unwrap_err();
        assert!(matches!(&error, Error::Unreachable { host, .. } if host == "127.0.0.1:1"), "{error:?}");
    }
}
