//! A real fleet, over AMQP, for one of its tenants.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use thermae_backplane::bus::{self, Rabbit, RabbitOptions, SharedBus};
use thermae_client::Client;
use thermae_schemas::TenantName;
use thermae_service::secret::{self, Secret};
use thermae_service::tls::Tls;
use tokio::time::Instant;

use super::{Error, Fleet, LOOK_AGAIN};
use crate::args::FleetArgs;
use crate::failure::Failure;
use crate::style;

/// How much longer than the timeout the last step may take, so that its own error, if it has one, is reported.
const MARGIN: Duration = Duration::from_millis(200);

/// Variable that holds the password itself.
const PASSWORD: &str = "THERMAE_AMQP_PASSWORD";

/// Which fleet to connect to, and as whom.
#[derive(Debug, Clone)]
pub struct RemoteOptions {
    /// `amqp://user:password@host:port/vhost`, or `amqps://…` for TLS. Several hosts are separated by commas.
    pub url: Secret,
    /// Password that replaces the one in the URL.
    pub password: Option<Secret>,
    /// The authorities to trust for `amqps://`, and the client certificate.
    pub tls: Tls,
    /// Tenant to act as; by default, the user in the URL.
    pub tenant: Option<String>,
    /// How long to wait for a fleet that doesn't answer.
    pub timeout: Duration,
}

impl RemoteOptions {
    /// Options for the fleet with this URL, with the user and password in it, the system's authorities and a timeout of
    /// 30 s.
    pub fn new(url: impl Into<Secret>) -> Self {
        Self { url: url.into(), password: None, tls: Tls::default(), tenant: None, timeout: Duration::from_secs(30) }
    }
}

/// The fleet that the command line or the environment names; `None` if they name none.
pub(super) fn options(args: &FleetArgs) -> Result<Option<RemoteOptions>, Failure> {
    let file = |path: &PathBuf| Secret::read(path).map_err(|why| Failure::usage("bad_url", why));
    let url = match (args.amqp(), args.amqp_file()) {
        (Some(url), _) => {
            if secret::is_shown_in_arguments(url.expose()) {
                style::warning(&secret::argument_warning("amqp"));
            }
            url.clone()
        }
        (None, Some(path)) => file(&path)?,
        (None, None) => return Ok(None),
    };
    let password = match args.amqp_password_file() {
        Some(path) => Some(file(&path)?),
        None => std::env::var(PASSWORD).ok().filter(|password| !password.is_empty()).map(Secret::from),
    };
    let tls = args.tls();
    tls.check().map_err(|error| Failure::usage("usage", error))?;
    let timeout = Duration::from(args.connect_timeout);
    Ok(Some(RemoteOptions { url, password, tls, tenant: args.tenant().map(str::to_owned), timeout }))
}

pub(super) async fn connect(options: &RemoteOptions) -> Result<Fleet, Error> {
    let (host, timeout) = (Endpoint::of(options.url.expose())?.host, options.timeout);
    let why = "it accepts connections, but does not answer".to_owned();
    // If a port is open and silent, the AMQP library waits for the greeting for a time of its own, which can't be
    // changed.
    let within = tokio::time::timeout(timeout + MARGIN, connected(options)).await;
    within.unwrap_or(Err(Error::Unreachable { host, within: timeout, why }))
}

async fn connected(options: &RemoteOptions) -> Result<Fleet, Error> {
    let RemoteOptions { url, password, tls, tenant, timeout } = options.clone();
    let endpoint = Endpoint::of(url.expose())?;
    let name = tenant.unwrap_or_else(|| endpoint.user.clone());
    if name.is_empty() {
        return Err(Error::Url("the AMQP URL names no user: name the tenant with --tenant".to_owned()));
    }
    let tenant = TenantName::new(name).map_err(Error::Tenant)?;
    let deadline = Instant::now() + timeout;
    let options = RabbitOptions {
        password,
        tls,
        deadline: Some(timeout),
        ..RabbitOptions::new(url.expose(), format!("thermae client of {tenant}"))
    };
    let bus: SharedBus = match Rabbit::connect(options).await {
        Ok(bus) => Arc::new(bus),
        Err(bus::Error::Denied(why)) => return Err(Error::Denied { host: endpoint.host, why }),
        Err(error) => return Err(Error::Unreachable { host: endpoint.host, within: timeout, why: error.to_string() }),
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

/// Host and port in a URL, for messages to people. Never contains the password.
pub(super) fn host(url: &str) -> String {
    Endpoint::of(url).map_or_else(|_| "?".to_owned(), |endpoint| endpoint.host)
}

struct Endpoint {
    user: String,
    host: String,
}

impl Endpoint {
    fn of(url: &str) -> Result<Self, Error> {
        // Don't repeat the URL in the message: it contains a password.
        let malformed =
            || Error::Url("the AMQP URL is not of the form amqp://USER:PASSWORD@HOST:PORT (or amqps://…)".to_owned());
        let (scheme, rest) = url.split_once("://").ok_or_else(malformed)?;
        if !["amqp", "amqps"].contains(&scheme) {
            return Err(malformed());
        }
        let authority = rest.split(['/', '?']).next().unwrap_or_default();
        let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        if host.is_empty() {
            return Err(malformed());
        }
        let user = decode(user.split(':').next().unwrap_or_default()).ok_or_else(malformed)?;
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
        RemoteOptions { timeout: Duration::from_millis(millis), ..RemoteOptions::new(url) }
    }

    #[tokio::test]
    async fn errors_repeat_no_password() {
        for url in ["amqq://acme:secret@h", "amqp://:secret@127.0.0.1:1"] {
            let error = connect(&within(url, 10)).await.unwrap_err();
            assert!(!format!("{error:?} {error}").contains("secret"), "{error:?}");
        }
    }

    #[tokio::test]
    async fn a_silent_port_is_left_after_the_time() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("amqp://acme:x@{}", listener.local_addr().unwrap());
        let begun = std::time::Instant::now();
        let error = connect(&within(&url, 300)).await.unwrap_err();
        assert!(matches!(&error, Error::Unreachable { why, .. } if why.contains("does not answer")), "{error:?}");
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    }

    #[tokio::test]
    async fn nobody_there_is_said_after_the_time() {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let error = connect(&within(&format!("amqp://acme:x@127.0.0.1:{port}"), 50)).await.unwrap_err();
        assert!(matches!(&error, Error::Unreachable { host, .. } if *host == format!("127.0.0.1:{port}")), "{error:?}");
    }
}
