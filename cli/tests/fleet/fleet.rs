//! A fleet of real processes for tests: a scheduler, workers, and a client of the tenant `acme`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;
use thermae_schemas::WorkerId;
use thermae_testkit::address;
use tokio::runtime::Runtime;

use crate::authority::Authority;
use crate::servers::{Servers, binary};

/// How long a process may take until it is ready. A cold worker makes its first containers in this time.
const READY: Duration = Duration::from_secs(90);

/// Jobs that a worker runs at once, and containers that it keeps ready in addition.
pub(crate) const SLOTS: usize = 2;
pub(crate) const WARM: usize = 2;

/// Number of jobs that the tenant `globex` may have handed out at once. `acme` has no such limit.
const GLOBEX_MAX: usize = 1;

/// A running fleet. Dropping it drains all processes.
pub(crate) struct Fleet {
    /// The servers that the fleet uses.
    pub(crate) servers: Servers,
    /// Runtime for the tests' clients.
    pub(crate) runtime: Runtime,
    /// A client of the tenant `acme`.
    pub(crate) acme: thermae_fleet::Fleet,
    /// Mints tokens that the workers take.
    pub(crate) authority: Authority,
    processes: Mutex<Vec<Process>>,
    /// Number of workers that were started. Each gets a name of its own, even after earlier ones were killed.
    workers: AtomicUsize,
    prefix: String,
    dir: TempDir,
}

impl Fleet {
    /// Starts a fleet on the servers that the test run shares.
    pub(crate) fn start(name: &str, workers: usize) -> Result<Self> {
        // A unique name: these servers may have served a fleet of the same name.
        Self::start_on(Servers::shared()?, &format!("{name}-{}", uuid::Uuid::new_v4().simple()), workers)
    }

    /// Starts a fleet on these servers, and waits until it is ready. `name` is the prefix of its keys in Redis.
    pub(crate) fn start_on(servers: Servers, name: &str, workers: usize) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("thermae-e2e-").tempdir()?;
        let prefix = name.to_owned();
        let authority = Authority::new(&dir.path().join("tokens"))?;
        let mut processes = vec![Process::scheduler(&servers, dir.path(), &prefix)?];
        for n in 0..workers {
            processes.push(Process::worker(&servers, dir.path(), &prefix, n, &authority.config())?);
        }
        processes.iter_mut().try_for_each(Process::await_ready)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let acme = runtime.block_on(thermae_fleet::Fleet::connect(servers.acme.as_str()))?;
        let (processes, workers) = (Mutex::new(processes), AtomicUsize::new(workers));
        Ok(Self { servers, runtime, acme, authority, processes, workers, prefix, dir })
    }

    /// Starts another worker, and waits until it is ready.
    pub(crate) fn add_worker(&self) -> Result<()> {
        let number = self.workers.fetch_add(1, Ordering::Relaxed);
        let tokens = self.authority.config();
        let mut worker = Process::worker(&self.servers, self.dir.path(), &self.prefix, number, &tokens)?;
        worker.await_ready()?;
        self.processes.lock().unwrap_or_else(PoisonError::into_inner).push(worker);
        Ok(())
    }

    /// Kills one process, and gives its name. `kind` is a kind or a name.
    pub(crate) fn kill(&self, kind: &str) -> Result<String> {
        let mut process = self.take(kind)?;
        process.kill()?;
        Ok(process.name.clone())
    }

    /// Kills the worker with this id.
    pub(crate) fn kill_worker(&self, worker: &WorkerId) -> Result<()> {
        let (name, _) = worker.as_str().rsplit_once('-').context("a worker's id is its name and its boot")?;
        self.kill(name).map(drop)
    }

    /// Sends SIGTERM to one process, and waits until it has drained.
    pub(crate) fn drain(&self, kind: &str) -> Result<()> {
        self.take(kind)?.drain()
    }

    /// Prefix of this fleet's keys in Redis.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    fn take(&self, kind: &str) -> Result<Process> {
        let mut processes = self.processes.lock().unwrap_or_else(PoisonError::into_inner);
        let at = processes.iter().position(|p| p.is_a(kind)).with_context(|| format!("no {kind} runs"))?;
        Ok(processes.remove(at))
    }

    /// Kind (`scheduler` or `worker`) and address of each process.
    pub(crate) fn addresses(&self) -> Vec<(String, String)> {
        let processes = self.processes.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = |name: &str| name.split('-').next().unwrap_or_default().to_owned();
        processes.iter().map(|process| (kind(&process.name), process.http.clone())).collect()
    }

    /// A metric's value, summed over all processes and labels.
    pub(crate) fn metric(&self, name: &str) -> Result<f64> {
        self.metric_of(name, "")
    }

    /// A metric's value, summed over all processes and the series with this label (`name="value"`).
    pub(crate) fn metric_of(&self, name: &str, label: &str) -> Result<f64> {
        let mut sum = 0.0;
        for (_, address) in self.addresses() {
            let (_, text) = get(&address, "/metrics")?;
            let values = text.lines().filter_map(|line| {
                let (series, value) = line.rsplit_once(' ')?;
                (series.split('{').next() == Some(name) && series.contains(label)).then(|| value.parse::<f64>().ok())?
            });
            sum += values.sum::<f64>();
        }
        Ok(sum)
    }

    /// The ends of all processes' logs.
    pub(crate) fn logs(&self) -> String {
        let processes = self.processes.lock().unwrap_or_else(PoisonError::into_inner);
        processes.iter().map(|p| format!("--- {}\n{}\n", p.name, tail(&p.log))).collect()
    }

    /// Whether any process has logged these words.
    pub(crate) fn has_logged(&self, words: &str) -> bool {
        let processes = self.processes.lock().unwrap_or_else(PoisonError::into_inner);
        processes.iter().any(|process| process.logged().contains(words))
    }

    /// Adds the ends of the processes' logs to the error of a failed test.
    pub(crate) fn check(&self, result: Result<()>) -> Result<(), libtest_mimic::Failed> {
        result.map_err(|error| format!("{error:?}\n{}", self.logs()).into())
    }
}

