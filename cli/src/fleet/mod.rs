//! The fleet that a command talks to: the embedded one of this process, or a real one over AMQP.

mod embedded;
mod remote;
mod size;

use std::sync::Arc;
use std::time::{Duration, Instant};

use thermae_backplane::bus::{self, SharedBus};
use thermae_client::{Client, JobHandle, ToolHandler};
use thermae_schemas::{Job, NameError, TenantName};
use thermae_worker::Artifacts;
use tokio_util::sync::CancellationToken;

use crate::args::FleetArgs;
use crate::failure::{Failure, chain};
use crate::style;
pub use embedded::EmbeddedOptions;
pub use remote::RemoteOptions;
pub(crate) use size::embedded;

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
        let tenant = tenant.map(str::to_owned);
        Self::connect_with(&RemoteOptions { tenant, timeout, ..RemoteOptions::new(amqp_url) }).await
    }

    /// As [`Fleet::connect`], with what TLS and a password of its own need.
    ///
    /// # Errors
    /// As for [`Fleet::connect`]; and a server that is not to be trusted.
    pub async fn connect_with(options: &RemoteOptions) -> Result<Self, Error> {
        remote::connect(options).await
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

    /// Waits until the embedded fleet's warm containers stand (its first job need not wait so long). A real fleet tells its readiness at its
    /// workers' `/readyz`.
    pub async fn ready(&self) {
        if let Some(running) = &self.embedded {
            running.ready().await;
        }
    }

    /// A client of another tenant, over the same connection. On a real fleet the connection's user must be one of `fleet_users`.
    ///
    /// # Errors
    /// The client can't be set up, for want of permissions, say.
    pub async fn client_of(&self, tenant: TenantName) -> Result<Client, Error> {
        Client::connect(self.bus.clone(), tenant, thermae_client::Options::default()).await.map_err(Error::Client)
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

/// The fleet that the options name: the embedded one, made like this, where they name none. Says so when it has to wait; gives up
/// when interrupted.
pub(crate) async fn open(
    args: &FleetArgs,
    embedded: EmbeddedOptions,
    interrupt: &CancellationToken,
) -> Result<Fleet, Failure> {
    let remote = remote::options(args)?;
    let opening = async {
        match &remote {
            None => Fleet::embedded(embedded).await,
            Some(remote) => {
                let connecting = Fleet::connect_with(remote);
                tokio::pin!(connecting);
                tokio::select! {
                    done = &mut connecting => return done,
                    () = tokio::time::sleep(SAY_SO_AFTER) => {}
                }
                style::note(&format!(
                    "waiting for the fleet at {} (up to {})",
                    remote::host(remote.url.expose()),
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
            Failure::usage("bad_url", message)
                .help("the URL is amqp://USER:PASSWORD@HOST:5672, or amqps://USER:PASSWORD@HOST:5671 by TLS; [--tenant NAME]")
        }
        Error::Unreachable { .. } => Failure::fleet("broker_unreachable", message)
            .help("start the fleet, wait longer with --connect-timeout, or leave --amqp out to use the embedded fleet"),
        Error::Denied { .. } => Failure::fleet("broker_denied", message)
            .help("check user and password, and that the user has the tenant's topic permissions (docs/protocol.md); behind amqps://, check --tls-ca, --tls-cert and --tls-key"),
        Error::Client(error) => failed(error),
        Error::Embedded(_) => {
            Failure::fleet("embedded_fleet", message).help("`thermae doctor` says what this machine lacks")
        }
    }
}

/// The embedded fleet can't run anything here. An interpreter that is none is named as the cause: the sandbox only saw it end.
pub(crate) fn unfit(why: String, args: &FleetArgs) -> Failure {
    let python = thermae_runner::outer::Spec::detect(args.python().as_deref()).ok();
    match python.filter(|spec| !is_python(&spec.python)) {
        Some(spec) => explain(Error::Embedded(format!("{} is no Python interpreter that runs ({why})", spec.python))),
        None => explain(Error::Embedded(why)),
    }
}

/// Whether a program answers as Python does, at once.
fn is_python(program: &str) -> bool {
    use std::process::{Command, Stdio};
    let mut asked = Command::new("timeout");
    asked.args(["10", program, "-I", "-c", "print(40 + 2)"]).stdin(Stdio::null()).stderr(Stdio::null());
    asked.output().is_ok_and(|output| output.stdout == b"42\n")
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
        thermae_client::Error::QueueFull => {
            Failure::fleet("queue_full", message).help("wait until some of the tenant's jobs have ended")
        }
        thermae_client::Error::Bus(error) if matches!(*error, bus::Error::TooLarge(_)) => {
            Failure::usage("job_too_large", message).help("bring files by reference, or ask the operator for a dataset")
        }
        _ => Failure::fleet("fleet_failed", message).help("try again; with -v the log says more"),
    }
}
