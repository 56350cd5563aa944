//! Measures one hostile tenant's effect on another tenant, the victim.
//!
//! The victim submits jobs at a light and steady rate: first alone, then beside a benign tenant that keeps as many
//! slots busy as it gets, then beside a hostile tenant that uses every means at once. None of the victim's jobs may be
//! lost. Its times beside the hostile tenant are compared with those beside the benign one.
//!
//! The neighbour is a process of its own with low priority. If the machine is short of processors, this measures what
//! the fleet does for the neighbour, and not what the neighbour's own program does.

mod amqp;
mod benign;
mod enemy;
mod jobs;
mod means;
mod tools;
mod victim;

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use tokio::process::{Child, Command};

use crate::target::Target;
use victim::Victim;

/// How long a neighbour may take to end after its time is over.
const ENDS_WITHIN: Duration = Duration::from_secs(20);

/// Nice value of a neighbour's process.
const LOW_PRIORITY: &str = "10";

/// How the victim and its neighbours go on.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// AMQP URL of the neighbour, which is the other tenant.
    #[arg(long, env = "THERMAE_AMQP_NEIGHBOUR", hide_env_values = true)]
    pub neighbour: String,
    /// Jobs of the victim per second.
    #[arg(long, default_value_t = 8.0)]
    pub rate: f64,
    /// Time to measure each phase, in seconds.
    #[arg(long, default_value_t = 25.0)]
    pub seconds: f64,
    /// Time that each neighbour works before the measurement, in seconds. The victim's jobs of this time must succeed,
    /// too.
    #[arg(long, default_value_t = 5.0)]
    pub settle: f64,
    /// Let the hostile tenant leave out these means or kinds of jobs (comma-separated), to find out which does harm.
    ///
    /// The groups of means are flood, unrouted, too-large, cancels, questions, connections and garbage. The kinds of
    /// the flood's jobs have the names that are in the report.
    #[arg(long, value_delimiter = ',', value_name = "MEANS")]
    pub without: Vec<String>,
}

/// Who the neighbour is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Neighbour {
    /// Honest jobs, more of them than it has slots.
    Benign,
    /// Every means at once.
    Hostile,
}

/// Times of the victim's jobs in one phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// Number of measured jobs.
    pub jobs: u64,
    /// Median, in milliseconds.
    pub p50_ms: f64,
    /// 95th percentile, in milliseconds.
    pub p95_ms: f64,
    /// Longest time, in milliseconds.
    pub max_ms: f64,
    /// 95th percentile for each kind of job, in milliseconds.
    pub kinds: BTreeMap<String, f64>,
    /// 95th percentile of the time from when a job was due until it reached each stage, in milliseconds.
    pub stages: BTreeMap<String, f64>,
    /// What the slowest jobs spent their time on, in words.
    #[serde(default)]
    pub slowest: Vec<String>,
    /// How often the neighbour used each means.
    #[serde(default)]
    pub neighbour: BTreeMap<String, u64>,
}

/// The result of one round.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// The victim alone.
    pub quiet: Phase,
    /// The victim beside the benign tenant.
    pub benign: Phase,
    /// The victim beside the hostile tenant.
    pub hostile: Phase,
    /// Number of the victim's jobs in all phases, unmeasured ones included.
    pub jobs: u64,
    /// The first few jobs that did not succeed exactly once, in words.
    pub lost: Vec<String>,
    /// Means that the hostile tenant never used.
    pub unused: Vec<String>,
}

impl Report {
    /// Whether no job was lost, and every means was used.
    pub fn is_clean(&self) -> bool {
        self.lost.is_empty() && self.unused.is_empty()
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (name, phase) in [("quiet", &self.quiet), ("benign", &self.benign), ("hostile", &self.hostile)] {
            let kinds: Vec<_> = phase.kinds.iter().map(|(kind, ms)| format!("{kind} {ms:.1}")).collect();
            writeln!(
                f,
                "{name:<8} {:>5} jobs  p50 {:>8.1} ms  p95 {:>8.1} ms  max {:>8.1} ms  (p95: {})",
                phase.jobs,
                phase.p50_ms,
                phase.p95_ms,
                phase.max_ms,
                kinds.join(", ")
            )?;
        }
        let means: Vec<_> = self.hostile.neighbour.iter().map(|(means, n)| format!("{means} {n}")).collect();
        writeln!(f, "means: {}", means.join(", "))?;
        self.lost.iter().try_for_each(|lost| writeln!(f, "lost: {lost}"))?;
        self.unused.iter().try_for_each(|means| writeln!(f, "never used: {means}"))?;
        write!(f, "{} jobs, {} lost", self.jobs, self.lost.len())
    }
}

