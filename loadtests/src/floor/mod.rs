//! The floor: what no fleet can pass on the machine that the fleets are measured on.
//!
//! `print`, `pandas` and `session` run in the embedded fleet's containers, which are driven directly over their
//! runners' frames. The difference to the fleet's figures is the cost of the fleet. `fork` is below even that: it makes
//! the namespaces of a sandbox, and runs nothing in them.
//!
//! Percentiles are measured with one run in flight. A pause between two fresh sandboxes lets the container make the
//! next one ahead, so that no run waits for the clean-up of another. Rates are measured back to back, in as many
//! containers (for `fork`: processes) as there are runs in flight.

mod bare;
mod container;
mod fork;
mod site;
#[allow(unsafe_code)]
mod sys;
mod weight;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use tokio::task::{JoinSet, spawn_blocking};

use crate::cases::Case;
use crate::closed::Options;
use crate::report::Row;
pub use bare::entry;
use container::Container;
use site::Site;
pub use weight::weigh;

/// Name of the floor in the report.
pub const ON: &str = "floor";

/// Pause between two runs. It is longer than making a sandbox takes, even with a large heap on a slow machine.
const PAUSE: Duration = Duration::from_millis(25);

/// Untimed runs in each container before the rate is measured, so that its zygotes are started.
const RATE_WARM_UP: u32 = 3;

/// What has a floor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Floor {
    /// A bare fork into a sandbox's namespaces, until it has ended.
    Fork,
    /// `print(1+1)` in a fresh sandbox.
    Print,
    /// A program that imports pandas and sums a frame, in a fresh sandbox.
    Pandas,
    /// The next program of a session.
    Session,
}

impl Floor {
    const ALL: [Self; 4] = [Self::Fork, Self::Print, Self::Pandas, Self::Session];
}

/// Measures these floors in the given order; all of them if none is named.
///
/// # Errors
/// A sandbox can't be made here, or gave a wrong answer.
pub async fn measure(python: Option<PathBuf>, floors: &[Floor], options: Options) -> Result<Vec<Row>> {
    let floors = if floors.is_empty() { &Floor::ALL } else { floors };
    let site = Site::open(python)?;
    let (mut rows, mut containers) = (Vec::new(), Vec::new());
    for floor in floors {
        let case = match floor {
            Floor::Fork => {
                rows.push(fork::measure(&site, options).await?);
                continue;
            }
            Floor::Print => Case::Print,
            Floor::Pandas => Case::Pandas,
            Floor::Session => Case::Session,
        };
        if containers.is_empty() {
            containers.push(site.container().await?);
        }
        let (row, used) = sandboxes(&site, containers, case, options).await?;
        rows.push(row);
        containers = used;
    }
    for container in containers {
        container.end().await;
    }
    Ok(rows)
}

/// Measures one case. Gives the containers back, so that the next case can use them.
async fn sandboxes(
    site: &Site,
    mut containers: Vec<Container>,
    case: Case,
    options: Options,
) -> Result<(Row, Vec<Container>)> {
    let mut first = containers.swap_remove(0);
    let timed = move || -> Result<_> {
        let times = one_in_flight(&mut first, case, options)?;
        Ok((times, first))
    };
    let (times, first) = spawn_blocking(timed).await.context("the measurement panicked")??;
    containers.push(first);
    let jobs_per_s = if case == Case::Session || options.seconds == 0 {
        None
    } else {
        while containers.len() < options.in_flight as usize {
            containers.push(site.container().await?);
        }
        let rate;
        (rate, containers) = rate_of(containers, case, Duration::from_secs(options.seconds)).await?;
        Some(rate)
    };
    Ok((Row::new(case.as_str(), ON, &times, jobs_per_s), containers))
}

fn one_in_flight(container: &mut Container, case: Case, options: Options) -> Result<Histogram<u64>> {
    let pause = if case == Case::Session { Duration::ZERO } else { PAUSE };
    let (mut times, mut cold) = (Histogram::new(3)?, 0);
    for n in 0..options.warm_up + options.jobs {
        std::thread::sleep(pause);
        let ran = container.once(case)?;
        if n >= options.warm_up {
            times.record(ran.took.as_nanos() as u64)?;
            cold += u32::from(!ran.warm);
        }
    }
    if cold > 0 && case != Case::Session {
        eprintln!("floor: {}: {cold} of {} found no sandbox made ahead", case.as_str(), options.jobs);
    }
    Ok(times)
}

/// Runs per second, back to back in each container.
async fn rate_of(containers: Vec<Container>, case: Case, time: Duration) -> Result<(f64, Vec<Container>)> {
    let mut warm = Vec::new();
    for mut container in containers {
        let warming = move || -> Result<_> {
            (0..RATE_WARM_UP).try_for_each(|_| container.once(case).map(drop))?;
            Ok(container)
        };
        warm.push(spawn_blocking(warming).await.context("a warm-up panicked")??);
    }
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for mut container in warm {
        tasks.spawn_blocking(move || -> Result<_> {
            let mut done = 0_u64;
            while begun.elapsed() < time {
                container.once(case)?;
                done += 1;
            }
            Ok((done, container))
        });
    }
    let (mut total, mut back) = (0, Vec::new());
    while let Some(task) = tasks.join_next().await {
        let (done, container) = task.context("a load thread panicked")??;
        total += done;
        back.push(container);
    }
    Ok((total as f64 / begun.elapsed().as_secs_f64(), back))
}
