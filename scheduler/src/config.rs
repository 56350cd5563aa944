//! Configuration of the program `thermae-scheduler`: how to reach RabbitMQ and Redis, and the scheduler's own options.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thermae_backplane::bus::RabbitOptions;
use thermae_backplane::registry::RedisOptions;
use thermae_service::secret::Secret;
use thermae_service::telemetry;
use thermae_service::tls::Tls;

use crate::Options;

/// Configuration of the program `thermae-scheduler`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// URL of RabbitMQ: `amqp://user:password@host:port/vhost`, or `amqps://…` for TLS. `%2f` is the vhost `/`. The
    /// user needs all permissions in the vhost. To name several hosts of one cluster, separate them with commas
    /// (`host:port,host:port`); they are tried in that order.
    pub amqp: Secret,
    /// Password for RabbitMQ. It replaces the one in the URL.
    pub amqp_password: Option<Secret>,
    /// URL of Redis: `redis://user:password@host:port/db`, or `rediss://…` for TLS. With Sentinel:
    /// `redis+sentinel://user:password@host:port,host:port/name/db` (or `rediss+sentinel://…`), where `name` is the
    /// name that the sentinels use for the primary.
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
    pub redis_prefix: String,
    /// Address at which `/healthz`, `/readyz` and `/metrics` are served.
    pub listen: SocketAddr,
    /// Logs and traces.
    pub telemetry: telemetry::Options,
    /// The scheduler's own options.
    pub scheduler: Options,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            amqp: "amqp://guest:guest@127.0.0.1:5672/%2f".into(),
            amqp_password: None,
            redis: "redis://127.0.0.1:6379/".into(),
            redis_password: None,
            redis_sentinel_password: None,
            tls_ca: None,
            tls_cert: None,
            tls_key: None,
            redis_prefix: "thermae:".to_owned(),
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9464),
            telemetry: telemetry::Options::default(),
            scheduler: Options::default(),
        }
    }
}

impl Config {
    /// The settings for TLS: which authorities to trust, and which certificate to show.
    pub fn tls(&self) -> Tls {
        Tls { ca: self.tls_ca.clone(), cert: self.tls_cert.clone(), key: self.tls_key.clone() }
    }

    /// How to reach RabbitMQ.
    pub fn rabbit(&self, name: &str) -> RabbitOptions {
        RabbitOptions {
            password: self.amqp_password.clone(),
            tls: self.tls(),
            ..RabbitOptions::new(self.amqp.expose(), name)
        }
    }

    /// How to reach Redis.
    pub fn registry(&self) -> RedisOptions {
        RedisOptions {
            prefix: self.redis_prefix.clone(),
            password: self.redis_password.clone(),
            sentinel_password: self.redis_sentinel_password.clone(),
            tls: self.tls(),
            ..RedisOptions::new(self.redis.expose())
        }
    }
}
