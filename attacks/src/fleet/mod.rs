//! A fleet of real processes on RabbitMQ and Redis, for attacks by a tenant. One fleet has its guards; another one, for
//! the controls, has them off.

pub mod asking;
pub mod broker;
pub mod forging;
pub mod gateway;
pub mod keyed;
pub mod load;
pub mod minting;
pub mod process;
pub mod raw;
pub mod slow;
pub mod socket;
pub mod waiting;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use thermae_backplane::bus::{Rabbit, RabbitOptions, SharedBus};
use thermae_client::{Client, JobHandle};
use thermae_schemas::{Job, Outcome, TenantName};

use broker::Attacker;
use gateway::Gateway;
use keyed::Keyed;
use minting::Minting;
use process::Process;

/// Longer than anything takes that happens at all.
const SOON: Duration = Duration::from_secs(60);

/// URLs of the servers, from variables that `cargo xtask` sets.
#[derive(Debug, Clone)]
pub struct Servers {
    fleet: String,
    acme: String,
    globex: String,
    redis: String,
}

impl Servers {
    /// Reads the URLs from the environment.
    ///
    /// # Errors
    /// A variable is missing.
    pub fn of_environment() -> Result<Self> {
        let var = |name: &str| {
            std::env::var(name)
                .with_context(|| format!("{name} is not set: `cargo xtask attack` starts servers and sets it"))
        };
        Ok(Self {
            fleet: var("THERMAE_TEST_AMQP")?,
            acme: var("THERMAE_TEST_AMQP_TENANT")?,
            globex: var("THERMAE_TEST_AMQP_OTHER")?,
            redis: var("THERMAE_TEST_REDIS")?,
        })
    }
}

/// A running fleet. The tenant `acme` attacks, `globex` is the victim.
pub struct Site {
    servers: Servers,
    /// Whether the guards are off: limits are lifted, and the attacker's RabbitMQ user may do everything.
    pub lifted: bool,
    /// The fleet's only scheduler.
    pub scheduler: Process,
    /// The fleet's only worker.
    pub worker: Process,
    /// A client of the attacker's tenant, `acme`.
    pub acme: Client,
    /// A client of the victim's tenant, `globex`.
    pub globex: Client,
    /// Whoever mints the tokens that the fleet takes.
    pub minting: Minting,
    _dir: TempDir,
}

impl Site {
    /// Starts the scheduler, the worker and the clients.
    ///
    /// # Errors
    /// A server is missing, a program is not built, or a process is not ready in time.
    pub async fn open(lifted: bool) -> Result<Self> {
        let servers = Servers::of_environment()?;
        let dir = tempfile::Builder::new().prefix("attacks-").tempdir()?;
        let common =
            |http: &str| format!("amqp = {:?}\nredis = {:?}\nlisten = {http:?}\n", servers.fleet, servers.redis);
        let scheduler = Process::start("thermae-scheduler", dir.path(), |http| common(http) + scheduler(lifted))?;
        scheduler.await_ready().await?;
        let minting = Minting::new(dir.path())?;
        let worker =
            Process::start("thermae-worker", dir.path(), |http| common(http) + worker(lifted) + &minting.of_worker())?;
        worker.await_ready().await?;
        let acme = client(&servers.acme, "acme").await?;
        let globex = client(&servers.globex, "globex").await?;
        Ok(Self { servers, lifted, scheduler, worker, acme, globex, minting, _dir: dir })
    }

    /// The attacker's connection to RabbitMQ: as `acme`, or, with the guards off, as a user that may do everything.
    ///
    /// # Errors
    /// RabbitMQ refuses the connection.
    pub async fn attacker(&self) -> Result<Attacker> {
        Attacker::connect(if self.lifted { &self.servers.fleet } else { &self.servers.acme }).await
    }

    /// A connection that may do everything, to see what the broker did.
    ///
    /// # Errors
    /// RabbitMQ refuses the connection.
    pub async fn witness(&self) -> Result<Attacker> {
        Attacker::connect(&self.servers.fleet).await
    }

    /// The RabbitMQ URL that [`Self::attacker`] uses.
    pub fn attackers_url(&self) -> &str {
        if self.lifted { &self.servers.fleet } else { &self.servers.acme }
    }

    /// The attacker's gateway; with the guards off, the victim's.
    ///
    /// # Errors
    /// As for [`Gateway::start`].
    pub async fn gateway(&self) -> Result<Gateway> {
        Gateway::start(if self.lifted { &self.servers.globex } else { &self.servers.acme }).await
    }

    /// A gateway with API keys, for both tenants. With the guards off, one tenant may take all of it.
    ///
    /// # Errors
    /// As for [`Keyed::start`].
    pub async fn keyed(&self) -> Result<Keyed> {
        Keyed::start(&self.servers.acme, &self.servers.globex, self.lifted, &self.minting).await
    }

