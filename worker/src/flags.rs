//! The program's flags, and the configuration that is read with them.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::Path;

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
    config: Option<OsString>,
    /// URL of RabbitMQ; one with a password belongs into THERMAE_AMQP or into a file that THERMAE_AMQP_FILE names.
    #[arg(long, value_name = "URL")]
    amqp: Option<String>,
    /// URL of Redis; one with a password belongs into THERMAE_REDIS or into a file that THERMAE_REDIS_FILE names.
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
        // A variable that is set to nothing counts as absent.
        let file = self.config.as_deref().filter(|path| !path.is_empty()).map(Path::new);
        let config: Config = config::load(file, config::ENV_PREFIX, overrides)?;
        config.worker().validate()?;
        config.tls().check()?;
        Ok(config)
    }
}
