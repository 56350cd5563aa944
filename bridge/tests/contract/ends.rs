//! How requests and connections end.

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use serde_json::json;
use thermae_schemas::{EventBody, Status};

use crate::contract::sdk::{Sdk, WIDE};
use crate::test;

const SLEEPS: &str = "import time\ntime.sleep(600)";

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        test("a_cancelled_request_cancels_its_job", a_cancelled_request_cancels_its_job),
        test("a_close_lets_requests_end", a_close_lets_requests_end),
    ]
}

async fn started(sdk: &mut Sdk, id: u64) -> Result<()> {
    loop {
        let told = sdk.next().await?;
        if told.id() == Some(id) && matches!(told.event()?.body, EventBody::Started { .. }) {
            return Ok(());
        }
    }
}

async fn a_cancelled_request_cancels_its_job() -> Result<()> {
    let mut sdk = Sdk::embedded(json!({ "slots": 1, "warm": 1 })).await?;
    sdk.run(1, WIDE, json!({ "code": SLEEPS, "stream": ["lifecycle"] })).await?;
    started(&mut sdk, 1).await?;
    // The second job waits for the slot of the first, and never starts.
    sdk.run(2, WIDE, json!({ "code": SLEEPS })).await?;
    sdk.send(json!({ "type": "cancel", "id": 2 }), "").await?;
    let outcome = sdk.outcome(2).await?;
    ensure!(outcome.status == Status::Cancelled, "{outcome:?}");
    sdk.send(json!({ "type": "cancel", "id": 1 }), "").await?;
    sdk.send(json!({ "type": "cancel", "id": 1 }), "").await?;
    let outcome = sdk.outcome(1).await?;
    ensure!(outcome.status == Status::Cancelled, "{outcome:?}");
    // A job whose cancel comes at once is cancelled, too, whether it was submitted or not.
    sdk.run(4, WIDE, json!({ "code": SLEEPS })).await?;
    sdk.send(json!({ "type": "cancel", "id": 4 }), "").await?;
    let outcome = sdk.outcome(4).await?;
    ensure!(outcome.status == Status::Cancelled, "{outcome:?}");
    // A request that has ended, or never was, can't be cancelled.
    sdk.send(json!({ "type": "cancel", "id": 1 }), "").await?;
    sdk.send(json!({ "type": "cancel", "id": 77 }), "").await?;
    sdk.run(3, WIDE, json!({ "code": "print(3)" })).await?;
    ensure!(sdk.outcome(3).await?.stdout == "3\n");
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
