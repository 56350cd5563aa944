//! Closed-loop measurements: percentiles with one job in flight, and rates with several.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hdrhistogram::Histogram;
use thermae_client::Client;
use thermae_schemas::Job;

use crate::cases::{Adder, Case, LEAVE, LOOK, describe};
use crate::cpu::{Meter, Part};
use crate::report::Row;

/// How long and how much.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Options {
    /// Number of untimed jobs at the start.
    #[arg(long, default_value_t = 50)]
    pub warm_up: u32,
    /// Number of timed jobs, with one in flight.
    #[arg(long, default_value_t = 500)]
    pub jobs: u32,
    /// Jobs in flight while the rate is measured.
    #[arg(long, default_value_t = 4)]
    pub in_flight: u32,
    /// Time to measure the rate, in seconds; 0 skips it.
    #[arg(long, default_value_t = 10)]
    pub seconds: u64,
}

/// Number of timed jobs between two pairs of canaries.
const CANARY_EVERY: u32 = 25;

/// Measures one case. While the rate is measured, so is the processor time of `parts`.
pub async fn measure(client: &Client, on: &str, case: Case, options: Options, parts: &[Part]) -> Result<Row> {
    let session = format!("bench-{}", uuid::Uuid::new_v4().simple());
    for _ in 0..options.warm_up {
        once(client, case, &session).await?;
    }
    let mut times = Histogram::<u64>::new(3)?;
    let jobs = if case == Case::ToolCall { options.jobs.div_ceil(100).max(5) } else { options.jobs };
    for n in 0..jobs {
        let (took, inner) = once(client, case, &session).await?;
        if case == Case::ToolCall {
            inner.iter().try_for_each(|ns| times.record(*ns))?;
        } else {
            times.record(took.as_nanos() as u64)?;
        }
        if n % CANARY_EVERY == 0 && case != Case::Session {
            canary(client).await?;
        }
    }
    let (jobs_per_s, cpu) = match (case, options.seconds) {
        (_, 0) | (Case::Session | Case::ToolCall, _) => (None, BTreeMap::new()),
        (_, seconds) => {
            let meter = Meter::start(parts);
            let (rate, jobs) = rate(client, case, options.in_flight, Duration::from_secs(seconds)).await?;
            let per_job = meter.stop().into_iter().map(|(part, ms)| (part, ms / jobs.max(1) as f64));
            (Some(rate), per_job.collect())
        }
    };
    Ok(Row::new(case.as_str(), on, &times, jobs_per_s).with_cpu(cpu))
}

async fn once(client: &Client, case: Case, session: &str) -> Result<(Duration, Vec<u64>)> {
    let job = case.job(session);
    let begun = Instant::now();
    let outcome = client.submit(job, Some(Adder::shared())).await?.result().await?;
    let took = begun.elapsed();
    match case.check(&outcome) {
        Ok(inner) => Ok((took, inner)),
        Err(wrong) => bail!(wrong),
    }
}

/// Runs a job that leaves marks, and one that must not find them.
async fn canary(client: &Client) -> Result<()> {
    for (code, want) in [(LEAVE, "left\n"), (LOOK, "clean\n")] {
        let outcome = client.submit(Job::python(code), None).await?.result().await?;
        if outcome.stdout != want {
            bail!("the canary wanted {want:?}: {}", describe(&outcome));
        }
    }
    Ok(())
}

/// Jobs per second, and the number of jobs, which includes those that were answered after `time`.
async fn rate(client: &Client, case: Case, in_flight: u32, time: Duration) -> Result<(f64, u64)> {
    let (done, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let begun = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..in_flight {
        let (client, done, stop) = (client.clone(), Arc::clone(&done), Arc::clone(&stop));
        tasks.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                once(&client, case, "").await?;
                done.fetch_add(1, Ordering::Relaxed);
            }
            anyhow::Ok(())
        });
    }
    let ended = async {
        while let Some(task) = tasks.join_next().await {
            task.context("a load task panicked")??;
        }
        anyhow::Ok(())
    };
    tokio::pin!(ended);
    tokio::select! {
        early = &mut ended => { early?; bail!("the load ended early") }
        () = tokio::time::sleep(time) => {}
    }
    let rate = done.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64();
    stop.store(true, Ordering::Relaxed);
    ended.await?;
    Ok((rate, done.load(Ordering::Relaxed)))
}
