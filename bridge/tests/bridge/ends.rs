//! What remains of connections that end: no process.

use std::time::Instant;

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use serde_json::json;
use thermae_schemas::{EventBody, Status};

use crate::contract::sdk::{Sdk, WIDE};
use crate::{SOON, test};

const SLEEPS: &str = "import time\ntime.sleep(600)";

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        test("a_client_that_vanishes_leaves_nothing", a_client_that_vanishes_leaves_nothing),
        test("a_client_that_closes_leaves_nothing", a_client_that_closes_leaves_nothing),
        test("a_bridge_that_is_stopped_leaves_nothing", a_bridge_that_is_stopped_leaves_nothing),
    ]
}

/// The ids of this process's children.
fn children() -> Result<Vec<u32>> {
    let mut children = Vec::new();
    for task in std::fs::read_dir("/proc/self/task")? {
        // A thread may end meanwhile.
        let listed = std::fs::read_to_string(task?.path().join("children")).unwrap_or_default();
        children.extend(listed.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
    }
    Ok(children)
}

/// A bridge with 100 runs in flight, some of them running.
async fn busy() -> Result<Sdk> {
    let mut sdk = Sdk::embedded(json!({ "slots": 3, "warm": 1 })).await?;
    for id in 1..=100 {
        sdk.run(id, WIDE, json!({ "code": SLEEPS, "stream": ["lifecycle"] })).await?;
    }
    let mut running = 0;
    while running < 3 {
        let told = sdk.next().await?;
        running += u32::from(matches!(told.event()?.body, EventBody::Started { .. }));
    }
    ensure!(!children()?.is_empty(), "the fleet has no process");
    Ok(sdk)
}

/// Waits a moment, because the kernel hands an ended process's children on before it is gone from the list.
async fn nothing_left(begun: Instant) -> Result<()> {
    println!("it took {:?}", begun.elapsed());
    while !children()?.is_empty() {
        ensure!(begun.elapsed() < SOON, "left behind: {:?}", children()?);
        tokio::task::yield_now().await;
    }
    Ok(())
}

async fn a_client_that_vanishes_leaves_nothing() -> Result<()> {
    let sdk = busy().await?;
    let begun = Instant::now();
    sdk.vanish().await?;
    nothing_left(begun).await
}

async fn a_bridge_that_is_stopped_leaves_nothing() -> Result<()> {
    let mut sdk = busy().await?;
    let begun = Instant::now();
    sdk.stop.cancel();
    (&mut sdk.serving).await?;
    nothing_left(begun).await?;
    while let Some(told) = sdk.next_or_end().await? {
        ensure!(told.is("event"), "nobody is told anything: {told:?}");
    }
    Ok(())
}

async fn a_client_that_closes_leaves_nothing() -> Result<()> {
    let mut sdk = busy().await?;
    sdk.send(json!({ "type": "close" }), "").await?;
    while let Some(told) = sdk.next_or_end().await? {
        ensure!(!told.is("error"), "{told:?}");
        if told.is("event")
            && let EventBody::Result(outcome) = told.event()?.body
        {
            ensure!(outcome.status == Status::Cancelled, "{outcome:?}");
        }
    }
    (&mut sdk.serving).await?;
    nothing_left(Instant::now()).await
}
