//! How an SDK opens an embedded fleet, and with which options.

use anyhow::{Result, ensure};
use bytes::Bytes;
use libtest_mimic::Trial;
use serde_json::json;
use thermae_schemas::{EventBody, Status};

use crate::contract::sdk::{Sdk, WIDE};
use crate::test;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        test("nothing_needs_to_be_waited_for_at_the_start", nothing_needs_to_be_waited_for_at_the_start),
        test("options_reach_the_sandboxes", options_reach_the_sandboxes),
        test("tools_are_read_before_a_job_has_them", tools_are_read_before_a_job_has_them),
    ]
}

async fn nothing_needs_to_be_waited_for_at_the_start() -> Result<()> {
    let mut sdk = Sdk::opening(json!({ "slots": 1, "warm": 1 })).await?;
    sdk.run(7, WIDE, json!({ "code": "print(1)" })).await?;
    sdk.send(json!({ "type": "sessions", "id": 8 }), "").await?;
    ensure!(sdk.next().await?.is("hello"));
    let opened = sdk.next().await?;
    ensure!(
        opened.header == json!({ "type": "opened", "id": 0, "tenant": "local", "embedded": true, "slots": 1 }),
        "{opened:?}"
    );
    ensure!(sdk.outcome(7).await?.stdout == "1\n");
    sdk.vanish().await
}

async fn tools_are_read_before_a_job_has_them() -> Result<()> {
    let mut sdk = Sdk::embedded(json!({ "slots": 1, "warm": 1 })).await?;
    let odd = json!({ "name": "odd", "input_schema": { "$schema": "https://example.com/my-draft" } });
    let good = json!({ "name": "good", "input_schema": { "pattern": "^a$" } });
    for (id, tools, why) in [
        (1, json!([good, odd]), "The tool \"odd\" can't be called"),
        (2, json!([{ "name": "a.b" }, { "name": "a-b" }]), "rename one"),
        (3, json!({}), "invalid type"),
    ] {
        sdk.send(json!({ "type": "check_tools", "id": id }), tools.to_string()).await?;
        let told = sdk.next().await?;
        let message = told.header["message"].as_str().unwrap_or_default();
        ensure!(told.code() == "bad_tool" && told.id() == Some(id) && message.contains(why), "{told:?}");
    }
    sdk.send(json!({ "type": "check_tools", "id": 4 }), json!([good]).to_string()).await?;
    let told = sdk.next().await?;
    ensure!(told.is("done") && told.id() == Some(4), "{told:?}");
    sdk.vanish().await
}

async fn options_reach_the_sandboxes() -> Result<()> {
    let dir = tempfile::tempdir()?;
    std::fs::write(dir.path().join("a.csv"), "41\n")?;
    let options = json!({
        "slots": 1, "warm": 1, "disk": "24MiB", "datasets": { "shop": dir.path() },
        "memory": 100 << 20, "wall": "20s", "ceiling": { "memory": "200MiB" },
    });
    let mut sdk = Sdk::embedded(options).await?;
    sdk.run(1, WIDE, json!({ "code": "print(open('/data/shop/a.csv').read())" })).await?;
    let outcome = sdk.outcome(1).await?;
    ensure!(outcome.stdout == "41\n\n", "{outcome:?}");
    let limits = outcome.limits.ok_or_else(|| anyhow::anyhow!("no limits"))?;
    ensure!((limits.memory_bytes, limits.wall_ms) == (100 << 20, 20_000), "{limits:?}");
    for (id, mib, status) in [(2, 200, Status::Succeeded), (3, 201, Status::Rejected)] {
        sdk.run(id, WIDE, json!({ "code": "", "limits": { "memory_bytes": mib << 20, "wall_ms": 3_600_000 } })).await?;
        ensure!(sdk.outcome(id).await?.status == status, "{mib} MiB");
    }
    // The bytes of a large result are one frame, whatever the window is.
    let big = json!({ "code": "print('x' * 700_000)", "stream": ["output"] });
    sdk.run(4, 1, big).await?;
    let first = sdk.next().await?;
    ensure!(matches!(first.event()?.body, EventBody::Stdout { .. }), "{first:?}");
    sdk.send(json!({ "type": "credit", "id": 4, "bytes": 10 << 20 }), Bytes::new()).await?;
    ensure!(sdk.outcome(4).await?.stdout.len() == 700_001);
    sdk.vanish().await
}
