//! The fleet that a command talks to: the embedded one of this process, or a real one over AMQP.

mod embedded;
mod remote;

use std::sync::Arc;
use std::time::{Duration, Instant};

use thermae_backplane::bus::{self, SharedBus};
use thermae_client::{Client, JobHandle, ToolHandler};
use thermae_schemas::{Job, NameError};
use thermae_worker::Artifacts;
use tokio_util::sync::CancellationToken;

use crate::args::FleetArgs;
use crate::failure::{Failure, chain};
use crate::style;
pub use embedded::EmbeddedOptions;

/// How long a broker may take to answer before that is said.
const SAY_SO_AFTER: Duration = Duration::from_millis(500);

/// How long a fleet whose exchanges are there may take until somebody takes jobs.
const COMING_UP: Duration = Duration::from_secs(5);
/// Pause between looks for a scheduler that has not come up yet.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// A fleet, and a client of it.
pub struct Fleet {
    client: Client,
    bus: SharedBus,
    embedded: Option<embedded::Running>,
}

/// Why there is no fleet.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The URL is no AMQP URL.
    #[error("{0}")]
    Url(String),
    /// The tenant's name breaks its rule.
    #[error("the tenant can't be used")]
    Tenant(#[source] NameError),
    /// Nobody answered in time.
    #[error("RabbitMQ at {host} did not answer within {within:?}: {why}")]
    Unreachable {
        /// Host and port.
        host: String,
        /// How long it was waited for.
        within: Duration,
        /// What happened last.
        why: String,
    },
    /// Wrong credentials, or no permission.
    #[error("RabbitMQ at {host} refused us: {why}")]
    Denied {
        /// Host and port.
        host: String,
        /// In its words.
        why: String,
    },
    /// The client could not be set up.
    #[error("the fleet can't be used")]
    Client(#[source] thermae_client::Error),
    /// A part of the embedded fleet could not be set up.
    #[error("the embedded fleet can't start: {0}")]
    Embedded(String),
}

impl Fleet {
    /// Starts scheduler and worker in this process, with the in-process backplane and native sandboxes. It returns at once: the first
    /// job waits until the first sandbox is there.
    ///
    /// The program must call [`crate::runner_entry`] first thing in its `main`: sandboxes are made by starting it again.
    ///
    /// # Errors
    /// [`Error::Embedded`] where no Python is found or an option can't be used.
    pub async fn embedded(options: EmbeddedOptions) -> Result<Self, Error> {
        embedded::start(options).await
    }

    /// Connects to a fleet's RabbitMQ as a tenant (by default, the URL's user).
    ///
    /// # Errors
    /// The URL or the tenant is malformed; RabbitMQ does not answer within the time, or refuses; no scheduler has ever run there.
    pub async fn connect(amqp_url: &str, tenant: Option<&str>, timeout: Duration) -> Result<Self, Error> {
        remote::connect(amqp_url, tenant, timeout).await
    }

    /// The client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Submits a job, as [`Client::submit`] does; a fleet that is just coming up, so that nobody takes jobs yet, gets a few seconds.
    ///
    /// # Errors
    /// As [`Client::submit`].
    pub async fn submit(
        &self,
        job: Job,
        tools: Option<Arc<dyn ToolHandler>>,
    ) -> Result<JobHandle, thermae_client::Error> {
        let deadline = Instant::now() + COMING_UP;
        loop {
            match self.client.submit(job.clone(), tools.clone()).await {
                Err(thermae_client::Error::NoScheduler) if Instant::now() < deadline => {
                    tokio::time::sleep(LOOK_AGAIN).await;
                }
                submitted => return submitted,
            }
        }
    }

    /// Where the embedded fleet keeps files of jobs; a real one's store is reached by URLs alone.
    pub(crate) fn store(&self) -> Option<&Artifacts> {
        self.embedded.as_ref().map(|running| &running.artifacts)
    }

    /// Metrics of the embedded fleet's scheduler and worker.
    pub fn metrics(&self) -> Option<&prometheus::Registry> {
        self.embedded.as_ref().map(embedded::Running::metrics)
    }

    /// Whether the fleet ends with this process.
    pub fn is_embedded(&self) -> bool {
        self.embedded.is_some()
    }

    /// Ends, with the reason, when the embedded fleet turns out to be unable to run anything on this machine; waits for ever where
    /// that is not so.
    pub async fn unfit(&self) -> String {
        match &self.embedded {
            Some(running) => running.unfit().await,
            None => std::future::pending().await,
        }
    }

    /// Ends the client and, if it is the embedded one, the fleet with whatever runs on it.
    pub async fn close(self) {
        match self.embedded {
            Some(running) => running.stop().await,
            None => self.client.close().await,
        }
        self.bus.close().await;
    }
}

impl std::fmt::Debug for Fleet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fleet").field("client", &self.client).field("embedded", &self.is_embedded()).finish()
    }
}