/// One process of the fleet.
pub(crate) struct Process {
    /// `scheduler` or `worker-<n>`.
    pub(crate) name: String,
    child: Child,
    killed: bool,
    http: String,
    log: PathBuf,
}

impl Process {
    /// Whether `kind` is the process's name, or the kind at the beginning of its name.
    fn is_a(&self, kind: &str) -> bool {
        self.name.strip_prefix(kind).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    }

    /// Starts a scheduler on these servers.
    pub(crate) fn scheduler(servers: &Servers, dir: &Path, prefix: &str) -> Result<Self> {
        let config = format!("[scheduler.tenants.globex]\nmax_in_flight = {GLOBEX_MAX}\n");
        Self::spawn("thermae-scheduler", "scheduler".to_owned(), servers, dir, prefix, &config)
    }

    /// Starts a worker with Docker containers on these servers. `more` is added to its configuration.
    pub(crate) fn worker(servers: &Servers, dir: &Path, prefix: &str, n: usize, more: &str) -> Result<Self> {
        let name = format!("worker-{n}");
        let config = format!(
            "name = {name:?}\nfleet = {prefix:?}\n[artifacts]\nstore = \"file://{}/artifacts\"\nsigning_key = \"of this test\"\n[docker]\nsocket = {:?}\n[pools.default]\nbackend = \"docker\"\nimage = {:?}\nslots = {SLOTS}\nwarm = {WARM}\n{more}",
            dir.display(),
            servers.docker,
            servers.image
        );
        Self::spawn("thermae-worker", name, servers, dir, prefix, &config)
    }

    /// Starts a program on these servers. `more` is added to what every program is configured with.
    pub(crate) fn spawn(
        program: &str,
        name: String,
        servers: &Servers,
        dir: &Path,
        prefix: &str,
        more: &str,
    ) -> Result<Self> {
        let http = address::free()?.to_string();
        let common = format!(
            "amqp = {:?}\nredis = {:?}\nredis_prefix = {prefix:?}\nlisten = {http:?}\n",
            servers.amqp, servers.redis
        );
        let otlp = servers.otlp.iter().map(|endpoint| ("THERMAE_OTLP_ENDPOINT".to_owned(), endpoint.clone()));
        Self::with(program, name, http, dir, &(common + more), otlp)
    }

    /// Starts any program of this build that reads this configuration and environment, and serves health checks at
    /// `http`.
    pub(crate) fn with(
        program: &str,
        name: String,
        http: String,
        dir: &Path,
        config: &str,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self> {
        let file = dir.join(format!("{name}.toml"));
        std::fs::write(&file, config)?;
        let mut command = Command::new(binary(program)?);
        command.arg("--config").arg(&file).envs(environment);
        Self::of(command, name, http, dir)
    }

    /// Starts this command, which serves health checks at `http`. Its log is in `dir`.
    pub(crate) fn of(mut command: Command, name: String, http: String, dir: &Path) -> Result<Self> {
        let log = dir.join(format!("{name}.log"));
        let out = File::create(&log)?;
        let child = command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out).spawn()?;
        Ok(Self { name, child, killed: false, http, log })
    }

    /// Waits until the process is ready.
    pub(crate) fn await_ready(&mut self) -> Result<()> {
        let begun = Instant::now();
        while get(&self.http, "/readyz").ok().is_none_or(|(status, _)| status != 200) {
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended with {status}:\n{}", self.name, tail(&self.log));
            }
            ensure!(begun.elapsed() < READY, "{} was not ready within {READY:?}:\n{}", self.name, tail(&self.log));
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Status and body of the process's `/readyz`.
    pub(crate) fn readiness(&self) -> Result<(u16, String)> {
        get(&self.http, "/readyz")
    }

    /// Everything that the process has logged.
    pub(crate) fn logged(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Kills the process.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        self.killed = true;
        Ok(())
    }

    /// Sends SIGTERM, and waits until the process has drained.
    pub(crate) fn drain(&mut self) -> Result<()> {
        if self.child.try_wait()?.is_none() {
            let pid = rustix::process::Pid::from_child(&self.child);
            rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        }
        let status = self.child.wait()?;
        ensure!(status.success(), "{} drained with {status}:\n{}", self.name, tail(&self.log));
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.killed
            && let Err(error) = self.drain()
        {
            eprintln!("{error:#}");
        }
    }
}

/// Sends a GET by HTTP/1.0. Gives status and body.
pub(crate) fn get(address: &str, path: &str) -> Result<(u16, String)> {
    ask(address, &format!("GET {path}"), "", "", Duration::from_secs(60))
}

/// Status and body of the answer to a request with these header lines and this body. The answer may take so long.
pub(crate) fn ask(address: &str, what: &str, headers: &str, body: &str, within: Duration) -> Result<(u16, String)> {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(address)?;
    stream.set_read_timeout(Some(within))?;
    let length = body.len();
    write!(stream, "{what} HTTP/1.0\r\nHost: {address}\r\n{headers}Content-Length: {length}\r\n\r\n{body}")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no HTTP answer")?;
    let status = head.split(' ').nth(1).context("no HTTP status")?.parse()?;
    Ok((status, body.to_owned()))
}

/// The last lines of a log.
pub(crate) fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(25)..].join("\n")
}
