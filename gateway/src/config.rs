//! Configuration of the program `thermae-gateway`.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thermae_schemas::TenantName;
use thermae_service::program::Settings;
use thermae_service::secret::Secret;
use thermae_service::telemetry;
use thermae_service::tls::Tls;
use thermae_service::units::{ByteSize, Millis};
use thermae_tokens::{Issuer, SKEW, SecretKey, Trust, TrustError};

use crate::{Options, Tokens};

/// Configuration of the program `thermae-gateway`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Address at which `/healthz`, `/readyz` and `/metrics` are served, for those who run the gateway.
    pub listen: SocketAddr,
    /// PEM file of the authorities whose certificates are trusted, for RabbitMQ and the collector of traces. By
    /// default, the system's authorities.
    pub tls_ca: Option<PathBuf>,
    /// PEM file of the certificate that is shown to servers that ask for one.
    pub tls_cert: Option<PathBuf>,
    /// PEM file of the private key of `tls_cert`.
    pub tls_key: Option<PathBuf>,
    /// Logs and traces.
    pub telemetry: telemetry::Options,
    /// The gateway's own options.
    pub gateway: Own,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 9466)),
            tls_ca: None,
            tls_cert: None,
            tls_key: None,
            telemetry: telemetry::Options::default(),
            gateway: Own::default(),
        }
    }
}

/// The gateway's own options.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Own {
    /// Address at which callers are served.
    pub listen: SocketAddr,
    /// Store of API keys: `sqlite:PATH` for one gateway, or `postgres://user:password@host/database` for several that
    /// share it. It must be set.
    pub keys: Option<Secret>,
    /// URL of the fleet's RabbitMQ without a user: `amqp://host:port/vhost`, or `amqps://…` for TLS. `%2f` is the vhost
    /// `/`. Several hosts of one cluster are separated by commas.
    pub amqp: Secret,
    /// Credentials of tenants, by the tenant's name: the password of the RabbitMQ user that has the tenant's name, or a
    /// whole URL with a user of the tenant (`acme` or `acme.gateway` for `acme`) and its password, which replaces
    /// `gateway.amqp`.
    pub tenants: BTreeMap<TenantName, Secret>,
    /// Folder with a file for each tenant, named like the tenant, that contains the same. A file is read whenever the
    /// tenant's connection is opened. `gateway.tenants` comes first.
    pub tenants_folder: Option<PathBuf>,
    /// PEM file of the private key with which capability tokens are minted, Ed25519 and with the mode 0600. Callers
    /// with the scope `tokens` can then mint tokens for their own tenant. Without it, nobody can.
    pub token_key: Option<PathBuf>,
    /// Id under which workers have the public key of `token_key`.
    pub token_key_id: u32,
    /// Folder with the public keys of capability tokens, as for workers. Without it, the gateway shows no tokens.
    pub token_keys: Option<PathBuf>,
    /// List of the revoked tokens, as for workers.
    pub token_revoked: Option<PathBuf>,
    /// How long RabbitMQ may take to answer before a request is refused (`broker_unreachable`).
    pub connect_timeout: Millis,
    /// Most tenants with a connection at once, at least 1. If there are more, one that has no request and no run is
    /// disconnected, or the request is refused (`too_many_tenants`).
    pub max_tenants: usize,
    /// How long a tenant's connection stays open without a request or a run.
    pub tenant_idle: Millis,
    /// Largest part of `max_requests`, `max_runs`, `max_bytes` and the connections of SDKs that one tenant may take, in
    /// percent, from 1 to 100.
    #[schemars(range(min = 1, max = 100))]
    pub tenant_share: u8,
    /// Most connections of callers at once, at least 1. A further one takes the place of the one that has been without
    /// a request for the longest; if all have one, only health is told to it. It is lowered to what the limit of open
    /// files allows.
    pub max_connections: usize,
    /// Largest part of `max_connections` that one peer may have, in percent, from 1 to 100. A peer is an address, or a
    /// network of IPv6 (/64). A proxy in front of the gateway is one peer.
    #[schemars(range(min = 1, max = 100))]
    pub peer_share: u8,
    /// Most requests at once, at least 1, those that wait or follow events included. Further ones are refused
    /// (`too_many_requests`).
    pub max_requests: usize,
    /// Most runs under way at once, at least 1. Further ones are refused (`too_many_runs`).
    pub max_runs: usize,
    /// Most bytes that are held for all callers, from the first byte of a request to the last one of its answer.
    /// Beyond that, runs that have ended are forgotten early, and then requests are refused (`gateway_full`).
    pub max_bytes: ByteSize,
    /// How long a caller may take to send the headers of a request. A connection without a request is closed after it.
    pub header_timeout: Millis,
    /// How long a body may make the gateway wait, in addition to the time that it takes at `body_rate`.
    pub body_grace: Millis,
    /// Bytes of a body that a caller must send in a second on average.
    pub body_rate: ByteSize,
    /// How often a stream of events without events gets a comment, and an SDK's connection a ping. Choose less than
    /// what proxies bear without traffic. An SDK that sends nothing during three heartbeats is disconnected.
    pub heartbeat: Millis,
    /// Most pings that an SDK may send during one heartbeat, at least 1. Beyond that, it is disconnected (`bad_frame`):
    /// the answers wait in memory while it reads none of them.
    pub max_pings: u32,
    /// How long a run is kept after its end.
    pub keep: Millis,
    /// How long requests under way may take when the gateway stops.
    pub drain: Millis,
}

