//! Runs, sessions and artifacts.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures::FutureExt;
use serde_json::{Value, json};
use thermae_schemas::Status;

use super::face::Face;
use super::{Case, case};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case("events_arrive_in_order_as_the_fleet_sent_them", 1, |face| events_arrive_in_order(face).boxed()),
        case("a_thousand_runs_are_under_way", 4, |face| a_thousand_runs_are_under_way(face).boxed()),
        case("sessions_live_on_and_are_listed", 1, |face| sessions_live_on_and_are_listed(face).boxed()),
        case("artifacts_are_fetched_and_taken_by_later_jobs", 1, |face| artifacts_are_fetched(face).boxed()),
        case("large_files_and_inputs_need_no_care", 1, |face| large_files_and_inputs(face).boxed()),
    ]
}

async fn events_arrive_in_order(mut face: Box<dyn Face>) -> Result<()> {
    let code = "print('one', flush=True)\ndisplay(40)\nprint('zwei é', flush=True)\n6 * 7";
    let stream = ["lifecycle", "output", "display"];
    let job = json!({ "protocol": 1, "id": "j", "code": code, "stream": stream });
    face.submit(&job).await?.map_err(anyhow::Error::msg)?;
    let mut kinds = Vec::new();
    let result = loop {
        let wire = face.event("j").await?;
        ensure!(wire["job"] == "j" && wire["protocol"] == 1, "{wire}");
        kinds.push(wire["event"].as_str().unwrap_or_default().to_owned());
        if wire["event"] == "result" {
            break wire;
        }
    };
    ensure!(kinds.first().is_some_and(|kind| kind == "accepted"), "{kinds:?}");
    ensure!(["started", "stdout", "display"].iter().all(|kind| kinds.iter().any(|k| k == kind)), "{kinds:?}");
    ensure!(result["stdout"] == "one\nzwei é\n" && result["value"]["text/plain"] == "42", "{result}");
    face.end().await
}

async fn a_thousand_runs_are_under_way(mut face: Box<dyn Face>) -> Result<()> {
    const RUNS: u64 = 1000;
    for n in 0..RUNS {
        let job = json!({ "id": format!("j{n}"), "code": format!("print({n})") });
        face.submit(&job).await?.map_err(anyhow::Error::msg)?;
    }
    for n in 0..RUNS {
        let outcome = face.outcome(&format!("j{n}")).await?;
        ensure!(outcome.stdout == format!("{n}\n"), "{outcome:?}");
    }
    face.end().await
}

async fn sessions_live_on_and_are_listed(mut face: Box<dyn Face>) -> Result<()> {
    let first = json!({ "id": "a", "code": "x = 20", "session": { "id": "s" } });
    ensure!(face.run(&first).await?.status == Status::Succeeded);
    let second = json!({ "id": "b", "code": "print(x + 22)", "session": { "id": "s" } });
    ensure!(face.run(&second).await?.stdout == "42\n");
    // A worker tells of its sessions with its heartbeats.
    while face.sessions().await?[0]["id"] != "s" {
        tokio::task::yield_now().await;
    }
    face.end().await
}

async fn large_files_and_inputs(mut face: Box<dyn Face>) -> Result<()> {
    // Each is larger than a message in the fleet, and the inputs have more values than a job otherwise.
    let rows: Vec<u32> = (0..300_000).collect();
    let job = json!({
        "id": "j",
        "code": "print(len(open('a.txt').read()), open('b.bin', 'rb').read() == bytes(3 << 20), len(rows), len(text))",
        "files": [
            { "path": "a.txt", "text": "a".repeat(3 << 20) },
            { "path": "b.bin", "base64": "A".repeat(4 << 20) },
        ],
        "inputs": { "rows": { "value": rows }, "text": { "value": "x".repeat(2 << 20) } },
    });
    let outcome = face.run(&job).await?;
    ensure!(outcome.stdout == format!("{} True 300000 {}\n", 3 << 20, 2 << 20), "{outcome:?}");
    face.end().await
}

async fn artifacts_are_fetched(mut face: Box<dyn Face>) -> Result<()> {
    let code = "import pathlib\npathlib.Path('artifacts/a.bin').write_bytes(bytes(range(256)) * 1200)";
    let outcome = face.run(&json!({ "id": "a", "code": code })).await?;
    let artifact = serde_json::to_value(outcome.artifacts.first().context("no artifact")?)?;
    let content = face.artifact("a", &artifact).await?.map_err(anyhow::Error::msg)?;
    let expected: Bytes = (0..=255).collect::<Vec<u8>>().repeat(1200).into();
    ensure!(content == expected, "{} bytes came", content.len());
    // Frames name an artifact by its reference, and HTTP by its run and path.
    let nothing: Value = json!({ "id": "0".repeat(64), "path": "none" });
    let refused = face.artifact("a", &nothing).await?.err();
    ensure!(refused.as_deref().is_some_and(|code| ["unknown_ref", "unknown_artifact"].contains(&code)), "{refused:?}");

    // A later job takes the artifact by its reference.
    let files = json!([{ "path": "b.bin", "ref": artifact["id"] }]);
    let later = json!({ "id": "b", "code": "print(len(open('b.bin', 'rb').read()))", "files": files });
    ensure!(face.run(&later).await?.stdout == "307200\n");
    face.end().await
}