    /// The same, but as a user of the attacker's tenant that may decide about calls, and do little else.
    ///
    /// # Errors
    /// As for [`Keyed::start`].
    pub async fn deciding(&self) -> Result<Keyed> {
        // In these servers, each user's password is its name.
        let approver = self.servers.acme.replace("acme:acme@", "acme.approver:acme.approver@");
        Keyed::start(&approver, &self.servers.globex, self.lifted, &self.minting).await
    }

    /// URL of the Redis that the fleet keeps its records in.
    pub fn redis(&self) -> &str {
        &self.servers.redis
    }

    /// Runs a job of the victim, which must give the right output.
    ///
    /// # Errors
    /// The job did not end, or its output was wrong.
    pub async fn honest(&self) -> Result<()> {
        let outcome = soon("another tenant's job", run(&self.globex, Job::python("print(6 * 7)"))).await??;
        ensure!(outcome.stdout == "42\n", "another tenant's job {}", crate::judge::ended(&outcome));
        Ok(())
    }

    /// How long to wait for what the guard makes sure of. With the guards off, it never comes.
    pub fn patience(&self) -> Duration {
        if self.lifted { Duration::from_secs(10) } else { SOON }
    }

    /// Checks what must hold after every attack: both processes live, and another tenant is served.
    ///
    /// # Errors
    /// One of these does not hold.
    pub async fn aftermath(&self) -> Result<()> {
        self.honest().await?;
        self.scheduler.alive()?;
        self.worker.alive()
    }

    /// Closes the clients, then stops the worker and the scheduler.
    pub async fn close(self) {
        self.acme.close().await;
        self.globex.close().await;
        self.worker.stop().await;
        self.scheduler.stop().await;
    }
}

/// The scheduler's configuration. `refused_bytes` is high, because attacks that send a lot of refused messages must not
/// make the next attacks wait.
fn scheduler(lifted: bool) -> &'static str {
    if lifted {
        "[telemetry]\nlog = \"error\"\n[scheduler]\nrefused_bytes = \"16MiB\"\nreserve = 0.0\n"
    } else {
        "[telemetry]\nlog = \"error\"\n[scheduler]\nrefused_bytes = \"16MiB\"\ntenant_outcome_bytes = \"4MiB\"\n[scheduler.tenants.acme]\nmax_in_flight = 2\n"
    }
}

fn worker(lifted: bool) -> &'static str {
    if lifted {
        "name = \"attacks\"\nfleet = \"attacks\"\ndrain_grace = \"0s\"\n[telemetry]\nlog = \"error\"\n[pools.default]\nslots = 3\nwarm = 3\nmax_sessions = 4\nmax_sessions_per_tenant = 4\nsession_min_idle = \"0s\"\ntenant_traffic = \"1GiB\"\n[answers]\nrun_memory = \"8GiB\"\ntenant_memory = \"8GiB\"\nmemory = \"8GiB\"\n[pools.default.limits]\ngrace = \"1h\"\n[pools.default.bounds]\ndisplays = 100000\ntool_calls = 1000000\n"
    } else {
        "name = \"attacks\"\nfleet = \"attacks\"\ndrain_grace = \"0s\"\ntenant_outcome_bytes = \"4MiB\"\n[telemetry]\nlog = \"error\"\n[pools.default]\nslots = 3\nwarm = 3\nmax_sessions = 4\nsession_min_idle = \"1h\"\n"
    }
}

/// A client that speaks for `tenant`.
async fn client(url: &str, tenant: &str) -> Result<Client> {
    let bus: SharedBus = std::sync::Arc::new(Rabbit::connect(RabbitOptions::new(url, "attacks")).await?);
    Ok(Client::connect(bus, TenantName::new(tenant)?, thermae_client::Options::default()).await?)
}

/// Submits a job and waits for its outcome.
///
/// # Errors
/// The client's error.
pub async fn run(client: &Client, job: Job) -> Result<Outcome> {
    let handle: JobHandle = client.submit(job, None).await?;
    Ok(handle.result().await?)
}

/// Waits for `future` for `time` at most.
///
/// # Errors
/// It took longer.
pub async fn within<T>(time: Duration, what: &str, future: impl Future<Output = T>) -> Result<T> {
    tokio::time::timeout(time, future).await.with_context(|| format!("{what}: not within {time:?}"))
}

/// Waits for something that must happen, for `SOON` at most.
///
/// # Errors
/// It did not happen.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> Result<T> {
    within(SOON, what, future).await
}

/// Asks every 10 ms until the answer is yes.
///
/// # Errors
/// It never was, or asking failed.
pub async fn until(what: &str, mut ask: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
    soon(what, async {
        while !ask().await? {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    })
    .await?
}
