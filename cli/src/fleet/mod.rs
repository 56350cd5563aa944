//! The fleet that a command uses: the embedded one in this process, or a real one over AMQP.

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

/// How long to wait for a broker before telling the user that the command waits.
const SAY_SO_AFTER: Duration = Duration::from_millis(500);

/// How long to wait for a scheduler that takes jobs, once the fleet's exchanges exist.
const COMING_UP: Duration = Duration::from_secs(5);
/// Pause between two tries while no scheduler takes jobs.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// A fleet, and a client that is connected to it.
pub struct Fleet {
    client: Client,
    bus: SharedBus,
    embedded: Option<embedded::Running>,
}

/// Why a fleet can't be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The URL is not an AMQP URL.
    #[error("{0}")]
    Url(String),
    /// The tenant's name is invalid.
    #[error("the tenant can't be used")]
    Tenant(#[source] NameError),
    /// RabbitMQ did not answer in time.
    #[error("RabbitMQ at {host} did not answer within {within:?}: {why}")]
    Unreachable {
        /// Host and port of RabbitMQ.
        host: String,
        /// How long the client has waited.
        within: Duration,
        /// The last error.
        why: String,
    },
    /// The credentials are wrong, or the user lacks a permission.
    #[error("RabbitMQ at {host} refused this client: {why}")]
    Denied {
        /// Host and port of RabbitMQ.
        host: String,
        /// RabbitMQ's own message.
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
    /// Starts a scheduler and a worker in this process, with the in-process backplane and native sandboxes. Returns at
    /// once: the first job waits until the first sandbox is ready.
    ///
    /// The program must call [`crate::runner_entry`] first in its `main`, because sandboxes are made by starting the
    /// program again.
    ///
    /// # Errors
    /// [`Error::Embedded`] if there is no Python, or if an option can't be used.
    pub async fn embedded(options: EmbeddedOptions) -> Result<Self, Error> {
        embedded::start(options).await
    }

    /// Connects to a fleet's RabbitMQ as a tenant; by default, as the user in the URL.
    ///
    /// # Errors
    /// The URL or the tenant's name is malformed, RabbitMQ does not answer in time or refuses, or no scheduler has ever
    /// run there.
    pub async fn connect(amqp_url: &str, tenant: Option<&str>, timeout: Duration) -> Result<Self, Error> {
        let tenant = tenant.map(str::to_owned);
        Self::connect_with(&RemoteOptions { tenant, timeout, ..RemoteOptions::new(amqp_url) }).await
    }

    /// As [`Fleet::connect`], with options for TLS and for a separate password.
    ///
    /// # Errors
    /// As [`Fleet::connect`]. Also if the server's certificate is not trusted.
    pub async fn connect_with(options: &RemoteOptions) -> Result<Self, Error> {
        remote::connect(options).await
    }

    /// The client that jobs are submitted with.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// As [`Client::submit`]. If no scheduler takes jobs yet, waits a few seconds for one, because the fleet may just
    /// be starting.
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

    /// Waits until the embedded fleet's containers are warm. (The first job doesn't have to wait that long.) Returns at
    /// once for a real fleet, whose workers tell their readiness at `/readyz`.
    pub async fn ready(&self) {
        if let Some(running) = &self.embedded {
            running.ready().await;
        }
    }

    /// A client of another tenant over the same connection. On a real fleet, the connection's user must be in
    /// `fleet_users`.
    ///
    /// # Errors
    /// The client can't be set up, for example because the user lacks permissions.
    pub async fn client_of(&self, tenant: TenantName) -> Result<Client, Error> {
        Client::connect(self.bus.clone(), tenant, thermae_client::Options::default()).await.map_err(Error::Client)
    }

    /// The embedded fleet's store for files of jobs; `None` for a real fleet, whose store is reached by URLs only.
    pub(crate) fn store(&self) -> Option<&Artifacts> {
        self.embedded.as_ref().map(|running| &running.artifacts)
    }

    /// Metrics of the embedded fleet's scheduler and worker; `None` for a real fleet.
    pub fn metrics(&self) -> Option<&prometheus::Registry> {
        self.embedded.as_ref().map(embedded::Running::metrics)
    }

    /// Whether the fleet ends with this process.
    pub fn is_embedded(&self) -> bool {
        self.embedded.is_some()
    }

    /// Waits until the embedded fleet turns out to be unable to run anything on this machine, and gives the reason.
    /// Never returns if the fleet can run jobs, or if it is a real one.
    pub async fn unfit(&self) -> String {
        match &self.embedded {
            Some(running) => running.unfit().await,
            None => std::future::pending().await,
        }
    }

    /// Disconnects from a real fleet, or ends the embedded one with all that runs on it.
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

/// Opens the fleet that the options name; if they name none, an embedded one with the options `embedded`. Prints a note
/// when it has to wait. Gives up when interrupted.
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
        Error::Url(_) | Error::Tenant(_) => Failure::usage("bad_url", message).help(
            "the URL is amqp://USER:PASSWORD@HOST:5672, or amqps://USER:PASSWORD@HOST:5671 for TLS; --tenant NAME \
             names the tenant",
        ),
        Error::Unreachable { .. } => Failure::fleet("broker_unreachable", message)
            .help("start the fleet, wait longer with --connect-timeout, or leave --amqp out to use the embedded fleet"),
        Error::Denied { .. } => Failure::fleet("broker_denied", message).help(
            "check the user and the password, and that the user has the tenant's topic permissions (docs/protocol.md); \
             with amqps://, also check --tls-ca, --tls-cert and --tls-key",
        ),
        Error::Client(error) => failed(error),
        Error::Embedded(_) => {
            Failure::fleet("embedded_fleet", message).help("run `thermae doctor`: it says what this machine lacks")
        }
    }
}

/// The failure of an embedded fleet that can't run anything here. If the interpreter doesn't work, it is named as the
/// cause: the sandbox only saw it end.
pub(crate) fn unfit(why: String, args: &FleetArgs) -> Failure {
    let python = thermae_runner::outer::Spec::detect(args.python().as_deref()).ok();
    match python.filter(|spec| !is_python(&spec.python)) {
        Some(spec) => explain(Error::Embedded(format!("{} is not a working Python interpreter ({why})", spec.python))),
        None => explain(Error::Embedded(why)),
    }
}

/// Whether a program behaves as a Python interpreter, within ten seconds.
fn is_python(program: &str) -> bool {
    use std::process::{Command, Stdio};
    let mut asked = Command::new("timeout");
    asked.args(["10", program, "-I", "-c", "print(40 + 2)"]).stdin(Stdio::null()).stderr(Stdio::null());
    asked.output().is_ok_and(|output| output.stdout == b"42\n")
}

/// The failure of a command after an error of the client.
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
            Failure::usage("job_too_large", message).help("send files by reference, or ask the operator for a dataset")
        }
        _ => Failure::fleet("fleet_failed", message).help("try again, with -v for more in the log"),
    }
}
