//! A fleet, and the client that is connected to it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use thermae_backplane::bus::SharedBus;
use thermae_client::{Client, JobHandle, ToolHandler};
use thermae_schemas::{Job, Outcome, TenantName};
use thermae_worker::Artifacts;

use crate::embedded::{self, Running};
use crate::remote::LOOK_AGAIN;
use crate::{EmbeddedOptions, Error, RemoteOptions, Unfit, remote};

/// How long to wait for a scheduler that takes jobs, once the fleet's exchanges exist.
const COMING_UP: Duration = Duration::from_secs(5);

/// A fleet, and a client that is connected to it.
///
/// Dropping an embedded fleet ends it and all that runs on it, as [`Fleet::close`] does, but doesn't wait for that: its
/// processes end as soon as the runtime gets to it, and with the runtime at the latest.
pub struct Fleet {
    pub(crate) client: Client,
    pub(crate) bus: SharedBus,
    pub(crate) embedded: Option<Running>,
}

impl Fleet {
    /// Starts a scheduler and a worker in this process, with the in-process backplane and native sandboxes. Returns at
    /// once: the first job waits until the first sandbox is ready. [`Fleet::ready`] waits for all of them.
    ///
    /// The program must call [`crate::runner_entry`] first in its `main`, because sandboxes are made by starting the
    /// program again.
    ///
    /// ```no_run
    /// # async fn run() -> Result<(), thermae_fleet::Error> {
    /// use thermae_fleet::{ByteSize, EmbeddedOptions, Fleet};
    ///
    /// let mut options = EmbeddedOptions { slots: Some(2), disk: ByteSize::mib(256), ..EmbeddedOptions::default() };
    /// options.limits.ceiling.memory = ByteSize::gib(1);
    /// options.datasets.insert("sales".into(), "/srv/sales".into());
    /// let fleet = Fleet::embedded(options).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Embedded`] if there is no Python, or if an option can't be used.
    pub async fn embedded(options: EmbeddedOptions) -> Result<Self, Error> {
        embedded::start(options).await
    }

    /// Connects to a fleet's RabbitMQ as a tenant: by a URL, or with options. By default, the tenant is the user in the
    /// URL.
    ///
    /// ```no_run
    /// # async fn run() -> Result<(), thermae_fleet::Error> {
    /// use std::time::Duration;
    /// use thermae_fleet::{Fleet, RemoteOptions};
    ///
    /// let fleet = Fleet::connect("amqp://acme:secret@fleet.example:5672").await?;
    ///
    /// let options = RemoteOptions {
    ///     tenant: Some("acme".into()),
    ///     connect_timeout: Duration::from_secs(5),
    ///     ..RemoteOptions::new("amqps://agents:secret@fleet.example:5671")
    /// };
    /// let fleet = Fleet::connect(options).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The URL or the tenant's name is malformed, RabbitMQ does not answer in time, refuses, or shows a certificate
    /// that is not trusted, or no scheduler has ever run there.
    pub async fn connect(options: impl Into<RemoteOptions>) -> Result<Self, Error> {
        remote::connect(options.into()).await
    }

    /// The client that jobs are submitted with. Clones of it outlive neither an embedded fleet nor a fleet that was
    /// closed: their handles then get [`thermae_client::Error::Closed`].
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Submits a job, and waits for its outcome. `tools` answers its tool calls.
    ///
    /// ```no_run
    /// # async fn run(fleet: thermae_fleet::Fleet) -> Result<(), thermae_fleet::Error> {
    /// use thermae_fleet::{Job, Status};
    ///
    /// let outcome = fleet.run(Job::python("print('hello')\n6 * 7"), None).await?;
    /// assert_eq!((outcome.status, outcome.stdout.as_str()), (Status::Succeeded, "hello\n"));
    /// assert_eq!(outcome.value.unwrap()["text/plain"].raw().get(), "\"42\"");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Client`] as for [`Fleet::submit`] and [`JobHandle::result`]. [`Error::Embedded`] if the embedded fleet
    /// turns out to be unable to run anything on this machine.
    pub async fn run(&self, job: Job, tools: Option<Arc<dyn ToolHandler>>) -> Result<Outcome, Error> {
        let outcome = async { self.submit(job, tools).await?.result().await };
        tokio::select! {
            outcome = outcome => outcome.map_err(Error::Client),
            why = self.unfit() => Err(Error::Embedded(why)),
        }
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

    /// Waits until the embedded fleet turns out to be unable to run anything on this machine, and gives the reason.
    /// Never returns if the fleet can run jobs, or if it is a real one.
    pub async fn unfit(&self) -> Unfit {
        match &self.embedded {
            Some(running) => running.unfit().await,
            None => std::future::pending().await,
        }
    }

    /// A client of another tenant over the same connection. On a real fleet, the connection's user must be in
    /// `fleet_users`.
    ///
    /// # Errors
    /// The client can't be set up, for example because the user lacks permissions.
    pub async fn client_of(&self, tenant: TenantName) -> Result<Client, Error> {
        let options = self.embedded.as_ref().map_or_else(thermae_client::Options::default, Running::client);
        Client::connect(self.bus.clone(), tenant, options).await.map_err(Error::Client)
    }

    /// The embedded fleet's store for files of jobs; `None` for a real fleet, whose store is reached by URLs only.
    pub fn store(&self) -> Option<&Artifacts> {
        self.embedded.as_ref().map(Running::store)
    }

    /// Metrics of the embedded fleet's scheduler and worker; `None` for a real fleet.
    pub fn metrics(&self) -> Option<&prometheus::Registry> {
        self.embedded.as_ref().map(Running::metrics)
    }

    /// Whether the fleet ends with this process.
    pub fn is_embedded(&self) -> bool {
        self.embedded.is_some()
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
