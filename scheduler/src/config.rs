//! Configuration of the program `thermae-scheduler`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thermae_service::telemetry;

use crate::Options;

/// Configuration of the program `thermae-scheduler`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// RabbitMQ: `amqp://user:password@host:port/vhost`; `%2f` is the vhost `/`. The user needs every permission.
    pub amqp: String,
    /// Redis: `redis://user:password@host:port/db`.
    pub redis: String,
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
            amqp: "amqp://guest:guest@127.0.0.1:5672/%2f".to_owned(),
            redis: "redis://127.0.0.1:6379/".to_owned(),
            redis_prefix: "thermae:".to_owned(),
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9464),
            telemetry: telemetry::Options::default(),
            scheduler: Options::default(),
        }
    }
}
