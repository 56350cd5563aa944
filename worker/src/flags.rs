//! The program's flags, and the configuration that is read with them.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::Path;

use clap::Parser;
use serde_json::json;
use thermae_service::config;
use thermae_worker::Config;

/// Run a fleet's jobs: take them from RabbitMQ, run each in a fresh sandbox, and publish its outcome.
///
/// The configuration comes from the defaults, the file, the environment (variables that begin with `THERMAE_`) and the
/// options. Later ones win.
#[derive(Debug, Parser)]
#[command(name = "thermae-worker", version)]
pub(crate) struct Flags {
    /// Configuration file (TOML); by default, none is read.
    #[arg(long, value_name = "FILE", env = "THERMAE_CONFIG")]
    config: Option<OsString>,
    /// URL of RabbitMQ. Pass a URL with a password in THERMAE_AMQP, or in a file that THERMAE_AMQP_FILE names.
    #[arg(long, value_name = "URL")]
    amqp: Option<String>,
    /// URL of Redis. Pass a URL with a password in THERMAE_REDIS, or in a file that THERMAE_REDIS_FILE names.
    #[arg(long, value_name = "URL")]
    redis: Option<String>,
    /// Address for /healthz, /readyz and /metrics; by default 127.0.0.1:9465.
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// Name of the worker; by default, the host's name.
    #[arg(long)]
    name: Option<String>,
}

impl Flags {
    /// Reads the configuration from the file, the environment and the flags.
    ///
    /// # Errors
    /// A key is unknown, or a value can't be used. The message names it.
    pub(crate) fn load(&self) -> anyhow::Result<Config> {
        let overrides = vec![
            ("amqp".to_owned(), json!(self.amqp)),
            ("redis".to_owned(), json!(self.redis)),
            ("listen".to_owned(), json!(self.listen)),
            ("name".to_owned(), json!(self.name)),
        ];
        // An empty variable counts as absent.
        let file = self.config.as_deref().filter(|path| !path.is_empty()).map(Path::new);
        let config: Config = config::load(file, config::ENV_PREFIX, overrides)?;
        config.worker().validate()?;
        config.tls().check()?;
        Ok(config)
    }
}
