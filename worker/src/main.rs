//! `thermae-worker`: serves pools of a fleet that uses RabbitMQ and Redis.
//!
//! The configuration comes from the defaults, the file of `--config`, the environment (`THERMAE_…`) and the flags.
//! Later ones win. The worker waits for RabbitMQ and Redis as long as necessary; `/readyz` says for which. SIGTERM
//! drains it, and a second SIGTERM ends it at once.
//!
//! Exit status: 0 after a drain, 2 if the configuration can't be used or an essential task panicked, 3 after any other
//! error.

mod flags;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Parser;
use thermae_backplane::bus::{Bus, Rabbit};
use thermae_backplane::registry::{Redis, RedisOptions};
use thermae_service::health::Health;
use thermae_service::{config, http, secret, signals, telemetry};
use thermae_worker::{Artifacts, Config, Parts, Service};

use flags::Flags;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    // The native backend starts this program itself as its runner. The runner must begin before any thread exists.
    if args.next().is_some_and(|a| a == "__runner") {
        return thermae_runner::main_with(args);
    }
    let config = match Flags::parse().load() {
        Ok(config) => config,
        Err(e) => return fail(2, &e),
    };
    let runtime = match tokio::runtime::Runtime::new().context("starting the runtime") {
        Ok(runtime) => runtime,
        Err(e) => return fail(3, &e),
    };
    match runtime.block_on(run(config)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) if e.is::<thermae_worker::Error>() || e.is::<telemetry::Error>() => fail(2, &e),
        Err(e) => fail(3, &e),
    }
}

fn fail(code: u8, error: &anyhow::Error) -> ExitCode {
    eprintln!("error: {error:#}");
    ExitCode::from(code)
}

async fn run(config: Config) -> anyhow::Result<()> {
    let guard = telemetry::init("thermae-worker", &config.telemetry, &config.tls())?;
    for (option, url) in [("amqp", &config.amqp), ("redis", &config.redis)] {
        if secret::is_shown_in_arguments(url.expose()) {
            tracing::warn!("{}", secret::argument_warning(option));
        }
    }
    for variable in config::unread::<Config>(config::ENV_PREFIX) {
        tracing::debug!(variable, "not read by this program");
    }
    let drain = signals::shutdown().context("setting up signals")?;
    let (health, metrics) = (Health::new(), prometheus::Registry::new());
    let (bus_ready, registry_ready) = (health.condition("bus"), health.condition("registry"));
    health.condition("pools");
    bus_ready.not_ready("waiting for RabbitMQ");
    registry_ready.not_ready("waiting for Redis");
    // The server runs until the drain is over, so that health checks are told about the drain.
    let serving = tokio_util::sync::CancellationToken::new();
    let listening = http::listen(config.listen).await?;
    let artifacts = Artifacts::open(&config.artifacts, Some(listening.addr())).map_err(thermae_worker::Error::from)?;
    let routes = thermae_worker::artifact_routes(artifacts.clone());
    let server = listening.serve(health.clone(), metrics.clone(), routes, serving.clone());

    let connect = async {
        let bus = async {
            let bus = Rabbit::connect(config.rabbit("thermae-worker")).await?;
            bus_ready.ready();
            anyhow::Ok(bus)
        };
        let registry = async {
            // A worker needs no notices.
            let options = RedisOptions { notices: false, ..config.registry() };
            let registry = Redis::connect(options).await?;
            registry_ready.ready();
            anyhow::Ok(registry)
        };
        tokio::try_join!(bus, registry)
    };
    let outcome = match drain.run_until_cancelled(connect).await {
        None => Ok(()),
        Some(Err(e)) => Err(e),
        Some(Ok((bus, registry))) => {
            let bus: Arc<dyn Bus> = Arc::new(bus);
            let parts = Parts { artifacts: Some(artifacts), ..Parts::default() };
            let registry = Arc::new(registry);
            match Service::with_parts(config.worker(), Arc::clone(&bus), registry, &metrics, health, parts) {
                Ok(service) => {
                    let ended = service.run(drain).await;
                    bus.close().await;
                    ended.map_err(Into::into)
                }
                Err(e) => Err(e.into()),
            }
        }
    };
    serving.cancel();
    server.stopped().await;
    guard.shutdown().await;
    outcome
}
