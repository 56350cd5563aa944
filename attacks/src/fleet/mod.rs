//! A fleet of real processes on RabbitMQ and Redis, for attacks by a tenant: one with its guards, and one without them for the controls.

pub mod broker;
pub mod forging;
pub mod load;
pub mod process;
pub mod raw;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use thermae_backplane::bus::{Rabbit, RabbitOptions, SharedBus};
use thermae_client::{Client, JobHandle};
use thermae_schemas::{Job, Outcome, TenantName};

use broker::Attacker;
use process::Process;

/// Longer than anything takes that happens.
const SOON: Duration = Duration::from_secs(30);

/// An honest job of another tenant's takes no longer, whatever goes on: time enough for a busy machine, and too little for one that is
/// held up.
const HONEST: Duration = Duration::from_secs(15);

/// Where the servers are, by the variables that `cargo xtask` sets.
#[derive(Debug, Clone)]
pub struct Servers {
    fleet: String,
    acme: String,
    globex: String,
    redis: String,
}

impl Servers {
    /// Those of the environment.
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
    /// Whether the guards are off: bounds are lifted, and the attacker's RabbitMQ user may do everything.
    pub lifted: bool,
    /// The scheduler.
    pub scheduler: Process,
    /// The worker.
    pub worker: Process,
    /// The attacker's honest client.
    pub acme: Client,
    /// The victim's.
    pub globex: Client,
    _dir: TempDir,
}

impl Site {
    /// Starts it.
    ///
    /// # Errors
    /// A server is not there, a program is not built, or a process is not ready in time.
    pub async fn open(lifted: bool) -> Result<Self> {
        let servers = Servers::of_environment()?;
        let dir = tempfile::Builder::new().prefix("attacks-").tempdir()?;
        let common =
            |http: &str| format!("amqp = {:?}\nredis = {:?}\nlisten = {http:?}\n", servers.fleet, servers.redis);
        let scheduler = Process::start("thermae-scheduler", dir.path(), |http| common(http) + scheduler(lifted))?;
        scheduler.await_ready().await?;
        let worker = Process::start("thermae-worker", dir.path(), |http| common(http) + worker(lifted))?;
        worker.await_ready().await?;
        let acme = client(&servers.acme, "acme").await?;
        let globex = client(&servers.globex, "globex").await?;
        Ok(Self { servers, lifted, scheduler, worker, acme, globex, _dir: dir })
    }

    /// The attacker's own connection to RabbitMQ: as `acme`, or, without the guards, as a user that may do everything.
    ///
    /// # Errors
    /// RabbitMQ does not take it.
    pub async fn attacker(&self) -> Result<Attacker> {
        Attacker::connect(if self.lifted { &self.servers.fleet } else { &self.servers.acme }).await
    }

    /// A connection that may do everything: to see what the broker did.
    ///
    /// # Errors
    /// RabbitMQ does not take it.
    pub async fn witness(&self) -> Result<Attacker> {
        Attacker::connect(&self.servers.fleet).await
    }

    /// The attacker's URL.
    pub fn attackers_url(&self) -> &str {
        if self.lifted { &self.servers.fleet } else { &self.servers.acme }
    }

    /// Redis's URL.
    pub fn redis(&self) -> &str {
        &self.servers.redis
    }

    /// A job of the victim's: it must end as it should, and in time. How long it took.
    ///
    /// # Errors
    /// It did not.
    pub async fn honest(&self) -> Result<Duration> {
        let begun = Instant::now();
        let outcome = within(HONEST, "another tenant's job", run(&self.globex, Job::python("print(6 * 7)"))).await??;
        ensure!(outcome.stdout == "42\n", "another tenant's job {}", crate::judge::ended(&outcome));
        Ok(begun.elapsed())
    }

    /// What must be true after every attack: both processes live, and another tenant is served.
    ///
    /// # Errors
    /// What is not.
    pub async fn aftermath(&self) -> Result<()> {
        self.honest().await?;
        self.scheduler.alive()?;
        self.worker.alive()
    }

    /// Ends it.
    pub async fn close(self) {
        self.acme.close().await;
        self.globex.close().await;
        self.worker.stop().await;
        self.scheduler.stop().await;
    }
}

/// Attacks that send a lot that is refused must not make the next ones wait: hence `refused_bytes`.
fn scheduler(lifted: bool) -> &'static str {
    if lifted {
        "[telemetry]\nlog = \"error\"\n[scheduler]\nrefused_bytes = \"16MiB\"\nreserve = 0.0\n"
    } else {
        "[telemetry]\nlog = \"error\"\n[scheduler]\nrefused_bytes = \"16MiB\"\ntenant_outcome_bytes = \"4MiB\"\n[scheduler.tenants.acme]\nmax_in_flight = 2\n"
    }
}

fn worker(lifted: bool) -> &'static str {
    if lifted {
        "name = \"attacks\"\nfleet = \"attacks\"\ndrain_grace = \"0s\"\n[telemetry]\nlog = \"error\"\n[pools.default]\nslots = 3\nwarm = 3\nmax_sessions = 4\nmax_sessions_per_tenant = 4\ntenant_traffic = \"1GiB\"\n[pools.default.bounds]\ndisplays = 100000\ntool_calls = 1000000\n"
    } else {
        "name = \"attacks\"\nfleet = \"attacks\"\ndrain_grace = \"0s\"\ntenant_outcome_bytes = \"4MiB\"\n[telemetry]\nlog = \"error\"\n[pools.default]\nslots = 3\nwarm = 3\nmax_sessions = 4\n"
    }
}

/// A client of a tenant's.
async fn client(url: &str, tenant: &str) -> Result<Client> {
    let bus: SharedBus = std::sync::Arc::new(Rabbit::connect(RabbitOptions::new(url, "attacks")).await?);
    Ok(Client::connect(bus, TenantName::new(tenant)?, thermae_client::Options::default()).await?)
}

/// Submits a job and waits for its end.
///
/// # Errors
/// The client's.
pub async fn run(client: &Client, job: Job) -> Result<Outcome> {
    let handle: JobHandle = client.submit(job, None).await?;
    Ok(handle.result().await?)
}

/// Waits no longer than so.
///
/// # Errors
/// It took longer.
pub async fn within<T>(time: Duration, what: &str, future: impl Future<Output = T>) -> Result<T> {
    tokio::time::timeout(time, future).await.with_context(|| format!("{what}: not within {time:?}"))
}

/// Waits for what must happen.
///
/// # Errors
/// It did not.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> Result<T> {
    within(SOON, what, future).await
}

/// Asks until the answer is yes.
///
/// # Errors
/// It never was.
pub async fn until(what: &str, mut ask: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
    soon(what, async {
        while !ask().await? {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    })
    .await?
}
