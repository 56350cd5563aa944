//! The step `compose`: starts the fleet of `compose.yaml` with two workers and without Grafana, and runs jobs on it.

mod gateway;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::{
    http,
    images::{engine::Engine, standins},
    paths, process,
    services::{compose::Compose, free_port},
    supervise,
};

/// Merged into `compose.yaml`: Grafana's image has no stand-in.
const WITHOUT_GRAFANA: &str = "services:\n  grafana:\n    profiles: [not-here]\n";
const WORKERS: usize = 2;
const JOBS: usize = 40;

/// The fleet of `compose.yaml` on the tests' Docker engine. Dropping it takes the fleet down.
pub(crate) struct Fleet {
    compose: Compose,
    amqp_port: u16,
    gateway_port: u16,
    prometheus_port: u16,
    dir: PathBuf,
    environment: Vec<(&'static str, String)>,
}

impl Fleet {
    /// Makes the missing images and starts the fleet. Returns when all services are healthy.
    pub(crate) fn up(socket: &Path, dir: &Path, log: &Path) -> Result<Self> {
        standins::ensure(&Engine { socket: socket.to_path_buf() })?;
        let program = standins::docker_compose()?;
        let sockets = dir.join("sockets");
        fs::create_dir_all(&sockets)?;
        let without = dir.join("without-grafana.yaml");
        fs::write(&without, WITHOUT_GRAFANA)?;
        // `docker compose` looks for plug-ins there. Commands of the README use it.
        let plugins = dir.join("docker-config/cli-plugins");
        fs::create_dir_all(&plugins)?;
        fs::copy(&program, plugins.join("docker-compose"))?;
        let (amqp_port, gateway_port, prometheus_port) = (free_port()?, free_port()?, free_port()?);
        let environment = vec![
            ("DOCKER_HOST", format!("unix://{}", socket.display())),
            ("DOCKER_CONFIG", dir.join("docker-config").display().to_string()),
            ("DOCKER_SOCKET", socket.display().to_string()),
            ("SOCKET_DIR", sockets.display().to_string()),
            ("COMPOSE_PROJECT_NAME", "thermae-test".to_owned()),
            ("COMPOSE_FILE", format!("{}:{}", paths::root().join("compose.yaml").display(), without.display())),
            ("AMQP_PORT", amqp_port.to_string()),
            ("AMQP_UI_PORT", free_port()?.to_string()),
            ("GATEWAY_PORT", gateway_port.to_string()),
            ("PROMETHEUS_PORT", prometheus_port.to_string()),
        ];
        let compose = Compose::with(&program, environment.clone());
        let fleet = Self { compose, amqp_port, gateway_port, prometheus_port, dir: dir.to_path_buf(), environment };
        let scale = format!("worker={WORKERS}");
        let args = ["up", "--detach", "--wait", "--wait-timeout", "180", "--no-build", "--scale", &scale];
        let up = supervise::run(fleet.compose.command(&args), log, Duration::from_secs(300), |_| {})?;
        if let Some(why) = up.failure {
            let logs = fleet.compose.run(&["logs", "--no-color", "--tail", "30"])?;
            fs::write(log.with_extension("services.log"), &logs.stdout)?;
            bail!("{why}\n{}\n{}", crate::services::tail(log, 20), String::from_utf8_lossy(&logs.stdout));
        }
        Ok(fleet)
    }

