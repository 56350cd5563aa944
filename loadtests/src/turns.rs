//! Prints of several sides in turns, so that a change of the machine's load meets all sides.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hdrhistogram::Histogram;
use serde::Deserialize;
use thermae_client::Client;
use tokio::task::JoinSet;

use crate::cases::Case;
use crate::report::Row;

/// Turns of each side.
const TURNS: u32 = 20;

/// Untimed prints of each side at the start.
const WARM_UP: u32 = 50;

/// How many prints each side runs.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Size {
    /// Number of timed prints of each side, with one in flight.
    #[arg(long, default_value_t = 500)]
    pub jobs: u32,
    /// Prints in flight while the rate is measured.
    #[arg(long, default_value_t = 8)]
    pub in_flight: u32,
    /// Number of prints of each side for the rate.
    #[arg(long, default_value_t = 4000)]
    pub rate_jobs: u32,
}

impl Size {
    /// The turns: how many prints, how many of them at once, and whether they count.
    pub fn turns(self) -> impl Iterator<Item = (u32, u32, bool)> {
        let Self { jobs, in_flight, rate_jobs } = self;
        [(WARM_UP, 1, false), (WARM_UP, in_flight, false)]
            .into_iter()
            .chain((0..TURNS).map(move |_| (jobs.div_ceil(TURNS), 1, true)))
            .chain((0..TURNS).map(move |_| (rate_jobs.div_ceil(TURNS), in_flight, true)))
    }
}

/// What one turn took.
#[derive(Debug, Deserialize)]
pub struct Turn {
    /// Time of the whole turn, in seconds.
    pub seconds: f64,
    /// Time of each print, in seconds, if there was one at a time.
    pub each: Vec<f64>,
}

/// The sum of one side's turns.
pub struct Side {
    on: &'static str,
    times: Histogram<u64>,
    prints: u32,
    seconds: f64,
}

impl Side {
    /// A side without turns. `on` is its name in the report.
    pub fn new(on: &'static str) -> Self {
        let times = Histogram::new(3).unwrap_or_else(|_| unreachable!("three digits are allowed"));
        Self { on, times, prints: 0, seconds: 0.0 }
    }

    /// Adds a turn of so many prints.
    ///
    /// # Errors
    /// A print took longer than can be counted.
    pub fn add(&mut self, prints: u32, turn: &Turn) -> Result<()> {
        if turn.each.is_empty() {
            self.prints += prints;
            self.seconds += turn.seconds;
        }
        turn.each.iter().try_for_each(|seconds| self.times.record((seconds * 1e9) as u64)).map_err(Into::into)
    }

    /// The row of the report.
    pub fn row(&self) -> Row {
        let rate = (self.seconds > 0.0).then(|| f64::from(self.prints) / self.seconds);
        Row::new(Case::Print.as_str(), self.on, &self.times, rate)
    }
}

/// A turn of prints, each of which is a future of `once`, which gives how long it took.
///
/// # Errors
/// A print failed.
pub async fn run<F>(prints: u32, at_once: u32, once: impl Fn() -> F) -> Result<Turn>
where
    F: Future<Output = Result<Duration>> + Send + 'static,
{
    let begun = Instant::now();
    let mut each = Vec::new();
    if at_once == 1 {
        for _ in 0..prints {
            each.push(once().await?.as_secs_f64());
        }
    } else {
        let mut flight = JoinSet::new();
        for n in 0..prints {
            if n >= at_once {
                flight.join_next().await.context("nothing is in flight")???;
            }
            flight.spawn(once());
        }
        while let Some(ended) = flight.join_next().await {
            ended??;
        }
    }
    Ok(Turn { seconds: begun.elapsed().as_secs_f64(), each })
}

/// A turn of prints with a client of this process.
///
/// # Errors
/// A print failed, or its answer is wrong.
pub async fn prints(client: &Client, prints: u32, at_once: u32) -> Result<Turn> {
    run(prints, at_once, || {
        let client = client.clone();
        async move {
            let begun = Instant::now();
            let outcome = client.submit(Case::Print.job(""), None).await?.result().await?;
            let took = begun.elapsed();
            Case::Print.check(&outcome).map_or_else(|wrong| bail!(wrong), |_| Ok(took))
        }
    })
    .await
}
