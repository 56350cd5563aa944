//! Paths that leave the folder that they are relative to.

use anyhow::{Context, Result};
use serde_json::json;

use crate::evidence::Evidence;
use crate::fleet::Site;
use crate::fleet::broker::unique;

pub(super) const SHEET: &str = r#"
tries = "reads a file outside of /workspace by paths with dots, escaped slashes, doubled slashes, backslashes, null bytes and overlong encodings"
wins = "files that a proxy in front of the gateway believes to have ruled out by their path"
guard = "paths have plain components only, and `root=true` for all others"
control = {}
held = { outside = [] }
open = { outside = ["session/secret?root=true"] }
"#;

const PATHS: [&str; 14] = [
    "../session/secret",
    "..%2fsession%2fsecret",
    "%2e%2e/session/secret",
    "%2e%2e%2fsession%2fsecret",
    "..%252fsession%252fsecret",
    "./../session/secret",
    "x/../../session/secret",
    "/session/secret",
    "%2fsession%2fsecret",
    "//session//secret",
    "..%5csession%5csecret",
    "..%c0%afsession%c0%afsecret",
    "../session/secret%00.csv",
    "..;/session/secret",
];

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let gateway = site.gateway().await?;
    let session = unique("paths");
    let job = json!({ "code": "open('/session/secret', 'w').write('secret')", "session": { "id": session } });
    let begun = gateway.ask("POST", "/v1/runs?wait=60s", &job.to_string()).await?;
    (begun.json()["outcome"]["status"] == "succeeded").then_some(()).context("no session")?;
    let mut evidence = Evidence::default();
    let paths: &[&str] = if site.lifted { &["session/secret?root=true"] } else { &PATHS };
    let mut outside = Vec::new();
    for path in paths {
        let told = gateway.ask("GET", &format!("/v1/sessions/{session}/files/{path}"), "").await?;
        if told.status == 200 || told.body.contains("secret\n") {
            outside.push(*path);
        }
    }
    evidence.note("outside", outside);
    gateway.ask("DELETE", &format!("/v1/sessions/{session}"), "").await?;
    Ok(evidence)
}
