//! Servers die while code runs that may start only once: every job must get an outcome, and none may start twice.

use std::time::Duration;

use anyhow::{Result, ensure};
use thermae_client::Client;
use thermae_schemas::{ErrorCode, EventBody, Job, Outcome, SessionName, SessionRequest, Status, Stream};

use crate::HarmTest;
use crate::fleet::Fleet;
use crate::promise::FLEET;
use crate::servers::OwnServers;

pub(crate) const TESTS: &[(&str, HarmTest)] = &[
    ("once::a_restart_of_rabbitmq_starts_nothing_twice", rabbitmq_restarts),
    ("once::an_emptied_redis_starts_nothing_twice", redis_dies),
];

const JOBS: usize = 80;
const SESSIONS: usize = 4;
/// Jobs in each session, one after the other.
const STEPS: usize = 12;
/// Longer than servers need to come back, and longer than it takes to give up a lost job.
const RESULT_TIMEOUT: Duration = Duration::from_secs(150);

fn rabbitmq_restarts(own: &OwnServers) -> Result<()> {
    under_load(own, "once-rabbitmq", || {
        own.ctl("rabbitmq", "kill")?;
        own.ctl("rabbitmq", "start")
    })
}

fn redis_dies(own: &OwnServers) -> Result<()> {
    // This Redis keeps nothing on disk, so it is empty after a restart.
    under_load(own, "once-redis", || {
        own.ctl("redis", "kill")?;
        own.ctl("redis", "start")
    })
}

/// Runs single jobs and sessions, and harms the servers when the first few jobs are answered.
fn under_load(own: &OwnServers, name: &str, harm: impl FnOnce() -> Result<()>) -> Result<()> {
    let fleet = Fleet::start_on(own.servers.clone(), FLEET, 1)?;
    let result = fleet.runtime.block_on(async {
        let mut singles = tokio::task::JoinSet::new();
        for n in 0..JOBS {
            singles.spawn(single(fleet.acme.client().clone(), n));
        }
        let mut sessions = tokio::task::JoinSet::new();
        for n in 0..SESSIONS {
            sessions.spawn(session(fleet.acme.client().clone(), SessionName::new(format!("{name}-{n}"))?));
        }
        let (mut harm, mut succeeded) = (Some(harm), 0);
        while let Some(answer) = singles.join_next().await {
            succeeded += usize::from(answer??);
            if succeeded >= JOBS / 8
                && let Some(harm) = harm.take()
            {
                tokio::task::block_in_place(harm)?;
            }
        }
        let mut steps = 0;
        while let Some(answer) = sessions.join_next().await {
            steps += answer??;
        }
        ensure!(harm.is_none(), "nothing was done to the servers");
        ensure!(succeeded * 10 >= JOBS * 9, "{succeeded} of {JOBS} jobs succeeded");
        ensure!(steps * 10 >= SESSIONS * STEPS * 8, "{steps} of {} steps in sessions succeeded", SESSIONS * STEPS);
        Ok(())
    });
    fleet.check(result).map_err(|failed| anyhow::anyhow!("{}", failed.message().unwrap_or("failed")))
}

async fn result(client: &Client, job: Job) -> Result<Outcome> {
    let mut handle = client.submit(job, None).await?;
    let mut events = handle.events();
    let mut starts = 0;
    let heard = async {
        while let Some(event) = events.next().await {
            match event.body {
                EventBody::Started { .. } => starts += 1,
                EventBody::Result(_) => break,
                _ => {}
            }
        }
        handle.result().await
    };
    let outcome = tokio::time::timeout(RESULT_TIMEOUT, heard).await??;
    ensure!(starts <= 1, "started {starts} times: {outcome:?}");
    Ok(outcome)
}

/// Whether a job succeeded. If it didn't, it must be `lost`.
async fn single(client: Client, n: usize) -> Result<bool> {
    let job = Job {
        max_attempts: 1,
        stream: vec![Stream::Lifecycle],
        ..Job::python(format!("import time\ntime.sleep(0.1)\nprint({n})"))
    };
    let outcome = result(&client, job).await?;
    match outcome.status {
        Status::Succeeded => ensure!(outcome.stdout == format!("{n}\n"), "{n}: {outcome:?}"),
        status => ensure!(status == Status::Lost, "{n}: {outcome:?}"),
    }
    Ok(outcome.status == Status::Succeeded)
}

/// How many steps succeeded. Each step adds one to a variable, so a step that ran twice would show in later ones.
async fn session(client: Client, name: SessionName) -> Result<usize> {
    let mut succeeded = 0;
    for step in 1..=STEPS {
        let job = Job {
            max_attempts: 1,
            stream: vec![Stream::Lifecycle],
            session: Some(SessionRequest::new(name.clone())),
            ..Job::python("import time\ntime.sleep(0.2)\nn = globals().get('n', 0) + 1\nprint(n)")
        };
        let outcome = result(&client, job).await?;
        let code = outcome.error.as_ref().map(|error| error.code);
        match (outcome.status, code) {
            (Status::Succeeded, _) => {
                succeeded += 1;
                let n: usize = outcome.stdout.trim().parse()?;
                ensure!((succeeded..=step).contains(&n), "step {step} of {name}, {succeeded} succeeded: {n}");
            }
            // The session is lost, and with it the steps that are left.
            (_, Some(ErrorCode::SessionLost)) => break,
            (status, _) => ensure!(status == Status::Lost, "step {step} of {name}: {outcome:?}"),
        }
    }
    Ok(succeeded)
}