/// Runs one round of the three phases.
///
/// # Errors
/// The load itself broke. Jobs that the victim lost are in the report instead.
pub async fn run(target: &Target, options: &Options) -> Result<Report> {
    let mut victim = Victim::new(target.client.clone(), options.rate);
    // This makes the victim's lane, and binds its first containers to it.
    victim.submit_for(Duration::from_secs_f64(options.settle)).await?;
    let mut phases = Vec::new();
    for neighbour in [None, Some(Neighbour::Benign), Some(Neighbour::Hostile)] {
        let beside = neighbour.map(|who| beside(who, options)).transpose()?;
        if beside.is_some() {
            victim.submit_for(Duration::from_secs_f64(options.settle)).await?;
        }
        let mut phase = victim.submit_for(Duration::from_secs_f64(options.seconds)).await?;
        if let Some(child) = beside {
            phase.neighbour = ended(child).await?;
        }
        phases.push(phase);
    }
    let unused = jobs::names().chain(means::NAMES).filter(|means| !phases[2].neighbour.contains_key(*means));
    let unused = unused.map(str::to_owned).collect();
    let (jobs, lost) = victim.end();
    let [quiet, benign, hostile] = phases.try_into().ok().context("three phases")?;
    Ok(Report { quiet, benign, hostile, jobs, lost, unused })
}

/// Starts a neighbour. Its process ends when its time is over.
fn beside(who: Neighbour, options: &Options) -> Result<Child> {
    let name = match who {
        Neighbour::Benign => "benign",
        Neighbour::Hostile => "hostile",
    };
    let mut command = Command::new("setsid");
    command
        .args(["nice", "-n", LOW_PRIORITY])
        .arg(std::env::current_exe()?)
        .args(["neighbour", "--as", name, "--seconds", &(options.seconds + options.settle).to_string()])
        .arg(format!("--without={}", options.without.join(",")))
        .env("THERMAE_AMQP", &options.neighbour)
        .env_remove("THERMAE_TENANT")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    command.spawn().context("start the neighbour")
}

/// Waits for a neighbour's end. Gives how often it used each means, as it printed.
async fn ended(child: Child) -> Result<BTreeMap<String, u64>> {
    let output =
        tokio::time::timeout(ENDS_WITHIN, child.wait_with_output()).await.context("the neighbour goes on")??;
    ensure!(output.status.success(), "the neighbour ended with {}", output.status);
    serde_json::from_slice(&output.stdout).context("read what the neighbour did")
}

/// Lowers the priority of this process's session. If the kernel shares out processor time by session, a nice value
/// counts only within the session, and the session has a nice value of its own. A session that another process leads is
/// left alone.
fn lower_session() -> Result<()> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The fields after the name in brackets: state, parent, process group, session.
    let session = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(3)).context("a process's session")?;
    let file = std::path::Path::new("/proc/self/autogroup");
    if session == std::process::id().to_string() && file.exists() {
        std::fs::write(file, LOW_PRIORITY).context("lower the session's priority")?;
    }
    Ok(())
}

/// Acts as a neighbour for `seconds`. Gives how often it used each means.
///
/// # Errors
/// The fleet can't be reached.
pub async fn neighbour(
    who: Neighbour,
    url: &str,
    seconds: f64,
    without: &[String],
) -> Result<BTreeMap<&'static str, u64>> {
    let time = Duration::from_secs_f64(seconds);
    lower_session()?;
    match who {
        Neighbour::Benign => benign::run(url, time).await,
        Neighbour::Hostile => enemy::run(url, time, without).await,
    }
}
