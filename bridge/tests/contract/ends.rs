//! How runs and connections end.

use anyhow::{Result, ensure};
use futures::FutureExt;
use libtest_mimic::Trial;
use serde_json::json;
use thermae_schemas::{EventBody, Status};

use super::face::Face;
use super::{Case, case};
use crate::contract::sdk::{Sdk, WIDE};
use crate::test;

const SLEEPS: &str = "import time\ntime.sleep(600)";

pub(super) fn cases() -> Vec<Case> {
    vec![case("a_cancel_ends_the_run_wherever_it_is", 1, |face| a_cancel_ends_the_run(face).boxed())]
}

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        test("what_is_about_no_request_has_no_effect", what_is_about_no_request_has_no_effect),
        test("a_close_lets_requests_end", a_close_lets_requests_end),
    ]
}

async fn a_cancel_ends_the_run(mut face: Box<dyn Face>) -> Result<()> {
    let sleeps = |id: &str| json!({ "id": id, "code": SLEEPS, "stream": ["lifecycle"] });
    face.submit(&sleeps("a")).await?.map_err(anyhow::Error::msg)?;
    while face.event("a").await?["event"] != "started" {}
    // The second job waits for the slot of the first, and never starts.
    face.submit(&sleeps("b")).await?.map_err(anyhow::Error::msg)?;
    face.cancel("b").await?;
    let outcome = face.outcome("b").await?;
    ensure!(outcome.status == Status::Cancelled, "{outcome:?}");
    face.cancel("a").await?;
    face.cancel("a").await?;
    let outcome = face.outcome("a").await?;
    ensure!(outcome.status == Status::Cancelled, "{outcome:?}");
    // A job whose cancel comes at once is cancelled, too, whether it was submitted or not.
    face.submit(&sleeps("c")).await?.map_err(anyhow::Error::msg)?;
    face.cancel("c").await?;
    let outcome = face.outcome("c").await?;
    ensure!(outcome.status == Status::Cancelled, "{outcome:?}");
    // A run that has ended can't be cancelled.
    face.cancel("a").await?;
    ensure!(face.run(&json!({ "id": "d", "code": "print(3)" })).await?.stdout == "3\n");
    face.end().await
}

async fn what_is_about_no_request_has_no_effect() -> Result<()> {
    let mut sdk = Sdk::embedded(json!({ "slots": 1, "warm": 1 })).await?;
    sdk.run(1, WIDE, json!({ "code": "print(1)" })).await?;
    ensure!(sdk.outcome(1).await?.stdout == "1\n");
    for id in [1, 77] {
        sdk.send(json!({ "type": "cancel", "id": id }), "").await?;
        sdk.send(json!({ "type": "tool_result", "id": id, "call": "x" }), r#"{"ok":0}"#).await?;
        sdk.send(json!({ "type": "credit", "id": id, "bytes": 1 }), "").await?;
    }
    sdk.run(2, WIDE, json!({ "code": "print(2)" })).await?;
    ensure!(sdk.outcome(2).await?.stdout == "2\n");
    sdk.vanish().await
}

async fn a_close_lets_requests_end() -> Result<()> {
    let mut sdk = Sdk::embedded(json!({ "slots": 1, "warm": 1 })).await?;
    sdk.run(1, 1, json!({ "code": format!("print('before', flush=True)\n{SLEEPS}"), "stream": ["output"] })).await?;
    // The window is used up by this event.
    let told = sdk.next().await?;
    ensure!(matches!(told.event()?.body, EventBody::Stdout { .. }), "{told:?}");
    sdk.run(2, WIDE, json!({ "code": SLEEPS })).await?;
    sdk.send(json!({ "type": "close" }), "").await?;
    let mut ended = Vec::new();
    while let Some(told) = sdk.next_or_end().await? {
        if told.is("event") {
            ensure!(told.outcome()?.status == Status::Cancelled, "{told:?}");
        } else {
            ensure!(told.is("done"), "{told:?}");
            ended.extend(told.id());
        }
    }
    ended.sort_unstable();
    ensure!(ended == [1, 2], "{ended:?}");
    sdk.vanish().await
}