impl Default for Own {
    fn default() -> Self {
        let options = Options::default();
        Self {
            listen: options.listen,
            keys: None,
            amqp: "amqp://127.0.0.1:5672/%2f".into(),
            tenants: BTreeMap::new(),
            tenants_folder: None,
            token_key: None,
            token_key_id: 1,
            token_keys: None,
            token_revoked: None,
            connect_timeout: Millis::from_secs(10),
            max_tenants: options.tenants,
            tenant_idle: options.tenant_idle.into(),
            tenant_share: 50,
            max_connections: options.connections,
            peer_share: options.peer_share,
            max_requests: options.requests,
            max_runs: options.runs,
            max_bytes: ByteSize::mib(512),
            header_timeout: options.header_timeout.into(),
            body_grace: options.body_grace.into(),
            body_rate: ByteSize::kib(16),
            heartbeat: options.heartbeat.into(),
            max_pings: options.pings,
            keep: options.keep.into(),
            drain: options.drain.into(),
        }
    }
}

/// A value of the configuration that can't be used.
#[derive(Debug, thiserror::Error)]
#[error("`gateway.{key}`: {why}")]
pub struct Unusable {
    key: &'static str,
    why: &'static str,
}

impl Own {
    /// Checks what the types can't say.
    ///
    /// # Errors
    /// A value can't be used. The message names the key.
    pub fn check(&self) -> Result<(), Unusable> {
        let counts = [
            ("max_tenants", self.max_tenants),
            ("max_connections", self.max_connections),
            ("max_requests", self.max_requests),
            ("max_runs", self.max_runs),
        ];
        if let Some((key, _)) = counts.into_iter().find(|(_, count)| *count == 0) {
            return Err(Unusable { key, why: "at least 1" });
        }
        let times = [("header_timeout", self.header_timeout), ("heartbeat", self.heartbeat)];
        if let Some((key, _)) = times.into_iter().find(|(_, time)| time.duration().is_zero()) {
            return Err(Unusable { key, why: "longer than 0" });
        }
        if self.body_rate.as_u64() == 0 {
            return Err(Unusable { key: "body_rate", why: "at least 1" });
        }
        if self.max_pings == 0 {
            return Err(Unusable { key: "max_pings", why: "at least 1" });
        }
        let shares = [("peer_share", self.peer_share), ("tenant_share", self.tenant_share)];
        if let Some((key, _)) = shares.into_iter().find(|(_, share)| !(1..=100).contains(share)) {
            return Err(Unusable { key, why: "from 1 to 100" });
        }
        if self.token_revoked.is_some() && self.token_keys.is_none() {
            return Err(Unusable { key: "token_revoked", why: "is of no use without token_keys" });
        }
        if self.keys.is_none() {
            return Err(Unusable {
                key: "keys",
                why: "must name the store of API keys, such as sqlite:/var/lib/keys.db",
            });
        }
        Ok(())
    }

