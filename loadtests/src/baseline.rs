//! What people use without a fleet: a subprocess, `docker run` or `docker exec` for each job.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hdrhistogram::Histogram;

use crate::cases::Case;
use crate::report::Row;

/// One way to run a program without a fleet.
pub struct Baseline {
    /// Name in the report.
    pub on: &'static str,
    /// The command. `-c CODE` is added to it.
    pub command: Vec<String>,
    /// Number of timed runs.
    pub samples: u32,
    /// How long the rate is measured, with four runs in flight.
    pub rate: Duration,
}

impl Baseline {
    /// The machine's own Python, without a container.
    pub fn subprocess(python: &Path, samples: u32, rate: Duration) -> Self {
        Self { on: "subprocess", command: vec![python.display().to_string(), "-I".into()], samples, rate }
    }

    /// A new container for each job. It is removed afterwards.
    pub fn docker_run(socket: &str, image: &str, samples: u32, rate: Duration) -> Self {
        let host = format!("unix://{socket}");
        let command =
            ["docker", "--host", &host, "run", "--rm", "--network", "none", "--entrypoint", "python3", image, "-I"];
        Self { on: "docker_run", command: command.map(str::to_owned).to_vec(), samples, rate }
    }

    /// A new process for each job, in a container that is already running.
    pub fn docker_exec(socket: &str, container: &str, samples: u32, rate: Duration) -> Self {
        let host = format!("unix://{socket}");
        let command = ["docker", "--host", &host, "exec", container, "python3", "-I"];
        Self { on: "docker_exec", command: command.map(str::to_owned).to_vec(), samples, rate }
    }

    /// Measures one case: percentiles with one in flight, the rate with four.
    pub fn measure(&self, case: Case) -> Result<Row> {
        let code = case.job("").code;
        let mut times = Histogram::<u64>::new(3)?;
        self.once(case, &code)?;
        for _ in 0..self.samples {
            let begun = Instant::now();
            self.once(case, &code)?;
            times.record(begun.elapsed().as_nanos() as u64)?;
        }
        let begun = Instant::now();
        let done = std::thread::scope(|scope| {
            let worker = || {
                let mut done = 0_u64;
                while begun.elapsed() < self.rate {
                    self.once(case, &code)?;
                    done += 1;
                }
                anyhow::Ok(done)
            };
            let workers = [(); 4].map(|()| scope.spawn(worker));
            workers.into_iter().try_fold(0, |sum, worker| match worker.join() {
                Ok(done) => Ok(sum + done?),
                Err(_) => bail!("a baseline thread panicked"),
            })
        })?;
        Ok(Row::new(case.as_str(), self.on, &times, Some(done as f64 / begun.elapsed().as_secs_f64())))
    }

    fn once(&self, case: Case, code: &str) -> Result<()> {
        let output = Command::new(&self.command[0])
            .args(&self.command[1..])
            .args(["-c", code])
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("start {}", self.command[0]))?;
        if case.prints().map(str::as_bytes) != Some(&output.stdout) {
            bail!("{} on {}: {}", case.as_str(), self.on, String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    }
}
