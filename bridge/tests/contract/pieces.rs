//! Artifacts that come in pieces, as an SDK has credit for them, and jobs that come in parts.

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use serde_json::json;

use crate::contract::sdk::{Sdk, WIDE};
use crate::test;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        test("artifacts_are_fetched_in_pieces", artifacts_are_fetched_in_pieces),
        test("jobs_come_in_parts", jobs_come_in_parts),
    ]
}

async fn jobs_come_in_parts() -> Result<()> {
    let mut sdk = Sdk::embedded(json!({ "slots": 1, "warm": 1 })).await?;
    let job = |n: u64| json!({ "id": format!("j{n}"), "code": format!("print({n})") }).to_string();
    let begin = |id: u64| json!({ "type": "run", "id": id, "window": WIDE, "more": true });
    let (one, two) = (job(1), job(2));
    // The parts of several jobs come in turns, and one job is given up.
    sdk.send(begin(1), one[..3].to_owned()).await?;
    sdk.send(begin(2), "").await?;
    sdk.send(begin(3), "{").await?;
    sdk.send(json!({ "type": "input", "id": 1, "end": false }), one[3..10].to_owned()).await?;
    sdk.send(json!({ "type": "cancel", "id": 3 }), "").await?;
    ensure!(sdk.all_of(3).await?[0].code() == "cancelled");
    sdk.send(json!({ "type": "input", "id": 3, "end": true }), "late").await?;
    sdk.send(json!({ "type": "input", "id": 2, "end": true }), two).await?;
    ensure!(sdk.outcome(2).await?.stdout == "2\n");
    sdk.send(json!({ "type": "input", "id": 1, "end": true }), one[10..].to_owned()).await?;
    ensure!(sdk.outcome(1).await?.stdout == "1\n");
    // An id that is being sent can't be used.
    sdk.send(begin(4), "").await?;
    sdk.send(begin(4), "").await?;
    let told = sdk.next().await?;
    ensure!(told.is("error") && told.id().is_none() && told.code() == "bad_frame", "{told:?}");
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
    let nothing = "0".repeat(64);
    for (id, key) in (3..).zip([nothing.clone(), format!("checkpoints/s/1/{nothing}"), format!("./{}", artifact.id)]) {
        sdk.send(json!({ "type": "artifact", "id": id, "ref": key, "window": 1000 }), "").await?;
        ensure!(sdk.all_of(id).await?[0].code() == "unknown_ref", "{key}");
    }
    sdk.vanish().await
}