    /// What the gateway can do with capability tokens. Reads the private key, and looks whether the other files can be
    /// read.
    ///
    /// # Errors
    /// A file can't be used.
    pub fn tokens(&self) -> Result<Tokens, TrustError> {
        let key = self.token_key.as_ref().map(SecretKey::read).transpose()?;
        let keys = self.token_keys.clone();
        let trust = keys.map(|keys| Arc::new(Trust::new(keys, self.token_revoked.clone(), SKEW)));
        trust.as_ref().map(|trust| trust.verifier()).transpose()?;
        Ok(Tokens { issuer: key.map(|key| Arc::new(Issuer::new(self.token_key_id, key))), trust })
    }

    /// The options of the gateway, but for [`Own::tokens`].
    pub fn options(&self) -> Options {
        Options {
            listen: self.listen,
            connections: self.max_connections,
            peer_share: self.peer_share,
            requests: self.max_requests,
            runs: self.max_runs,
            held_bytes: usize::try_from(self.max_bytes.as_u64()).unwrap_or(usize::MAX),
            tenants: self.max_tenants,
            tenant_idle: self.tenant_idle.duration(),
            tenant_share: self.tenant_share,
            header_timeout: self.header_timeout.duration(),
            body_grace: self.body_grace.duration(),
            body_rate: usize::try_from(self.body_rate.as_u64()).unwrap_or(usize::MAX),
            heartbeat: self.heartbeat.duration(),
            pings: self.max_pings,
            keep: self.keep.duration(),
            drain: self.drain.duration(),
            ..Options::default()
        }
    }
}

impl Settings for Config {
    fn listen(&self) -> SocketAddr {
        self.listen
    }

    fn telemetry(&self) -> &telemetry::Options {
        &self.telemetry
    }

    fn tls(&self) -> Tls {
        Tls { ca: self.tls_ca.clone(), cert: self.tls_cert.clone(), key: self.tls_key.clone() }
    }

    fn urls(&self) -> Vec<(&'static str, &Secret)> {
        // The program refuses arguments with a password.
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_bound_nothing_or_let_nobody_in_is_refused() {
        let good = || Own { keys: Some("sqlite:keys.db".into()), ..Own::default() };
        assert!(good().check().is_ok());
        for (bad, key) in [
            (Own { keys: None, ..good() }, "gateway.keys"),
            (Own { max_tenants: 0, ..good() }, "gateway.max_tenants"),
            (Own { max_connections: 0, ..good() }, "gateway.max_connections"),
            (Own { max_requests: 0, ..good() }, "gateway.max_requests"),
            (Own { max_runs: 0, ..good() }, "gateway.max_runs"),
            (Own { header_timeout: Millis::from_secs(0), ..good() }, "gateway.header_timeout"),
            (Own { heartbeat: Millis::from_secs(0), ..good() }, "gateway.heartbeat"),
            (Own { body_rate: ByteSize::kib(0), ..good() }, "gateway.body_rate"),
            (Own { max_pings: 0, ..good() }, "gateway.max_pings"),
            (Own { peer_share: 0, ..good() }, "gateway.peer_share"),
            (Own { peer_share: 101, ..good() }, "gateway.peer_share"),
            (Own { tenant_share: 0, ..good() }, "gateway.tenant_share"),
            (Own { tenant_share: 101, ..good() }, "gateway.tenant_share"),
            (Own { token_revoked: Some("revoked".into()), ..good() }, "gateway.token_revoked"),
        ] {
            assert!(bad.check().unwrap_err().to_string().contains(key), "{key}");
        }
        assert_eq!(good().options().held_bytes, Options::default().held_bytes);
        assert_eq!(good().options().body_rate, Options::default().body_rate);
    }

    #[test]
    fn keys_of_tokens_that_can_t_be_used_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("key.pem");
        let none = Own::default().tokens().unwrap();
        assert!(none.issuer.is_none() && none.trust.is_none());
        let minting = Own { token_key: Some(key.clone()), token_key_id: 7, ..Own::default() };
        assert!(minting.tokens().unwrap_err().to_string().contains("key.pem"));
        SecretKey::generate().unwrap().write_new(&key).unwrap();
        assert_eq!(minting.tokens().unwrap().issuer.map(|issuer| issuer.id()), Some(7));
        let showing = Own { token_keys: Some(folder.path().join("keys")), ..Own::default() };
        assert!(showing.tokens().unwrap_err().to_string().contains("keys"));
    }
}
