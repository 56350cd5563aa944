//! Checks that a program really runs on the embedded fleet.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use thermae_fleet::{EmbeddedOptions, Fleet};
use thermae_schemas::{Job, Outcome, Status};
use tokio_util::sync::CancellationToken;

use super::Check;
use crate::failure::chain;

const NAME: &str = "a program";
const MEANS: &str = "No program can run on the embedded fleet or in native pools of this machine.";
const RUN_TIMEOUT: Duration = Duration::from_secs(20);

pub(super) async fn check(python: Option<PathBuf>, interrupt: &CancellationToken) -> Check {
    let begun = Instant::now();
    let ran = tokio::select! {
        ran = tokio::time::timeout(RUN_TIMEOUT, run(python)) => ran,
        () = interrupt.cancelled() => return Check::fail(NAME, "interrupted", "The check didn't end.", ""),
    };
    let fix = "see the failed checks above; -vv logs more details";
    match ran {
        Ok(Ok(outcome)) if outcome.status == Status::Succeeded && outcome.stdout == "42\n" => {
            let ms = begun.elapsed().as_millis();
            Check::ok(NAME, format!("ran in a fresh sandbox in {ms} ms, including the start of the fleet"))
        }
        Ok(Ok(outcome)) => {
            let why = outcome.error.map_or_else(|| format!("printed {:?}", outcome.stdout), |error| error.message);
            Check::fail(NAME, format!("ended with the status {}: {why}", outcome.status.as_str()), MEANS, fix)
        }
        Ok(Err(why)) => Check::fail(NAME, why, MEANS, fix),
        Err(_) => Check::fail(NAME, format!("did not end within {} s", RUN_TIMEOUT.as_secs()), MEANS, fix),
    }
}

async fn run(python: Option<PathBuf>) -> Result<Outcome, String> {
    let options = EmbeddedOptions { python, slots: Some(1), ..EmbeddedOptions::default() };
    let fleet = Fleet::embedded(options).await.map_err(|error| chain(&error))?;
    let job = async {
        let handle = fleet.submit(Job::python("print(6 * 7)"), None).await?;
        handle.result().await
    };
    let outcome = tokio::select! {
        outcome = job => outcome.map_err(|error| error.to_string()),
        why = fleet.unfit() => Err(why.to_string()),
    };
    fleet.close().await;
    outcome
}
