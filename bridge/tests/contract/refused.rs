//! Jobs that are refused: at once, or by their outcome, and with the same code.

use anyhow::{Result, ensure};
use futures::FutureExt;
use serde_json::json;

use super::face::Face;
use super::{Case, case};

pub(super) fn cases() -> Vec<Case> {
    vec![case("a_job_is_refused_with_its_code", 1, |face| a_job_is_refused_with_its_code(face).boxed())]
}

async fn a_job_is_refused_with_its_code(mut face: Box<dyn Face>) -> Result<()> {
    let id = "0".repeat(64);
    for (id, more, code) in [
        ("a", json!({ "code": "", "colour": "red" }), "unknown_field"),
        ("b", json!({ "code": 1 }), "schema_violation"),
        ("c", json!({}), "schema_violation"),
        ("d", json!({ "code": "", "limits": { "wall_ms": "1" } }), "schema_violation"),
        ("e", json!({ "code": "", "protocol": 99 }), "unsupported_protocol"),
        ("f", json!({ "code": "", "capabilities": [{ "pattern": "" }] }), "bad_capability"),
        ("g", json!({ "code": "", "pool": "nowhere" }), "unknown_pool"),
        ("a b", json!({ "code": "" }), "schema_violation"),
        (
            "ref-1",
            json!({ "code": "", "files": [{ "path": "x", "ref": format!("checkpoints/s/1/{id}") }] }),
            "schema_violation",
        ),
        ("ref-2", json!({ "code": "", "inputs": { "x": { "ref": format!("outcomes/{id}") } } }), "schema_violation"),
        ("ref-3", json!({ "code": "", "files": [{ "path": "x", "ref": id }] }), "unknown_ref"),
    ] {
        let mut job = more;
        job["id"] = json!(id);
        let found = face.refusal(&job).await?;
        ensure!(found == code, "{job}: {found}, not {code}");
    }
    ensure!(face.run(&json!({ "id": "j", "code": "print(9)" })).await?.stdout == "9\n");
    face.end().await
}
