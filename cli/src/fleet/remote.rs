//! A real fleet, over AMQP, as one of its tenants.

use std::sync::Arc;
use std::time::Duration;

use thermae_backplane::bus::{self, Rabbit, RabbitOptions, SharedBus};
use thermae_client::Client;
use thermae_schemas::TenantName;
use tokio::time::Instant;

use super::{Error, Fleet, LOOK_AGAIN};

pub(super) async fn connect(url: &str, tenant: Option<&str>, timeout: Duration) -> Result<Fleet, Error> {
    let place = Place::of(url)?;
    let name = tenant.map_or_else(|| place.user.clone(), str::to_owned);
    if name.is_empty() {
        return Err(Error::Url("the AMQP URL names no user, so the tenant must be named".to_owned()));
    }
    let tenant = TenantName::new(name).map_err(Error::Tenant)?;
    let deadline = Instant::now() + timeout;
    let options =
        RabbitOptions { deadline: Some(timeout), ..RabbitOptions::new(url, format!("thermae client of {tenant}")) };
    let bus: SharedBus = match Rabbit::connect(options).await {
        Ok(bus) => Arc::new(bus),
        Err(bus::Error::Denied(why)) => return Err(Error::Denied { host: place.host, why }),
        Err(error) => return Err(Error::Unreachable { host: place.host, within: timeout, why: error.to_string() }),
    };
    loop {
        match Client::connect(bus.clone(), tenant.clone(), thermae_client::Options::default()).await {
            Ok(client) => return Ok(Fleet { client, bus, embedded: None }),
            // A fleet that is just coming up.
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

/// Host and port of a URL, for words to people; never its password.
pub(super) fn host(url: &str) -> String {
    Place::of(url).map_or_else(|_| "?".to_owned(), |place| place.host)
}

struct Place {
    user: String,
    host: String,
}

impl Place {
    fn of(url: &str) -> Result<Self, Error> {
        // The URL itself is not repeated: it holds a password.
        let malformed = || Error::Url("the AMQP URL is not of the form amqp://USER:PASSWORD@HOST:PORT".to_owned());
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
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()));
        Ok(Self { user, host: if has_port { host.to_owned() } else { format!("{host}:{port}") } })
    }
}

/// Undoes `%41`.
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
        let place = |url: &str| Place::of(url).map(|place| (place.user, place.host)).ok();
        let pair = |user: &str, host: &str| Some((user.to_owned(), host.to_owned()));
        assert_eq!(place("amqp://acme:se@cret@fleet"), pair("acme", "fleet:5672"));
        assert_eq!(place("amqps://a%63me@[::1]:99/vhost?x=1"), pair("acme", "[::1]:99"));
        assert_eq!(place("amqp://127.0.0.1:5673/%2f"), pair("", "127.0.0.1:5673"));
        for bad in ["", "fleet:5672", "http://x", "amqp://", "amqp://a%4@h", "amqp://u@/x"] {
            assert_eq!(place(bad), None, "{bad}");
        }
    }

    #[tokio::test]
    async fn errors_repeat_no_password() {
        for url in ["amqq://acme:secret@h", "amqp://:secret@127.0.0.1:1"] {
            let error = connect(url, None, Duration::from_millis(10)).await.unwrap_err();
            assert!(!format!("{error:?} {error}").contains("secret"), "{error:?}");
        }
    }

    #[tokio::test]
    async fn nobody_there_is_said_after_the_time() {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let error =
            connect(&format!("amqp://acme:x@127.0.0.1:{port}"), None, Duration::from_millis(50)).await.unwrap_err();
        assert!(matches!(&error, Error::Unreachable { host, .. } if *host == format!("127.0.0.1:{port}")), "{error:?}");
    }
}
