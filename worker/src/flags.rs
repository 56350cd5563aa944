//! The program's flags, and the configuration that is read with them.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Parser;
use serde_json::json;
use thermae_service::config;
use thermae_worker::Config;

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

impl Flags {
    /// Reads the configuration from the file, the environment and the flags.
    ///
    /// # Errors
    /// A key that is unknown, a value that does not fit: named in the message.
    pub(crate) fn load(&self) -> anyhow::Result<Config> {
        let overrides = vec![
            ("amqp".to_owned(), json!(self.amqp)),
            ("redis".to_owned(), json!(self.redis)),
            ("listen".to_owned(), json!(self.listen)),
            ("name".to_owned(), json!(self.name)),
        ];
        let config: Config = config::load(self.config.as_deref(), config::ENV_PREFIX, overrides)?;
        config.worker().validate()?;
        Ok(config)
    }
}
