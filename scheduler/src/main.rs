//! The program `thermae-scheduler`: connects to RabbitMQ and Redis, and runs a [`Service`] until a signal ends it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Parser;
use thermae_backplane::bus::{Bus, Rabbit};
use thermae_backplane::registry::Redis;
use thermae_scheduler::{Config, Service};
use thermae_service::http::Health;
use thermae_service::{config, http, secret, signals, telemetry};
use tokio_util::sync::CancellationToken;

/// Schedule a fleet's jobs: take them from RabbitMQ, and hand them to workers.
///
/// Several schedulers can run; one of them leads. The configuration comes from the defaults, the file, the environment
/// (variables that begin with `THERMAE_`) and the options. Later ones win.
#[derive(Debug, Parser)]
#[command(name = "thermae-scheduler", version)]
struct Args {
    /// Configuration file (TOML); by default, none is read.
    #[arg(long, value_name = "FILE", env = "THERMAE_CONFIG")]
    config: Option<OsString>,
    /// URL of RabbitMQ. Pass a URL with a password in THERMAE_AMQP, or in a file that THERMAE_AMQP_FILE names.
    #[arg(long, value_name = "URL")]
    amqp: Option<String>,
    /// URL of Redis. Pass a URL with a password in THERMAE_REDIS, or in a file that THERMAE_REDIS_FILE names.
    #[arg(long, value_name = "URL")]
    redis: Option<String>,
    /// Address for /healthz, /readyz and /metrics; by default 127.0.0.1:9464.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
}

/// Exit status for wrong usage or configuration.
const USAGE: u8 = 2;
/// Exit status if a server refuses for good, or if anything else fails.
const REFUSED: u8 = 3;

fn main() -> ExitCode {
    let args = Args::parse();
    let flags = vec![
        ("amqp".to_owned(), args.amqp.into()),
        ("redis".to_owned(), args.redis.into()),
        ("listen".to_owned(), args.listen.into()),
    ];
    // An empty variable counts as not set.
    let file = args.config.filter(|path| !path.is_empty()).map(PathBuf::from);
    let config = config::load::<Config>(file.as_deref(), config::ENV_PREFIX, flags);
    let config = match config.and_then(|config| config.scheduler.check().map(|()| config)) {
        Ok(config) => config,
        Err(error) => return fail(&error.into(), USAGE),
    };
    if let Err(error) = config.tls().check() {
        return fail(&error.into(), USAGE);
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error.into(), REFUSED),
    };
    match runtime.block_on(run(config)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error, REFUSED),
    }
}

fn fail(error: &anyhow::Error, status: u8) -> ExitCode {
    eprintln!("thermae-scheduler: {error:#}");
    ExitCode::from(status)
}

async fn run(config: Config) -> anyhow::Result<()> {
    let traces = telemetry::init("thermae-scheduler", &config.telemetry, &config.tls())?;
    for (option, url) in [("amqp", &config.amqp), ("redis", &config.redis)] {
        if secret::is_shown_in_arguments(url.expose()) {
            tracing::warn!("{}", secret::argument_warning(option));
        }
    }
    let stop = signals::shutdown().context("signal handlers can't be installed")?;
    let served = serve(config, stop).await;
    traces.shutdown().await;
    served
}

async fn serve(config: Config, stop: CancellationToken) -> anyhow::Result<()> {
    let (metrics, health) = (prometheus::Registry::new(), Health::new());
    for name in ["bus", "registry", "leader"] {
        health.condition(name).not_ready("not connected yet");
    }
    // The endpoint has its own token, because it should still answer while the scheduler stops.
    let endpoint = CancellationToken::new();
    let server = http::serve(config.listen, health.clone(), metrics.clone(), endpoint.clone()).await?;
    let connected = async {
        // Each of the two waits while its server is away, and logs that.
        tokio::try_join!(
            async { Rabbit::connect(config.rabbit("thermae-scheduler")).await.context("RabbitMQ") },
            async { Redis::connect(config.registry()).await.context("Redis") },
        )
    };
    let (bus, registry) = tokio::select! {
        connected = connected => connected?,
        () = stop.cancelled() => return Ok(()),
    };
    let (bus, registry) = (Arc::new(bus), Arc::new(registry));
    let service = Service::new(config.scheduler, bus.clone(), registry.clone(), &metrics, health)?;
    let ran = service.run(stop).await;
    bus.close().await;
    registry.close().await;
    endpoint.cancel();
    server.stopped().await;
    Ok(ran?)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_configuration_file_is_named_by_the_variable_that_workers_read() {
        let command = Args::command();
        let config = command.get_arguments().find(|argument| argument.get_id() == "config");
        assert_eq!(config.and_then(|config| config.get_env()), Some("THERMAE_CONFIG".as_ref()));
        // An empty value is not an error.
        assert_eq!(Args::parse_from(["thermae-scheduler", "--config", ""]).config, Some(OsString::new()));
    }
}
