//! Whether readiness means that a fleet is warm: the first jobs after readiness, and the same jobs later.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hdrhistogram::Histogram;
use thermae_client::Client;
use tokio::task::JoinSet;

use crate::cases::Case;
use crate::report::Row;
use crate::target;

/// How much is sent.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Options {
    /// Number of jobs to send at once.
    #[arg(long, default_value_t = 20)]
    pub jobs: u32,
    /// Number of times to send the same jobs later, for comparison.
    #[arg(long, default_value_t = 20)]
    pub rounds: u32,
    /// Number of embedded fleets to start, one after the other. A real fleet is measured once, as it is.
    #[arg(long, default_value_t = 5)]
    pub starts: u32,
}

/// Untimed rounds between the first one and the later ones. They give the fleet time to replace what the first jobs
/// used.
const BETWEEN: u32 = 10;

/// Time between two rounds.
const PAUSE: Duration = Duration::from_millis(300);

/// Sends `options.jobs` prints at once as soon as the fleet is ready, and again later. The rows are `first` and
/// `first_later`.
///
/// # Errors
/// There is no fleet, or an answer is wrong.
pub async fn measure(target: &target::Options, options: Options) -> Result<Vec<Row>> {
    let (mut first, mut later) = (Histogram::new(3)?, Histogram::new(3)?);
    let starts = if target.amqp.is_some() { 1 } else { options.starts };
    for _ in 0..starts {
        let target = target.open().await?;
        target.ready().await;
        let client = target.client.clone();
        burst(&client, options.jobs, &mut first).await?;
        for round in 0..BETWEEN + options.rounds {
            tokio::time::sleep(PAUSE).await;
            let mut untimed = Histogram::new(3)?;
            burst(&client, options.jobs, if round < BETWEEN { &mut untimed } else { &mut later }).await?;
        }
        target.close().await;
    }
    let on = target.name();
    Ok(vec![Row::new("first", on, &first, None), Row::new("first_later", on, &later, None)])
}

async fn burst(client: &Client, jobs: u32, times: &mut Histogram<u64>) -> Result<()> {
    let mut answers = JoinSet::new();
    for _ in 0..jobs {
        let client = client.clone();
        answers.spawn(async move {
            let begun = Instant::now();
            let outcome = client.submit(Case::Print.job(""), None).await?.result().await?;
            match Case::Print.check(&outcome) {
                Ok(_) => Ok(begun.elapsed()),
                Err(wrong) => bail!(wrong),
            }
        });
    }
    while let Some(answer) = answers.join_next().await {
        times.record(answer.context("a load task panicked")??.as_nanos() as u64)?;
    }
    Ok(())
}
