//! Runs, sessions and artifacts.

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use serde_json::{Value, json};
use thermae_schemas::Status;

use crate::contract::sdk::{Sdk, WIDE};
use crate::test;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        test("events_arrive_in_order_as_the_fleet_sent_them", events_arrive_in_order_as_the_fleet_sent_them),
        test("a_thousand_runs_share_a_connection", a_thousand_runs_share_a_connection),
        test("sessions_live_on_and_are_listed", sessions_live_on_and_are_listed),
        test("artifacts_are_fetched_in_pieces", artifacts_are_fetched_in_pieces),
    ]
}

async fn events_arrive_in_order_as_the_fleet_sent_them() -> Result<()> {
    let mut sdk = Sdk::embedded(json!({ "slots": 1, "warm": 1 })).await?;
    let code = "print('one', flush=True)\ndisplay(40)\nprint('zwei é', flush=True)\n6 * 7";
    sdk.run(1, WIDE, json!({ "code": code, "stream": ["lifecycle", "output", "display"] })).await?;
    let all = sdk.all_of(1).await?;
    let mut kinds = Vec::new();
    for told in &all[..all.len() - 1] {
        let wire: Value = serde_json::from_slice(&told.payload)?;
        ensure!(wire["job"] == "job-1" && wire["protocol"] == 1, "{wire}");
        kinds.push(wire["event"].as_str().unwrap_or_default().to_owned());
    }
    ensure!(kinds.first().is_some_and(|kind| kind == "accepted"), "{kinds:?}");
    ensure!(kinds.last().is_some_and(|kind| kind == "result"), "{kinds:?}");
    ensure!(["started", "stdout", "display"].iter().all(|kind| kinds.iter().any(|k| k == kind)), "{kinds:?}");
    ensure!(all[all.len() - 1].header == json!({ "type": "done", "id": 1 }), "{all:?}");
    let outcome = all[all.len() - 2].outcome()?;
    ensure!(outcome.stdout == "one\nzwei é\n" && outcome.value.is_some_and(|value| value["text/plain"] == "42"));
    sdk.vanish().await
}

async fn a_thousand_runs_share_a_connection() -> Result<()> {
    const RUNS: u64 = 1000;
    let mut sdk = Sdk::embedded(json!({ "slots": 4, "warm": 2 })).await?;
    for id in 1..=RUNS {
        sdk.run(id, 4096, json!({ "code": format!("print({id})") })).await?;
    }
    let (mut results, mut done) = (0, 0);
    while done < RUNS {
        let told = sdk.next().await?;
        if told.is("done") {
            done += 1;
        } else {
            let outcome = told.outcome()?;
            ensure!(outcome.stdout == format!("{}\n", told.id().unwrap_or(0)), "{outcome:?}");
            results += 1;
        }
    }
    ensure!(results == RUNS, "{results}");
    sdk.vanish().await
}

async fn sessions_live_on_and_are_listed() -> Result<()> {
    let mut sdk = Sdk::embedded(json!({ "slots": 1, "warm": 1 })).await?;
    sdk.run(1, WIDE, json!({ "code": "x = 20", "session": { "id": "s" } })).await?;
    ensure!(sdk.outcome(1).await?.status == Status::Succeeded);
    sdk.run(2, WIDE, json!({ "code": "print(x + 22)", "session": { "id": "s" } })).await?;
    ensure!(sdk.outcome(2).await?.stdout == "42\n");
    // A worker tells of its sessions with its heartbeats.
    for id in 3.. {
        sdk.send(json!({ "type": "sessions", "id": id }), "").await?;
        let all = sdk.all_of(id).await?;
        let listed: Value = serde_json::from_slice(&all[0].payload)?;
        if listed[0]["id"] == "s" {
            break;
        }
    }
    sdk.vanish().await
}

async fn artifacts_are_fetched_in_pieces() -> Result<()> {
    let mut sdk = Sdk::embedded(json!({ "slots": 1, "warm": 1 })).await?;
    let code = "import pathlib\npathlib.Path('artifacts/a.bin').write_bytes(bytes(range(256)) * 1200)";
    sdk.run(1, WIDE, json!({ "code": code })).await?;
    let outcome = sdk.outcome(1).await?;
    let artifact = outcome.artifacts.first().ok_or_else(|| anyhow::anyhow!("{outcome:?}"))?;
    sdk.send(json!({ "type": "artifact", "id": 2, "ref": artifact.id, "window": 1000 }), "").await?;
    let mut content = Vec::new();
    let done = loop {
        let told = sdk.next().await?;
        if !told.is("data") {
            break told;
        }
        content.extend_from_slice(&told.payload);
        sdk.send(json!({ "type": "credit", "id": 2, "bytes": told.payload.len() }), "").await?;
    };
    ensure!(done.header == json!({ "type": "done", "id": 2, "size": 256 * 1200 }), "{done:?}");
    ensure!(content.chunks(256).all(|chunk| chunk.iter().copied().eq(0..=255)) && content.len() == 256 * 1200);
    sdk.send(json!({ "type": "artifact", "id": 3, "ref": "0".repeat(64), "window": 1000 }), "").await?;
    ensure!(sdk.all_of(3).await?[0].code() == "unknown_ref");

    // A later job takes the artifact by its reference.
    let files = json!([{ "path": "b.bin", "ref": artifact.id }]);
    sdk.run(4, WIDE, json!({ "code": "print(len(open('b.bin', 'rb').read()))", "files": files })).await?;
    ensure!(sdk.outcome(4).await?.stdout == "307200\n");
    sdk.vanish().await
}
