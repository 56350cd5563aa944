//! Configuration of the program `thermae-scheduler`.

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
    /// RabbitMQ: `amqp://user:password@host:port/vhost`, or `amqps://…` by TLS; `%2f` is the vhost `/`. The user needs every permission.
    /// Several hosts of one cluster stand with commas between them, `host:port,host:port`, and are tried in that order.
    pub amqp: Secret,
    /// Password for RabbitMQ, in place of the URL's.
    pub amqp_password: Option<Secret>,
    /// Redis: `redis://user:password@host:port/db`, or `rediss://…` by TLS; with Sentinel `redis+sentinel://user:password@host:port,host:port/name/db`
    /// (or `rediss+sentinel://…`), where `name` is what the sentinels call the primary.
    pub redis: Secret,
    /// Password for Redis, in place of the URL's.
    pub redis_password: Option<Secret>,
    /// Password for the sentinels, where they want one.
    pub redis_sentinel_password: Option<Secret>,
    /// PEM file of the authorities whose certificates are trusted, of RabbitMQ, Redis and the collector of traces; the system's where it is missing.
    pub tls_ca: Option<PathBuf>,
    /// PEM file of the certificate that is shown to servers that ask for one.
    pub tls_cert: Option<PathBuf>,
    /// PEM file of that certificate's private key.
    pub tls_key: Option<PathBuf>,
    /// What every key in Redis begins with; the same for all of a fleet, another one for another fleet.
    pub redis_prefix: String,
    /// Where `/healthz`, `/readyz` and `/metrics` are served.
    pub listen: SocketAddr,
    /// Logs and traces.
    pub telemetry: telemetry::Options,
    /// How it schedules.
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
    /// Whom to trust, and what to show.
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
