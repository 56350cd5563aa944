//! `thermae-worker`: serves pools of a fleet that uses RabbitMQ and Redis.
//!
//! The configuration comes from the defaults, the file of `--config`, the environment (`THERMAE_…`) and the flags.
//! Later ones win. The worker waits for RabbitMQ and Redis as long as necessary; `/readyz` says for which. SIGTERM
//! drains it, and a second SIGTERM ends it at once.
//!
//! Exit status: 0 after a drain, 2 if the configuration can't be used or an essential task panicked, 3 after any other
//! error.

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Parser;
use serde_json::json;
use thermae_redis::connect::Connected;
use thermae_service::program::{self, Failure, Process};
use thermae_worker::{Artifacts, Config, Error, Options, Parts, Service, artifact_routes};

const NAME: &str = "thermae-worker";

/// Run a fleet's jobs: take them from RabbitMQ, run each in a fresh sandbox, and publish its outcome.
///
/// The configuration comes from the defaults, the file, the environment (variables that begin with `THERMAE_`) and the
/// options. Later ones win.
#[derive(Debug, Parser)]
#[command(name = NAME, version)]
struct Args {
    #[command(flatten)]
    common: program::Args,
    /// Address for /healthz, /readyz and /metrics; by default 127.0.0.1:9465.
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// Name of the worker; by default, the host's name.
    #[arg(long)]
    name: Option<String>,
}

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    // The native backend starts this program itself as its runner. The runner must begin before any thread exists.
    if args.next().is_some_and(|a| a == "__runner") {
        return thermae_runner::main_with(args);
    }
    let args = Args::parse();
    let config = args.common.load([("listen", json!(args.listen)), ("name", json!(args.name))], Options::validate);
    program::run(NAME, &["bus", "registry", "pools"], config, serve)
}

async fn serve(config: Config, process: Process) -> Result<(), Failure> {
    let Process { health, metrics, stop, listening } = process;
    let artifacts = Artifacts::open(&config.own.artifacts, Some(listening.addr()));
    let artifacts = artifacts.map_err(Error::from).map_err(Failure::usage)?;
    let routes = artifact_routes(artifacts.clone());
    let work = async {
        // A worker needs no notices.
        let connected = Connected::to(&config.common, NAME, false, &health);
        let Some(connected) = stop.run_until_cancelled(connected).await.transpose()? else { return Ok(()) };
        let (bus, registry) = (connected.bus.clone(), connected.registry.clone());
        let parts = Parts { artifacts: Some(artifacts), docker: Some(thermae_docker::backend), ..Parts::default() };
        let service = Service::with_parts(config.own, bus, registry, &metrics, health.clone(), parts);
        let ran = service.map_err(Failure::usage)?.run(stop.clone()).await;
        connected.close().await;
        ran.map_err(Failure::usage)
    };
    listening.serve_while(health.clone(), metrics.clone(), routes, Box::pin(work)).await
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Args::command().debug_assert();
    }
}
