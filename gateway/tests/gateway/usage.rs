//! What tenants used.

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::serving::Serving;
use crate::test;

pub(crate) fn tests() -> Vec<Trial> {
    vec![test("each_outcome_counts_once", each_outcome_counts_once)]
}

async fn used(serving: &Serving) -> Result<Value> {
    serving.get("/v1/usage?hours=2").await?.json()
}

async fn each_outcome_counts_once() -> Result<()> {
    let serving = Serving::new().await?;
    let none = used(&serving).await?;
    ensure!(none["total"]["runs"] == json!({}) && none["total"]["wall_ms"] == 0.0, "{none}");
    ensure!(none["hours"] == json!([]) && none["since"].is_string() && none["from"].is_string(), "{none}");

    let code = "open('artifacts/a', 'w').write('12345')\nprint('seven!')\nsum(range(10**5))";
    serving.run(json!({ "id": "a", "code": code, "idempotency_key": "k" })).await?;
    serving.run(json!({ "id": "f", "code": "1 / 0" })).await?;
    let refused = serving.run(json!({ "id": "r", "code": "", "pool": "none" })).await?;
    ensure!(refused["outcome"]["status"] == "rejected", "{refused}");
    // The same run for another job, and again.
    let other = serving.run(json!({ "id": "b", "code": code, "idempotency_key": "k" })).await?;
    ensure!(other["outcome"]["duplicate_of"] == "a", "{other}");
    serving.run(json!({ "id": "a", "code": code, "idempotency_key": "k" })).await?;
    let total = used(&serving).await?["total"].clone();
    ensure!(total["runs"] == json!({ "succeeded": 1, "failed": 1, "rejected": 1 }), "{total}");
    ensure!(total["artifact_bytes"] == 5 && total["tool_calls"] == 0, "{total}");
    ensure!(
        total["output_bytes"] == 7 && total["cpu_ms"].as_f64() > Some(0.0) && total["wall_ms"].as_f64() > Some(0.0),
        "{total}"
    );

    // Another gateway of the fleet begins anew. An outcome that the fleet has kept counts there.
    let second = serving.another().await?;
    ensure!(used(&second).await?["total"]["runs"] == json!({}));
    second.run(json!({ "id": "f", "code": "1 / 0" })).await?;
    let batch = json!({ "jobs": [{ "id": "c", "code": "" }, { "id": "d", "code": "" }] });
    let batch = second.post("/v1/batches?wait=60s", &batch).await?;
    ensure!(batch.status == 200, "{batch:?}");
    let both = used(&second).await?;
    ensure!(both["total"]["runs"] == json!({ "succeeded": 2, "failed": 1 }), "{both}");
    let of_hours = both["hours"].as_array().into_iter().flatten().filter_map(|hour| hour["runs"]["succeeded"].as_u64());
    ensure!(of_hours.sum::<u64>() == 2, "{both}");
    second.leave().await?;

    for bad in ["hours=0", "hours=745", "hours=-1", "hours=x", "from=1"] {
        serving.get(&format!("/v1/usage?{bad}")).await?.problem(400, "bad_parameter")?;
    }
    serving.end().await
}
