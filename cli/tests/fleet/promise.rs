//! The promise: one outcome for each job, whichever process is killed.

use std::time::Duration;

use anyhow::{Result, ensure};
use thermae_schemas::{ErrorCode, EventBody, Job, Status, Stream};

use crate::HarmTest;
use crate::fleet::{Fleet, Process};
use crate::servers::OwnServers;

pub(crate) const TESTS: &[(&str, HarmTest)] = &[
    ("promise::code_that_started_is_not_started_again", started_once),
    ("promise::a_killed_scheduler_loses_no_job", scheduler_killed),
    ("promise::sigterm_drains_a_worker", drains),
];

/// Prefix in Redis of the fleets on these servers. All must use the same one: with a second prefix on the same
/// RabbitMQ, the registry would look as if it had been emptied, and schedulers would rightly assume less.
pub(crate) const FLEET: &str = "promise";

fn checked(fleet: &Fleet, result: Result<()>) -> Result<()> {
    fleet.check(result).map_err(|failed| anyhow::anyhow!("{}", failed.message().unwrap_or("failed")))
}

fn started_once(own: &OwnServers) -> Result<()> {
    let fleet = Fleet::start_on(own.servers.clone(), FLEET, 1)?;
    let result = fleet.runtime.block_on(async {
        let job = Job { stream: vec![Stream::Lifecycle], ..Job::python("import time\ntime.sleep(600)") };
        let mut handle = fleet.acme.client().submit(job, None).await?;
        let mut events = handle.events();
        while !matches!(events.next().await.map(|event| event.body), Some(EventBody::Started { .. }) | None) {}
        tokio::task::block_in_place(|| fleet.kill("worker").and_then(|_| fleet.add_worker()))?;
        let mut starts = 0;
        while let Some(event) = tokio::time::timeout(Duration::from_secs(60), events.next()).await? {
            match event.body {
                EventBody::Started { .. } => starts += 1,
                EventBody::Result(outcome) => {
                    let code = outcome.error.as_ref().map(|error| error.code);
                    ensure!((outcome.status, code) == (Status::Lost, Some(ErrorCode::WorkerLost)), "{outcome:?}");
                }
                _ => {}
            }
        }
        ensure!(starts == 0, "started again");
        Ok(())
    });
    checked(&fleet, result)
}

fn scheduler_killed(own: &OwnServers) -> Result<()> {
    let fleet = Fleet::start_on(own.servers.clone(), FLEET, 1)?;
    let dir = tempfile::tempdir()?;
    let result = fleet.runtime.block_on(async {
        let mut jobs = tokio::task::JoinSet::new();
        for n in 0..100 {
            let client = fleet.acme.client().clone();
            jobs.spawn(async move {
                anyhow::Ok((n, client.submit(Job::python(format!("print({n})")), None).await?.result().await?))
            });
        }
        let mut standby = None;
        while let Some(answer) = tokio::time::timeout(Duration::from_secs(60), jobs.join_next()).await? {
            let (n, outcome) = answer??;
            ensure!(outcome.stdout == format!("{n}\n"), "{outcome:?}");
            if standby.is_none() {
                tokio::task::block_in_place(|| fleet.kill("scheduler"))?;
                standby = Some(Process::scheduler(&fleet.servers, dir.path(), fleet.prefix())?);
            }
        }
        Ok(())
    });
    checked(&fleet, result)
}

fn drains(own: &OwnServers) -> Result<()> {
    let fleet = Fleet::start_on(own.servers.clone(), FLEET, 1)?;
    let result = fleet.runtime.block_on(async {
        let job =
            Job { stream: vec![Stream::Lifecycle], ..Job::python("import time\ntime.sleep(2)\nprint('finished')") };
        let mut handle = fleet.acme.client().submit(job, None).await?;
        let mut events = handle.events();
        while !matches!(events.next().await.map(|event| event.body), Some(EventBody::Started { .. }) | None) {}
        tokio::task::block_in_place(|| fleet.drain("worker"))?;
        let outcome = tokio::time::timeout(Duration::from_secs(60), handle.result()).await??;
        ensure!(outcome.stdout == "finished\n", "{outcome:?}");
        Ok(())
    });
    checked(&fleet, result)
}