/// The fleet that the options name; the embedded one runs so many jobs at once (`None`: its default). Says so when it has to
/// wait; gives up when interrupted.
pub(crate) async fn open(
    args: &FleetArgs,
    slots: Option<u32>,
    interrupt: &CancellationToken,
) -> Result<Fleet, Failure> {
    let opening = async {
        match &args.amqp {
            None => {
                let python = args.python.clone();
                Fleet::embedded(EmbeddedOptions { python, slots, ..EmbeddedOptions::default() }).await
            }

            Some(url) => {
                let timeout = Duration::from(args.connect_timeout);
                let connecting = Fleet::connect(url, args.tenant.as_deref(), timeout);
                tokio::pin!(connecting);
                tokio::select! {
                    done = &mut connecting => return done,
                    () = tokio::time::sleep(SAY_SO_AFTER) => {}
                }
                style::note(&format!(
                    "waiting for the fleet at {} (up to {})",
                    remote::host(url),
                    args.connect_timeout
                ));
                connecting.await
            }
        }
    };
    tokio::select! {
        opened = opening => opened.map_err(explain),
        () = interrupt.cancelled() => Err(Failure::interrupted("interrupted while waiting for the fleet")),
    }
}

fn explain(error: Error) -> Failure {
    let message = chain(&error);
    match error {
        Error::Url(_) | Error::Tenant(_) => {
            Failure::usage("bad_url", message).help("--amqp amqp://USER:PASSWORD@HOST:5672 [--tenant NAME]")
        }
        Error::Unreachable { .. } => Failure::fleet("broker_unreachable", message)
            .help("start the fleet, wait longer with --connect-timeout, or leave --amqp out to use the embedded fleet"),
        Error::Denied { .. } => Failure::fleet("broker_denied", message)
            .help("check user and password, and that the user has the tenant's topic permissions (docs/protocol.md)"),
        Error::Client(error) => failed(error),
        Error::Embedded(_) => {
            Failure::fleet("embedded_fleet", message).help("`thermae doctor` says what this machine lacks")
        }
    }
}

/// The embedded fleet can't run anything here.
pub(crate) fn unfit(why: String) -> Failure {
    explain(Error::Embedded(why))
}

/// What a client's error means for a command.
pub(crate) fn failed(error: thermae_client::Error) -> Failure {
    let message = chain(&error);
    match error {
        thermae_client::Error::NoScheduler => {
            Failure::fleet("no_scheduler", message).help("start thermae-scheduler on this RabbitMQ")
        }
        thermae_client::Error::Bus(error) if matches!(*error, bus::Error::Denied(_)) => {
            Failure::fleet("broker_denied", message).help(
                "check that the user has the tenant's topic permissions (docs/protocol.md), or name another --tenant",
            )
        }
        _ => Failure::fleet("fleet_failed", message).help("try again; with -v the log says more"),
    }
}
