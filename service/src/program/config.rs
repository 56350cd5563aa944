//! The configuration of a program: what all programs have in common, and what one has of its own.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::config::{ENV_PREFIX, Error, Overrides, load_both};
use crate::secret::Secret;
use crate::telemetry;
use crate::tls::Tls;

/// The configuration of a program. The keys of both parts lie side by side in one table. `PORT` is the default port of
/// `listen`.
#[derive(Debug, Clone, JsonSchema)]
pub struct Config<const PORT: u16, T> {
    /// What all programs have in common.
    #[serde(flatten)]
    pub common: Common<PORT>,
    /// What this program has of its own.
    #[serde(flatten)]
    pub own: T,
}

impl<const PORT: u16, T: DeserializeOwned + JsonSchema> Config<PORT, T> {
    /// Reads both parts from their defaults, the file, the environment and the flags.
    ///
    /// # Errors
    /// As for [`crate::config::load`].
    pub fn load(file: Option<&Path>, flags: Overrides) -> Result<Self, Error> {
        let (common, own) = load_both::<Self, _, _>(file, ENV_PREFIX, flags)?;
        Ok(Self { common, own })
    }
}

/// What the configurations of all programs have in common.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Common<const PORT: u16> {
    /// URL of RabbitMQ: `amqp://user:password@host:port/vhost`, or `amqps://…` for TLS. `%2f` is the vhost `/`. The
    /// user needs all permissions in the vhost. To name several hosts of one cluster, separate them with commas
    /// (`host:port,host:port`); they are tried in that order.
    #[serde(default = "amqp")]
    pub amqp: Secret,
    /// Password for RabbitMQ. It replaces the one in the URL.
    pub amqp_password: Option<Secret>,
    /// URL of Redis: `redis://user:password@host:port/db`, or `rediss://…` for TLS. With Sentinel:
    /// `redis+sentinel://user:password@host:port,host:port/name/db` (or `rediss+sentinel://…`), where `name` is the
    /// name that the sentinels use for the primary.
    #[serde(default = "redis")]
    pub redis: Secret,
    /// Password for Redis. It replaces the one in the URL.
    pub redis_password: Option<Secret>,
    /// Password for the sentinels, if they need one.
    pub redis_sentinel_password: Option<Secret>,
    /// PEM file of the authorities whose certificates are trusted, for RabbitMQ, Redis and the collector of traces. By
    /// default, the system's authorities.
    pub tls_ca: Option<PathBuf>,
    /// PEM file of the certificate that is shown to servers that ask for one.
    pub tls_cert: Option<PathBuf>,
    /// PEM file of the private key of `tls_cert`.
    pub tls_key: Option<PathBuf>,
    /// Prefix of every key in Redis. All processes of a fleet need the same prefix. Fleets that share a Redis need
    /// different ones.
    #[serde(default = "redis_prefix")]
    pub redis_prefix: String,
    /// Address at which `/healthz`, `/readyz` and `/metrics` are served. A worker also serves artifacts there, under
    /// signed URLs.
    #[serde(default = "listen::<PORT>")]
    pub listen: SocketAddr,
    /// Logs and traces.
    #[serde(default)]
    pub telemetry: telemetry::Options,
}

fn amqp() -> Secret {
    "amqp://guest:guest@127.0.0.1:5672/%2f".into()
}

fn redis() -> Secret {
    "redis://127.0.0.1:6379/".into()
}

fn redis_prefix() -> String {
    "thermae:".to_owned()
}

fn listen<const PORT: u16>() -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), PORT)
}

impl<const PORT: u16> Common<PORT> {
    /// The settings for TLS: which authorities to trust, and which certificate to show.
    pub fn tls(&self) -> Tls {
        Tls { ca: self.tls_ca.clone(), cert: self.tls_cert.clone(), key: self.tls_key.clone() }
    }
}
