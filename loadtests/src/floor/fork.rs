//! A bare fork into a sandbox's namespaces. A process of its own forks ([`super::bare`]), because this process has
//! threads.

use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use hdrhistogram::Histogram;

use super::ON;
use super::bare::{Plan, Times};
use super::site::Site;
use crate::closed::Options;
use crate::report::Row;

/// Times the forks of one process, one after the other, then measures the rate of several processes at once.
pub(super) async fn measure(site: &Site, options: Options) -> Result<Row> {
    let disk_bytes = site.pool().disk.0;
    let alone = Plan { disk_bytes, warm_up: options.warm_up, samples: options.jobs, rate_ms: 0 };
    let mut times = Histogram::<u64>::new(3)?;
    forks(site, alone).await?.nanos.into_iter().try_for_each(|ns| times.record(ns))?;
    let per_second = if options.seconds == 0 {
        None
    } else {
        let plan = Plan { disk_bytes, warm_up: 1, samples: 0, rate_ms: options.seconds * 1000 };
        let rates = try_join_all((0..options.in_flight).map(|_| forks(site, plan))).await?;
        rates.into_iter().map(|times| times.per_second).sum()
    };
    Ok(Row::new("fork", ON, &times, per_second))
}

async fn forks(site: &Site, plan: Plan) -> Result<Times> {
    let mut command = site.command()?;
    command.arg(serde_json::to_string(&plan)?).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let output = command.spawn().context("start the process that forks")?.wait_with_output().await?;
    ensure!(output.status.success(), "the bare forks: {}", output.status);
    serde_json::from_slice(&output.stdout).context("read the bare forks' times")
}
