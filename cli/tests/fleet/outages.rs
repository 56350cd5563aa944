//! Servers that are missing at the start, or die later: the fleet waits, says so, and recovers when they come back.

use std::time::Duration;

use anyhow::{Result, ensure};
use thermae_schemas::{Job, Status};

use crate::HarmTest;
use crate::fleet::{Fleet, Process};
use crate::servers::{OwnServers, Servers};

pub(crate) const TESTS: &[(&str, HarmTest)] = &[
    ("outages::rabbitmq_and_redis_may_come_later_than_the_fleet", late_servers),
    ("outages::a_restart_of_rabbitmq_loses_nothing", rabbitmq_restarts),
    ("outages::an_emptied_redis_runs_nothing_twice", redis_dies),
    ("outages::a_dead_docker_keeps_jobs_waiting", dead_docker),
];

/// Waits until a process has logged these words.
fn await_words(process: &Process, words: &str) -> Result<()> {
    let begun = std::time::Instant::now();
    while !process.logged().contains(words) {
        ensure!(
            begun.elapsed() < Duration::from_secs(60),
            "{} never said {words:?}:\n{}",
            process.name,
            process.logged()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn late_servers(own: &OwnServers) -> Result<()> {
    own.ctl("rabbitmq", "stop")?;
    own.ctl("redis", "stop")?;
    let dir = tempfile::tempdir()?;
    let mut processes = vec![
        Process::scheduler(&own.servers, dir.path(), "late")?,
        Process::worker(&own.servers, dir.path(), "late", 0, "")?,
    ];
    for process in &processes {
        await_words(process, "waiting for RabbitMQ")?;
        ensure!(!process.logged().contains("fleet:fleet"), "{} logged its password", process.name);
    }
    own.ctl("rabbitmq", "start")?;
    processes.iter().try_for_each(|process| await_words(process, "waiting for Redis"))?;
    own.ctl("redis", "start")?;
    processes.iter_mut().try_for_each(Process::await_ready)
}

/// Submits jobs, and harms the servers when a quarter of the jobs are answered.
fn under_load(fleet: &Fleet, jobs: usize, harm: impl FnOnce() -> Result<()>) -> Result<()> {
    fleet.runtime.block_on(async {
        let client = fleet.acme.client();
        let mut handles = tokio::task::JoinSet::new();
        for n in 0..jobs {
            let client = client.clone();
            handles.spawn(async move {
                let job = Job { max_attempts: 3, ..Job::python(format!("print({n})")) };
                anyhow::Ok((n, client.submit(job, None).await?.result().await?))
            });
        }
        let mut harm = Some(harm);
        let mut done = 0;
        while let Some(answer) = tokio::time::timeout(Duration::from_secs(120), handles.join_next()).await? {
            let (n, outcome) = answer??;
            ensure!(outcome.status == Status::Succeeded && outcome.stdout == format!("{n}\n"), "{n}: {outcome:?}");
            done += 1;
            if done == jobs / 4
                && let Some(harm) = harm.take()
            {
                tokio::task::block_in_place(harm)?;
            }
        }
        ensure!(done == jobs, "{done} of {jobs} were answered");
        Ok(())
    })
}

fn rabbitmq_restarts(own: &OwnServers) -> Result<()> {
    let fleet = Fleet::start_on(own.servers.clone(), "restart", 1)?;
    let result = under_load(&fleet, 200, || {
        own.ctl("rabbitmq", "kill")?;
        own.ctl("rabbitmq", "start")
    });
    fleet.check(result).map_err(|failed| anyhow::anyhow!("{}", failed.message().unwrap_or("failed")))
}

fn redis_dies(own: &OwnServers) -> Result<()> {
    let fleet = Fleet::start_on(own.servers.clone(), "emptied", 1)?;
    // This Redis keeps nothing on disk, so it is empty after a restart.
    let result = under_load(&fleet, 200, || {
        own.ctl("redis", "kill")?;
        own.ctl("redis", "start")
    });
    fleet.check(result).map_err(|failed| anyhow::anyhow!("{}", failed.message().unwrap_or("failed")))
}

fn dead_docker(own: &OwnServers) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let socket = dir.path().join("docker.sock");
    let servers = Servers { docker: socket.display().to_string(), ..own.servers.clone() };
    let mut scheduler = Process::scheduler(&servers, dir.path(), "docker")?;
    let mut worker = Process::worker(&servers, dir.path(), "docker", 0, "")?;
    scheduler.await_ready()?;
    await_words(&worker, "docker")?;
    ensure!(
        worker.readiness().map_or(true, |(status, _)| status == 503),
        "a worker without Docker says that it is ready"
    );
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let outcome = runtime.block_on(async {
        let fleet = thermae_fleet::Fleet::connect(own.servers.acme.as_str()).await?;
        let handle = fleet.client().submit(Job::python("print('waited')"), None).await?;
        std::os::unix::fs::symlink(&own.servers.docker, &socket)?;
        let outcome = tokio::time::timeout(Duration::from_secs(90), handle.result()).await??;
        fleet.close().await;
        anyhow::Ok(outcome)
    })?;
    worker.await_ready()?;
    ensure!(outcome.stdout == "waited\n", "{outcome:?}");
    Ok(())
}
