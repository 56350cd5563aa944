//! Runs that another client of the tenant has submitted.

use anyhow::{Context, Result, ensure};
use futures::FutureExt;
use serde_json::{Value, json};

use super::face::Face;
use super::{Case, case};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case("a_run_can_be_asked_for_and_answered", 1, |face| a_run_can_be_asked_for_and_answered(face).boxed()),
        case("a_run_that_nobody_knows_is_unknown", 1, |face| a_run_that_nobody_knows_is_unknown(face).boxed()),
        case("a_run_goes_on_with_another_client", 1, |face| a_run_goes_on_with_another_client(face).boxed()),
    ]
}

/// A run that calls its tool twice.
fn job() -> Value {
    let code = "print('begun', flush=True)\nprint(await ask(n=2**70), await ask(n=2))";
    json!({ "id": "j", "code": code, "tools": [{ "name": "ask" }] })
}

async fn a_run_can_be_asked_for_and_answered(mut face: Box<dyn Face>) -> Result<()> {
    face.submit(&job()).await?.map_err(anyhow::Error::msg)?;
    face.call("j").await?;
    let info = face.info("j").await?.map_err(anyhow::Error::msg)?;
    ensure!(info["run"] == "j" && info["stdout"]["data"] == "YmVndW4K", "{info}");
    ensure!(["running", "waiting", "paused"].iter().any(|state| info["state"] == *state), "{info}");
    face.answer_any("j", &info["calls"][0], r#"{"ok":1}"#).await?.map_err(anyhow::Error::msg)?;
    let second = face.call("j").await?;
    ensure!(second["arguments"]["n"] == 2, "{second}");
    face.answer("j", &second, r#"{"ok":2}"#).await?.map_err(anyhow::Error::msg)?;
    ensure!(face.outcome("j").await?.stdout == "begun\n1 2\n");
    let info = face.info("j").await?.map_err(anyhow::Error::msg)?;
    ensure!(info["state"] == "ended" && info.get("calls").is_none(), "{info}");
    face.end().await
}

async fn a_run_that_nobody_knows_is_unknown(mut face: Box<dyn Face>) -> Result<()> {
    let (info, taken) = (face.info("nobody").await?, face.take_over("nobody").await?);
    // Frames tell the state, and HTTP has an error for it.
    ensure!(info.as_ref().map_or_else(|code| code == "unknown_run", |info| info["state"] == "unknown"), "{info:?}");
    ensure!(taken.as_ref().is_err_and(|code| code == "unknown_run"), "{taken:?}");
    face.end().await
}

async fn a_run_goes_on_with_another_client(mut face: Box<dyn Face>) -> Result<()> {
    // A fleet at the other end of a pipe is that SDK's alone.
    let Some(mut second) = face.another().await? else { return face.end().await };
    face.submit(&job()).await?.map_err(anyhow::Error::msg)?;
    face.call("j").await?;
    second.take_over("j").await?.map_err(anyhow::Error::msg)?;
    let run = second.event("j").await?;
    ensure!(run["event"] == "run" && run["run"] == "j", "{run}");
    let superseded = face.next("j").await?;
    ensure!(superseded.as_ref().is_err_and(|code| code == "superseded"), "{superseded:?}");
    let waiting = run["calls"].get(0).context("no call waits")?;
    ensure!(waiting["tool"] == "ask", "{run}");
    second.answer("j", waiting, r#"{"ok":1}"#).await?.map_err(anyhow::Error::msg)?;
    let mut call = second.call("j").await?;
    if call["call"] == waiting["call"] {
        // Over HTTP, calls that wait are also events of their own.
        call = second.call("j").await?;
    }
    second.answer("j", &call, r#"{"ok":2}"#).await?.map_err(anyhow::Error::msg)?;
    ensure!(second.outcome("j").await?.stdout == "begun\n1 2\n");
    // The outcome can be had again, by anybody.
    face.take_over("j").await?.map_err(anyhow::Error::msg)?;
    ensure!(face.outcome("j").await?.stdout == "begun\n1 2\n");
    second.end().await?;
    face.end().await
}