    /// Variables that make `docker compose` work on this fleet.
    pub(crate) fn environment(&self) -> &[(&'static str, String)] {
        &self.environment
    }

    /// The ports in `compose.yaml`, each with the port that is used here instead.
    pub(crate) fn ports(&self) -> [(u16, u16); 3] {
        [(5672, self.amqp_port), (8420, self.gateway_port), (9090, self.prometheus_port)]
    }

    /// Checks that Compose can read the whole `compose.yaml`, Grafana included.
    pub(crate) fn config(&self) -> Result<()> {
        let output = self.compose.run(&["--file", "compose.yaml", "config", "--quiet"])?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
        Ok(())
    }

    /// Runs a tenant's batch, and checks every result.
    pub(crate) fn batch(&self, log: &Path) -> Result<()> {
        let (jobs, results) = (self.dir.join("jobs.jsonl"), self.dir.join("results.jsonl"));
        let _ = fs::remove_file(&results);
        let lines: String = (0..JOBS)
            .map(|n| {
                format!(
                    "{}\n",
                    json!({ "id": format!("job-{n}"), "language": "python", "code": format!("print({n} * 2)") })
                )
            })
            .collect();
        fs::write(&jobs, lines)?;
        let mut command = Command::new(paths::release().join("thermae"));
        command.arg("batch").arg(&jobs).arg("--out").arg(&results);
        self.run(command, log, Duration::from_secs(180))?;
        let text = fs::read_to_string(&results).context("read the results")?;
        let results: Vec<Value> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
        ensure!(results.len() == JOBS, "{} results of {JOBS} jobs", results.len());
        for result in &results {
            let number: usize =
                result["id"].as_str().and_then(|id| id.strip_prefix("job-")?.parse().ok()).unwrap_or(JOBS);
            ensure!(result["status"] == "succeeded", "a job did not succeed: {result}");
            ensure!(result["stdout"] == format!("{}\n", number * 2), "a wrong answer: {result}");
        }
        Ok(())
    }

    /// Fetches a job's artifact to this machine, by the URL in the job's outcome.
    pub(crate) fn artifact(&self, log: &Path) -> Result<()> {
        let (program, into) = (self.dir.join("leaves.py"), self.dir.join("artifacts"));
        let code =
            "import os\nos.makedirs('artifacts', exist_ok=True)\nopen('artifacts/left.txt', 'w').write('from compose')";
        fs::write(&program, code)?;
        let mut command = Command::new(paths::release().join("thermae"));
        command.arg("run").arg(&program).arg("--artifacts").arg(&into);
        self.run(command, log, Duration::from_secs(60))?;
        let left = fs::read_to_string(into.join("left.txt")).context("read the artifact")?;
        ensure!(left == "from compose", "a wrong artifact: {left}");
        Ok(())
    }

    /// Runs a mix of jobs that arrive at their own pace. Every answer must be right.
    pub(crate) fn load(&self, log: &Path) -> Result<()> {
        let mut command = Command::new(paths::release().join("thermae-loadtests"));
        command
            .args(["open", "--rate", "10", "--seconds", "5"])
            .arg(paths::root().join("loadtests/scenarios/mixed.toml"));
        self.run(command, log, Duration::from_secs(60))
    }

    /// RabbitMQ's URL for the tenant `acme`.
    pub(crate) fn url(&self) -> String {
        format!("amqp://acme:acme@127.0.0.1:{}/%2f", self.amqp_port)
    }

    /// The variables that name the fleet to the tests of the Python package.
    pub(crate) fn variables(&self) -> [(&'static str, String); 2] {
        let prometheus = format!("http://127.0.0.1:{}", self.prometheus_port);
        [("THERMAE_TEST_AMQP_TENANT", self.url()), ("THERMAE_TEST_PROMETHEUS_URL", prometheus)]
    }

    /// Runs a program as the tenant `acme`.
    fn run(&self, mut command: Command, log: &Path, limit: Duration) -> Result<()> {
        command.env("THERMAE_AMQP", self.url());
        let ran = supervise::run(command, log, limit, |_| {})?;
        if let Some(why) = ran.failure {
            let logs = self.compose.run(&["logs", "--no-color", "--tail", "30"])?;
            bail!("{why}\n{}\n{}", crate::services::tail(log, 20), String::from_utf8_lossy(&logs.stdout));
        }
        Ok(())
    }

    /// Waits until Prometheus reaches the scheduler, both workers, the gateway and RabbitMQ.
    pub(crate) fn scraped(&self) -> Result<()> {
        let prometheus = format!("127.0.0.1:{}", self.prometheus_port);
        let mut last = String::new();
        let all = process::wait_until(Duration::from_secs(60), || {
            last = http::get(&prometheus, "/api/v1/query?query=up").map(|(_, body)| body).unwrap_or_default();
            let up = serde_json::from_str::<Value>(&last).ok().and_then(|answer| {
                let samples = answer["data"]["result"].as_array()?.clone();
                Some(samples.iter().filter(|sample| sample["value"][1] == "1").count())
            });
            up == Some(WORKERS + 3)
        });
        ensure!(all, "not everything is scraped: {last}");
        Ok(())
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        let down = self.compose.run(&["down", "--volumes", "--remove-orphans", "--timeout", "20"]);
        if !down.is_ok_and(|output| output.status.success()) {
            eprintln!("docker compose down failed; the engine's own stop removes what is left");
        }
    }
}
