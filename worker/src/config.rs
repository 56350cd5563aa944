//! The configuration of the program: where the fleet is, and the worker's own options.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Parser;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use thermae_schemas::PoolName;
use thermae_service::units::Millis;
use thermae_service::{config, telemetry};
use thermae_worker::{DockerOptions, NativeOptions, Options, PoolOptions};

/// Serves pools of a fleet: takes jobs from RabbitMQ, runs each in a fresh sandbox, publishes its one outcome.
#[derive(Debug, Parser)]
#[command(name = "thermae-worker", version)]
pub(crate) struct Flags {
    /// Configuration file (TOML).
    #[arg(long, value_name = "FILE", env = "THERMAE_CONFIG")]
    config: Option<PathBuf>,
    /// URL of RabbitMQ, amqp://user:password@host:port/vhost.
    #[arg(long, value_name = "URL")]
    amqp: Option<String>,
    /// URL of Redis, redis://host:port/.
    #[arg(long, value_name = "URL")]
    redis: Option<String>,
    /// Address of /healthz, /readyz and /metrics.
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// The worker's name; the host's where it is missing.
    #[arg(long)]
    name: Option<String>,
}

/// The configuration. All but the first five keys are the worker's own options.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    /// URL of RabbitMQ. `%2f` is the vhost `/`.
    pub(crate) amqp: String,
    /// URL of Redis.
    pub(crate) redis: String,
    /// Prefix of the fleet's keys in Redis.
    pub(crate) redis_prefix: String,
    /// Address of `/healthz`, `/readyz` and `/metrics`.
    pub(crate) listen: SocketAddr,
    /// Logs and traces.
    pub(crate) telemetry: telemetry::Options,
    /// The worker's name; its id is this and a random boot id. The host's name where it is missing.
    name: Option<String>,
    /// The fleet's name. It is on every container, and a worker clears away only what dead workers of its own fleet left.
    fleet: String,
    /// The pools that it serves.
    pools: BTreeMap<PoolName, PoolOptions>,
    /// The Docker backend.
    docker: DockerOptions,
    /// The native backend.
    native: NativeOptions,
    /// Directory below which the worker makes one for its containers' sockets; the system's for temporary files where it is
    /// missing.
    socket_dir: Option<PathBuf>,
    /// Time between heartbeats.
    heartbeat_every: Millis,
    /// How long jobs may go on without a heartbeat that arrives.
    lease: Millis,
    /// After SIGTERM: how long running jobs may take to end.
    drain_grace: Millis,
    /// How long a job's record is kept after it ended.
    record_ttl: Millis,
}

impl Default for Config {
    fn default() -> Self {
        let Options { name, fleet, pools, docker, native, socket_dir, heartbeat_every, lease, drain_grace, record_ttl } =
            Options::default();
        Self {
            amqp: "amqp://guest:guest@127.0.0.1:5672/%2f".into(),
            redis: "redis://127.0.0.1:6379/".into(),
            redis_prefix: "thermae:".into(),
            listen: SocketAddr::from(([127, 0, 0, 1], 9465)),
            telemetry: telemetry::Options::default(),
            name,
            fleet,
            pools,
            docker,
            native,
            socket_dir,
            heartbeat_every,
            lease,
            drain_grace,
            record_ttl,
        }
    }
}

impl Config {
    /// Reads it from the file, the environment and the flags.
    ///
    /// # Errors
    /// A key that is unknown, a value that does not fit: named in the message.
    pub(crate) fn load(flags: &Flags) -> anyhow::Result<Self> {
        let overrides = vec![
            ("amqp".to_owned(), json!(flags.amqp)),
            ("redis".to_owned(), json!(flags.redis)),
            ("listen".to_owned(), json!(flags.listen)),
            ("name".to_owned(), json!(flags.name)),
        ];
        let config: Self = config::load(flags.config.as_deref(), config::ENV_PREFIX, overrides)?;
        config.worker().validate()?;
        Ok(config)
    }

    /// The worker's part.
    pub(crate) fn worker(&self) -> Options {
        Options {
            name: self.name.clone(),
            fleet: self.fleet.clone(),
            pools: self.pools.clone(),
            docker: self.docker.clone(),
            native: self.native.clone(),
            socket_dir: self.socket_dir.clone(),
            heartbeat_every: self.heartbeat_every,
            lease: self.lease,
            drain_grace: self.drain_grace,
            record_ttl: self.record_ttl,
        }
    }
}
