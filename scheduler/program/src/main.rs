//! The program `thermae-scheduler`: connects to RabbitMQ and Redis, and runs a [`Service`] until a signal ends it.

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Parser;
use serde_json::json;
use thermae_redis::connect::Connected;
use thermae_scheduler::{Config, Own, Service};
use thermae_service::http::Router;
use thermae_service::program::{self, Failure, Process};

const NAME: &str = "thermae-scheduler";

/// Schedule a fleet's jobs: take them from RabbitMQ, and hand them to workers.
///
/// Several schedulers can run; one of them leads. The configuration comes from the defaults, the file, the environment
/// (variables that begin with `THERMAE_`) and the options. Later ones win.
#[derive(Debug, Parser)]
#[command(name = NAME, version)]
struct Args {
    #[command(flatten)]
    common: program::Args,
    /// Address for /healthz, /readyz and /metrics; by default 127.0.0.1:9464.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let config = args.common.load([("listen", json!(args.listen))], |own: &Own| own.scheduler.check());
    program::run(NAME, &["bus", "registry", "leader"], config, serve)
}

async fn serve(config: Config, process: Process) -> Result<(), Failure> {
    let Process { health, metrics, stop, listening } = process;
    let schedule = async {
        let connected = Connected::to(&config.common, NAME, true, &health);
        let Some(connected) = stop.run_until_cancelled(connected).await.transpose()? else { return Ok(()) };
        let (bus, registry) = (connected.bus.clone(), connected.registry.clone());
        let service = Service::new(config.own.scheduler, bus, registry, &metrics, health.clone())?;
        let ran = service.run(stop.clone()).await;
        connected.close().await;
        Ok(ran?)
    };
    listening.serve_while(health.clone(), metrics.clone(), Router::new(), Box::pin(schedule)).await
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
