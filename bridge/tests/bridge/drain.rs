//! The terms of a connection: what a gateway sets to end it in order, and to bound it.

use std::sync::Arc;

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use serde_json::json;
use thermae_bridge::{Holds, Terms};
use tokio_util::sync::CancellationToken;

use crate::contract::sdk::WIDE;
use crate::played::PlayedFleet;
use crate::test;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        test("a_connection_that_is_drained_says_so_and_its_runs_go_on", drained),
        test("requests_that_can_not_be_held_are_refused", requests_that_can_not_be_held_are_refused),
        test("an_sdk_that_reads_nothing_is_ended", an_sdk_that_reads_nothing_is_ended),
    ]
}

/// Lets a connection hold this many bytes.
struct Most(usize);

impl Holds for Most {
    fn hold(&self, bytes: usize) -> bool {
        bytes <= self.0
    }
}

async fn drained() -> Result<()> {
    let mut fleet = PlayedFleet::start().await?;
    let drain = CancellationToken::new();
    let mut sdk = fleet.sdk_on(Terms { drain: drain.clone(), ..Terms::default() }).await?;
    sdk.run(1, WIDE, json!({ "code": "" })).await?;
    fleet.job().await?;
    drain.cancel();
    let last = sdk.next().await?;
    ensure!(last.is("error") && last.id().is_none() && last.code() == "draining", "{last:?}");
    ensure!(sdk.next_or_end().await?.is_none());
    sdk.vanish().await?;
    // Nothing but an explicit cancel cancels a job: this is the next one.
    let mut sdk = fleet.sdk().await?;
    sdk.send(json!({ "type": "cancel_run", "id": 1, "job": "job-1" }), "").await?;
    ensure!(sdk.next().await?.is("done") && fleet.cancel().await? == "job-1");
    sdk.send(json!({ "type": "cancel_run", "id": 2, "job": "other" }), "").await?;
    ensure!(sdk.next().await?.is("done") && fleet.cancel().await? == "other");
    sdk.vanish().await?;
    fleet.end().await
}

async fn requests_that_can_not_be_held_are_refused() -> Result<()> {
    let mut fleet = PlayedFleet::start().await?;
    let mut sdk = fleet.sdk_on(Terms { requests: 3, holds: Arc::new(Most(3000)), ..Terms::default() }).await?;
    sdk.run(1, WIDE, json!({ "code": "#".repeat(2000) })).await?;
    fleet.job().await?;
    sdk.run(2, WIDE, json!({ "code": "#".repeat(2000) })).await?;
    let refused = sdk.next().await?;
    ensure!(refused.id() == Some(2) && refused.code() == "gateway_full", "{refused:?}");
    sdk.run(3, WIDE, json!({ "code": "" })).await?;
    fleet.job().await?;
    // The request that opened the fleet goes on as long as the connection.
    sdk.run(4, WIDE, json!({ "code": "" })).await?;
    let refused = sdk.next().await?;
    ensure!(refused.id() == Some(4) && refused.code() == "too_many_requests", "{refused:?}");
    sdk.vanish().await?;
    fleet.end().await
}

async fn an_sdk_that_reads_nothing_is_ended() -> Result<()> {
    let mut fleet = PlayedFleet::start().await?;
    let mut sdk = fleet.sdk_on(Terms { holds: Arc::new(Most(3 << 20)), ..Terms::default() }).await?;
    sdk.run(1, WIDE, json!({ "code": "", "stream": ["output"] })).await?;
    let job = fleet.job().await?;
    for seq in 0..100 {
        let event = json!({ "job": "job-1", "event": "stdout", "seq": seq, "text": "x".repeat(100_000) });
        // The client's queue goes with the connection.
        let _ = fleet.tell(&job, &event.to_string()).await;
    }
    (&mut sdk.serving).await?;
    fleet.end().await
}
