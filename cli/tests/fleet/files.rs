//! Files on the real fleet: into a job, out of it, by URL, and to a job on another worker.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use thermae_schemas::{Artifact, ErrorCode, InputFile, Job, Outcome, Status};

use crate::Test;
use crate::fleet::{Fleet, get};
use crate::jobs::run;
use crate::servers::binary;

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("files::an_artifact_is_fetched_by_its_url_and_found_by_its_ref", by_url_and_ref),
    ("files::a_bad_path_is_rejected_before_any_worker_sees_it", bad_path),
    ("files::the_command_line_fetches_what_is_too_large_for_the_outcome", command_line),
];

fn only(outcome: &Outcome) -> Result<&Artifact> {
    ensure!(outcome.status == Status::Succeeded && outcome.artifacts.len() == 1, "{outcome:?}");
    Ok(&outcome.artifacts[0])
}

fn by_url_and_ref(fleet: &Fleet) -> Result<()> {
    let code = "open('artifacts/up.txt', 'w').write(open('in.txt').read().upper())";
    let job = Job { files: vec![InputFile::text("in.txt", "salve")], ..Job::python(code) };
    let outcome = run(fleet, job)?;
    let artifact = only(&outcome)?;
    ensure!(artifact.base64.is_none() && artifact.expires_at.is_some(), "{artifact:?}");
    let url = artifact.url.as_deref().context("no URL")?;
    let (address, target) = url.strip_prefix("http://").and_then(|u| u.split_once('/')).context("an odd URL")?;
    ensure!(get(address, &format!("/{target}"))? == (200, "SALVE".to_owned()), "{url}");
    let (status, body) = get(address, &format!("/{}", target.replace("up.txt", "up.html")))?;
    ensure!(status == 403 && body.contains("bad_signature"), "{status} {body}");

    // Any worker must find the artifact, because all of them share one store.
    for _ in 0..4 {
        let file =
            InputFile { text: None, reference: Some(artifact.id.parse().unwrap()), ..InputFile::text("again", "") };
        let next = run(fleet, Job { files: vec![file], ..Job::python("print(open('again').read())") })?;
        ensure!(next.stdout == "SALVE\n", "{next:?}");
    }
    Ok(())
}

fn bad_path(fleet: &Fleet) -> Result<()> {
    let job = Job { files: vec![InputFile::text("../../etc/passwd", "root")], ..Job::python("print(1)") };
    let outcome = run(fleet, job)?;
    ensure!(outcome.error.as_ref().is_some_and(|e| e.code == ErrorCode::BadPath), "{outcome:?}");
    ensure!(outcome.status == Status::Rejected && outcome.worker.is_none(), "{outcome:?}");
    Ok(())
}

fn command_line(fleet: &Fleet) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let code = "open('artifacts/large', 'w').write('x' * (3 << 20))\nopen('artifacts/small', 'w').write('y')";
    std::fs::write(dir.path().join("main.py"), code)?;
    let mut command = Command::new(binary("thermae")?);
    command.args(["run", "main.py", "--artifacts", "out", "--amqp", &fleet.servers.acme]).current_dir(dir.path());
    let output = command.output()?;
    ensure!(output.status.success(), "{output:?}");
    let read = |name: &str| std::fs::read(dir.path().join("out").join(name));
    ensure!(read("large")? == vec![b'x'; 3 << 20] && read("small")? == b"y", "{output:?}");
    Ok(())
}
