//! What the fleet's long-running programs (the scheduler, the worker and the gateway) do in the same way: they read
//! arguments and a configuration, set up logs and traces, serve health and metrics, stop on a signal, and end with the
//! same exit statuses.
//!
//! ```text
//! Args ─▶ Config ─▶ run ─┬─ logs and traces, signals, the port of `listen`
//!                        ├─ the program's own part, which gets a Process
//!                        └─ the last traces are sent
//! ```

mod args;
mod config;
mod failure;

use std::net::SocketAddr;
use std::process::ExitCode;

use anyhow::Context as _;
use schemars::JsonSchema;
use tokio_util::sync::CancellationToken;

use crate::config::{ENV_PREFIX, unread};
use crate::health::Health;
use crate::http::{self, Listening};
use crate::secret::Secret;
use crate::tls::Tls;
use crate::{secret, signals, telemetry};

pub use args::Args;
pub use config::{Common, Config};
pub use failure::Failure;

/// What [`run`] has to know of a program's configuration.
pub trait Settings: JsonSchema {
    /// Address at which `/healthz`, `/readyz` and `/metrics` are served.
    fn listen(&self) -> SocketAddr;

    /// Logs and traces.
    fn telemetry(&self) -> &telemetry::Options;

    /// The settings for TLS: which authorities to trust, and which certificate to show.
    fn tls(&self) -> Tls;

    /// The URLs that arguments can name, each with the name of its option.
    fn urls(&self) -> Vec<(&'static str, &Secret)>;
}

impl<const PORT: u16, T: JsonSchema> Settings for Config<PORT, T> {
    fn listen(&self) -> SocketAddr {
        self.common.listen
    }

    fn telemetry(&self) -> &telemetry::Options {
        &self.common.telemetry
    }

    fn tls(&self) -> Tls {
        self.common.tls()
    }

    fn urls(&self) -> Vec<(&'static str, &Secret)> {
        vec![("amqp", &self.common.amqp), ("redis", &self.common.redis)]
    }
}

/// What a running program gets from [`run`].
#[derive(Debug)]
pub struct Process {
    /// The conditions of `/readyz`.
    pub health: Health,
    /// The metrics of `/metrics`.
    pub metrics: prometheus::Registry,
    /// The first SIGTERM or SIGINT cancels it.
    pub stop: CancellationToken,
    /// The port of `listen`.
    pub listening: Listening,
}

/// Runs a program from its configuration to its end. `conditions` names what the program needs before it is ready.
/// `serve` is the program's own part. It returns when the program has stopped, which [`Process::stop`] asks for.
///
/// The exit status is 0 if `serve` succeeds, otherwise that of the [`Failure`]. Standard error says what failed.
pub fn run<C: Settings>(
    name: &str,
    conditions: &[&str],
    config: Result<C, Failure>,
    serve: impl AsyncFnOnce(C, Process) -> Result<(), Failure>,
) -> ExitCode {
    let ended = config.and_then(|config| {
        let runtime = tokio::runtime::Runtime::new().context("the runtime can't be started");
        let runtime = runtime.map_err(Failure::refused)?;
        runtime.block_on(traced(name, conditions, config, serve))
    });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{name}: {failure}");
            failure.status()
        }
    }
}

async fn traced<C: Settings>(
    name: &str,
    conditions: &[&str],
    config: C,
    serve: impl AsyncFnOnce(C, Process) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let traces = telemetry::init(name, config.telemetry(), &config.tls()).map_err(Failure::usage)?;
    for (option, url) in config.urls() {
        if secret::is_shown_in_arguments(url.expose()) {
            tracing::warn!("{}", secret::argument_warning(option));
        }
    }
    for variable in unread::<C>(ENV_PREFIX) {
        tracing::debug!(variable, "not read by this program");
    }
    let served = match Process::start(config.listen(), conditions).await {
        Ok(process) => serve(config, process).await,
        Err(failure) => Err(failure),
    };
    traces.shutdown().await;
    served
}

impl Process {
    async fn start(listen: SocketAddr, conditions: &[&str]) -> Result<Self, Failure> {
        let stop = signals::shutdown().context("signal handlers can't be installed").map_err(Failure::refused)?;
        let health = Health::new();
        for condition in conditions {
            health.condition(condition);
        }
        Ok(Self { health, metrics: prometheus::Registry::new(), stop, listening: http::listen(listen).await? })
    }
}
