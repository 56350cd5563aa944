//! One hostile tenant against another one. The victim submits at a light and steady rate, first alone, then beside a benign tenant that
//! keeps as many slots busy as it gets, then beside a hostile one that uses every means at once. No job of the victim's may be lost, and
//! its times beside the hostile tenant are compared with those beside the benign one.
//!
//! The neighbour is a process of its own, of low priority: where the machine is short of processors, what is measured is what the fleet
//! takes for it, and not what its own program does.

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

/// How long a neighbour may take to end, beyond its time.
const ENDS_WITHIN: Duration = Duration::from_secs(20);

/// Nice value of a neighbour's own program.
const LOW_PRIORITY: &str = "10";

/// How the victim and its neighbours go on.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// AMQP URL of the other tenant, which is the neighbour.
    #[arg(long, env = "THERMAE_AMQP_NEIGHBOUR", hide_env_values = true)]
    pub neighbour: String,
    /// Jobs of the victim's a second.
    #[arg(long, default_value_t = 8.0)]
    pub rate: f64,
    /// How long each phase is measured, in seconds.
    #[arg(long, default_value_t = 25.0)]
    pub seconds: f64,
    /// How long each neighbour is at work before that; the victim's jobs of this time must succeed, too.
    #[arg(long, default_value_t = 5.0)]
    pub settle: f64,
    /// What the hostile tenant leaves out, to find what harms: groups of means (flood, unrouted, too-large, cancels, questions,
    /// connections, garbage), or kinds of the flood's jobs by the names that the report has.
    #[arg(long, value_delimiter = ',', value_name = "MEANS")]
    pub without: Vec<String>,
}

/// Who the neighbour is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Neighbour {
    /// Honest jobs, more of them than it gets slots.
    Benign,
    /// Every means at once.
    Hostile,
}

/// Times of the victim's jobs in one phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// Jobs that were measured.
    pub jobs: u64,
    /// Median, in milliseconds.
    pub p50_ms: f64,
    /// 95th percentile.
    pub p95_ms: f64,
    /// The longest.
    pub max_ms: f64,
    /// The 95th percentile of each kind of job.
    pub kinds: BTreeMap<String, f64>,
    /// The 95th percentile of the time until all jobs came to each stage.
    pub stages: BTreeMap<String, f64>,
    /// The ways of the slowest jobs, in words.
    #[serde(default)]
    pub slowest: Vec<String>,
    /// What the neighbour did, by means.
    #[serde(default)]
    pub neighbour: BTreeMap<String, u64>,
}

/// What a round gave.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// The victim alone.
    pub quiet: Phase,
    /// Beside the benign tenant.
    pub benign: Phase,
    /// Beside the hostile one.
    pub hostile: Phase,
    /// The victim's jobs in all.
    pub jobs: u64,
    /// Those that did not succeed exactly once, the first few in words.
    pub lost: Vec<String>,
    /// Means that the hostile tenant never came to.
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
/// The load itself broke; what became of the victim is in the report.
pub async fn run(target: &Target, options: &Options) -> Result<Report> {
    let mut victim = Victim::new(target.client.clone(), options.rate);
    // Its lane is made, its first containers are bound to it.
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

/// Starts a neighbour. It ends by itself.
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

/// What a neighbour says that it has done.
async fn ended(child: Child) -> Result<BTreeMap<String, u64>> {
    let output =
        tokio::time::timeout(ENDS_WITHIN, child.wait_with_output()).await.context("the neighbour goes on")??;
    ensure!(output.status.success(), "the neighbour ended with {}", output.status);
    serde_json::from_slice(&output.stdout).context("read what the neighbour did")
}

/// Where the kernel shares the processors out by session, a nice value counts within the session only; the session has one of its own. That
/// of somebody else's session is left alone.
fn lower_session() -> Result<()> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // Behind the name in brackets: state, parent, process group, session.
    let session = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(3)).context("a process's session")?;
    let file = std::path::Path::new("/proc/self/autogroup");
    if session == std::process::id().to_string() && file.exists() {
        std::fs::write(file, LOW_PRIORITY).context("lower the session's priority")?;
    }
    Ok(())
}

/// Is a neighbour for so long; gives what it did, by means.
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
