//! The soak: many honest and hostile jobs, mixed, on one fleet. Every honest job must be answered correctly, every
//! hostile job must end as it should, and afterwards the fleet must be as it was before.

mod jobs;
mod memory;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use crate::cases::Adder;
use crate::target::Target;
use jobs::{KINDS, Kind};
use memory::Watch;

/// How much.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Number of jobs.
    #[arg(long, default_value_t = 10_000)]
    pub jobs: u64,
    /// Jobs in flight.
    #[arg(long, default_value_t = 6)]
    pub in_flight: u32,
    /// Process whose memory must stay flat. Can be repeated. With the embedded fleet, this process is watched, too.
    #[arg(long = "watch", value_parser = watched, value_name = "NAME=PID")]
    pub watch: Vec<(String, u32)>,
}

fn watched(text: &str) -> Result<(String, u32), String> {
    let (name, pid) = text.split_once('=').ok_or("NAME=PID")?;
    Ok((name.to_owned(), pid.parse().map_err(|e| format!("{pid}: {e}"))?))
}

/// How long one answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);

/// Number of wrong answers that the report quotes.
const QUOTED: usize = 10;

/// The result of a soak.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Number of jobs sent.
    pub jobs: u64,
    /// Number of honest jobs with the right answer, and of all honest jobs.
    pub honest: (u64, u64),
    /// Number of hostile jobs that ended as they should, and of all hostile jobs.
    pub hostile: (u64, u64),
    /// Number of right answers, by kind of job.
    pub by_kind: BTreeMap<&'static str, u64>,
    /// The first few wrong answers, in words.
    pub wrong: Vec<String>,
    /// For each watched process: anonymous memory early and late in the run, in bytes, and whether it stayed flat.
    pub memory: BTreeMap<String, (u64, u64, bool)>,
    /// Proofs that containers are clean, by result; empty unless the fleet is the embedded one.
    pub proofs: BTreeMap<String, u64>,
    /// How long the soak took, in seconds.
    pub seconds: f64,
}

impl Report {
    /// Whether nothing was wrong: all answers, the memory and the proofs.
    pub fn is_clean(&self) -> bool {
        self.wrong.is_empty()
            && self.honest.0 == self.honest.1
            && self.hostile.0 == self.hostile.1
            && self.memory.values().all(|(.., flat)| *flat)
            && self.proofs.iter().all(|(result, n)| result == "clean" || *n == 0)
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (name, right) in &self.by_kind {
            writeln!(f, "  {name:<16} {right:>6}")?;
        }
        self.wrong.iter().try_for_each(|wrong| writeln!(f, "wrong: {wrong}"))?;
        for (name, (early, late, flat)) in &self.memory {
            let word = if *flat { "flat" } else { "NOT flat" };
            writeln!(f, "memory of {name}: {} MiB early, {} MiB late: {word}", early >> 20, late >> 20)?;
        }
        for (result, n) in &self.proofs {
            writeln!(f, "containers' proofs, {result}: {n}")?;
        }
        let (honest, hostile) = (self.honest, self.hostile);
        write!(
            f,
            "{} jobs in {:.0} s: {} of {} honest ones right, {} of {} hostile ones ended as they should",
            self.jobs, self.seconds, honest.0, honest.1, hostile.0, hostile.1
        )
    }
}

#[derive(Default)]
struct Tally {
    right: BTreeMap<&'static str, u64>,
    sent: BTreeMap<&'static str, u64>,
    wrong: Vec<String>,
    /// The numbers that each session's jobs printed. Each must appear once.
    counted: BTreeMap<String, BTreeSet<u64>>,
}

/// Runs all jobs of the soak.
///
/// # Errors
/// The load itself broke. What was wrong with the fleet is in the report instead.
pub async fn run(target: &Target, options: &Options) -> Result<Report> {
    let mut watch: BTreeMap<String, u32> = options.watch.iter().cloned().collect();
    if target.metrics().is_some() {
        watch.insert("the embedded fleet".into(), std::process::id());
    }
    let watch = Watch::begin(watch);
    let (next, tally) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(Tally::default())));
    let run: Arc<str> = uuid::Uuid::new_v4().simple().to_string().into();
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..options.in_flight.max(1) {
        let (client, next, tally, run, jobs) =
            (target.client.clone(), Arc::clone(&next), Arc::clone(&tally), Arc::clone(&run), options.jobs);
        tasks.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= jobs {
                    return;
                }
                let kind = Kind::of(number);
                let asked =
                    async { client.submit(kind.job(&run, number), Some(Adder::shared())).await?.result().await };
                let answer = match tokio::time::timeout(ANSWER_TIMEOUT, asked).await {
                    Ok(Ok(outcome)) => kind.check(number, &outcome).map(|()| outcome.stdout),
                    Ok(Err(error)) => Err(format!("{}: {error}", kind.name)),
                    Err(_) => Err(format!("{}: no answer within {ANSWER_TIMEOUT:?}", kind.name)),
                };
                tally.lock().await.take(kind, jobs::session(&run, number), answer);
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.context("a load task panicked")?;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let samples = watch.end().await;
    let tally = std::mem::take(&mut *tally.lock().await);
    Ok(tally.report(options.jobs, seconds, &samples, target.proofs()))
}

impl Tally {
    fn take(&mut self, kind: &'static Kind, session: String, answer: Result<String, String>) {
        *self.sent.entry(kind.name).or_default() += 1;
        let answer = answer.and_then(|printed| match printed.trim().parse() {
            _ if !kind.in_session() => Ok(()),
            Ok(n) if self.counted.entry(session).or_default().insert(n) => Ok(()),
            _ => Err(format!("{}: printed {printed:?}, as another job before", kind.name)),
        });
        match answer {
            Ok(()) => *self.right.entry(kind.name).or_default() += 1,
            Err(wrong) if self.wrong.len() < QUOTED => self.wrong.push(wrong),
            Err(_) => {}
        }
    }

    fn report(mut self, jobs: u64, seconds: f64, samples: &memory::Samples, proofs: BTreeMap<String, u64>) -> Report {
        for (session, counted) in &self.counted {
            if counted.iter().copied().ne(1..=counted.len() as u64) {
                self.wrong.push(format!("session {session} did not count every job once: {counted:?}"));
            }
        }
        let sum = |of: &BTreeMap<&'static str, u64>, honest: bool| {
            KINDS.iter().filter(|k| k.honest == honest).filter_map(|k| of.get(k.name)).sum::<u64>()
        };
        Report {
            jobs,
            honest: (sum(&self.right, true), sum(&self.sent, true)),
            hostile: (sum(&self.right, false), sum(&self.sent, false)),
            wrong: self.wrong,
            by_kind: self.right,
            memory: samples.iter().map(|(name, samples)| (name.clone(), memory::flat(samples))).collect(),
            proofs,
            seconds,
        }
    }
}
