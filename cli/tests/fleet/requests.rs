//! Requests to live sessions: commands and operations on files, on the real fleet.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use thermae_client::{Client, RequestHandle};
use thermae_schemas::{
    ErrorCode, Exec, FileOp, Job, JobId, OutputStream, Request, RequestDone, RequestEnd, RequestWork, SessionName,
    SessionRequest, Status, WriteMode,
};

use crate::Test;
use crate::fleet::Fleet;
use crate::jobs::run;

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("requests::commands_and_files_in_a_session", works),
    ("requests::another_tenants_session_is_unknown", foreign),
    ("requests::a_request_is_lost_with_its_worker_and_says_so", killed),
    ("requests::a_session_that_has_not_begun_does_not_die_with_its_worker", not_begun),
];

/// Longer than a client is silent before it asks again, and longer than a worker's lease.
const DONE_TIMEOUT: Duration = Duration::from_secs(90);

const OK: RequestEnd = RequestEnd::Exited { code: 0 };

/// Makes a session, and gives its name.
fn session(fleet: &Fleet) -> Result<SessionName> {
    let name = SessionName::new(format!("s-{}", uuid::Uuid::new_v4()))?;
    let job = Job { session: Some(SessionRequest::new(name.clone())), ..Job::python("x = 1") };
    let outcome = run(fleet, job)?;
    ensure!(outcome.status == Status::Succeeded, "{outcome:?}");
    Ok(name)
}

fn exec(session: &SessionName, shell: &str) -> Request {
    let exec = Exec { shell: Some(shell.to_owned()), ..Exec::default() };
    Request::new(JobId::random(), session.clone(), RequestWork::Exec(exec))
}

fn file(session: &SessionName, op: FileOp) -> Request {
    Request::new(JobId::random(), session.clone(), RequestWork::File(op))
}

async fn end(handle: &RequestHandle) -> Result<(RequestDone, Vec<u8>)> {
    let all = async {
        let mut out = Vec::new();
        while let Some((stream, bytes)) = handle.output().await {
            if stream == OutputStream::Stdout {
                out.extend_from_slice(&bytes);
            }
        }
        Ok((handle.done().await?, out))
    };
    tokio::time::timeout(DONE_TIMEOUT, all).await.context("the request did not end")?
}

async fn ask(client: &Client, request: Request) -> Result<(RequestDone, Vec<u8>)> {
    end(&client.request(request)).await
}

fn works(fleet: &Fleet) -> Result<()> {
    let (name, client) = (session(fleet)?, fleet.acme.client());
    fleet.runtime.block_on(async {
        let content: Vec<u8> = (0..1_000_000u32).flat_map(u32::to_le_bytes).collect();
        let write = FileOp::Write { path: "data".into(), mode: WriteMode::Truncate, permissions: None };
        let write = client.request(Request { more_input: true, ..file(&name, write) });
        let (given, written) = tokio::join!(
            async {
                let given = write.input(content.clone().into()).await;
                write.end_input();
                given
            },
            end(&write)
        );
        ensure!(given && written?.0.end == OK, "the file is not written");
        let read = FileOp::Read { path: "/workspace/data".into(), offset: 0, length: None };
        let (done, out) = ask(client, file(&name, read)).await?;
        ensure!(done.end == OK && out == content, "{done:?}, {} bytes", out.len());
        let (done, out) = ask(client, exec(&name, "wc -c < data; id -u; exit 3")).await?;
        ensure!(done.end == RequestEnd::Exited { code: 3 }, "{done:?}");
        ensure!(out.starts_with(b"4000000\n"), "{}", String::from_utf8_lossy(&out));
        let missing = FileOp::Stat { path: "nothing".into(), link: false };
        let (done, _) = ask(client, file(&name, missing)).await?;
        ensure!(matches!(&done.end, RequestEnd::Failed { errno, .. } if errno == "ENOENT"), "{done:?}");
        let sleeps = client.request(exec(&name, "echo 1; sleep 600"));
        ensure!(sleeps.output().await.is_some(), "nothing came");
        sleeps.cancel();
        let (done, _) = end(&sleeps).await?;
        ensure!(done.end == RequestEnd::Cancelled {}, "{done:?}");
        Ok(())
    })?;
    let job = Job { session: Some(SessionRequest::new(name)), ..Job::python("import os\nprint(x, os.listdir('.'))") };
    let outcome = run(fleet, job)?;
    ensure!(outcome.stdout.starts_with("1 [") && outcome.stdout.contains("'data'"), "{outcome:?}");
    Ok(())
}

fn lost(done: &RequestDone) -> Result<()> {
    let code = match &done.end {
        RequestEnd::Error { error } => Some(error.code),
        _ => None,
    };
    ensure!(code == Some(ErrorCode::SessionLost), "{done:?}");
    Ok(())
}

fn foreign(fleet: &Fleet) -> Result<()> {
    let name = session(fleet)?;
    fleet.runtime.block_on(async {
        let globex = thermae_fleet::Fleet::connect(fleet.servers.globex.as_str()).await?;
        let (done, out) = ask(globex.client(), exec(&name, "echo 1")).await?;
        ensure!(out.is_empty(), "another tenant's command ran");
        globex.close().await;
        lost(&done)
    })
}

fn killed(fleet: &Fleet) -> Result<()> {
    let (name, client) = (session(fleet)?, fleet.acme.client());
    fleet.runtime.block_on(async {
        let sleeps = client.request(exec(&name, "echo 1; sleep 600"));
        ensure!(sleeps.output().await.is_some(), "nothing came");
        // One of them holds the session.
        tokio::task::block_in_place(|| -> Result<()> {
            for _ in 0..2 {
                fleet.kill("worker")?;
            }
            (0..2).try_for_each(|_| fleet.add_worker())
        })?;
        lost(&end(&sleeps).await?.0)?;
        lost(&ask(client, exec(&name, "echo 1")).await?.0)
    })
}

/// The fleet learns only after some seconds that the workers are dead, and may have placed the sessions on them.
fn not_begun(fleet: &Fleet) -> Result<()> {
    for _ in 0..2 {
        fleet.kill("worker")?;
    }
    (0..2).try_for_each(|_| fleet.add_worker())?;
    (0..3).try_for_each(|_| session(fleet).map(drop))
}
