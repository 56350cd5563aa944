//! Keys without all scopes.

use anyhow::{Context, Result};
use serde_json::json;

use crate::evidence::Evidence;
use crate::fleet::Site;
use crate::fleet::broker::unique;
use crate::fleet::keyed::{ALL, EVERY};
use crate::fleet::socket::UPGRADE;

pub(super) const SHEET: &str = r#"
tries = "has a key for each set of scopes that lacks one: asks for every operation that needs that one, and for an SDK's connection; begins sessions with runs and batches; wants to read outcomes by submitting again, by taking over and by cancelling"
wins = "what the key was not made for"
guard = "each operation names the scopes that it needs, an SDK's connection all that it can use; a job with a session needs the scope of sessions, and whoever may not read is told a run's id and state only"
control = {}
held = { opened = [], tried = { min = 41 }, read = [], sessions = ["missing_scope", "missing_scope"] }
open = { kept_out = [], tried = { min = 41 }, read = ["POST /v1/runs?wait=60s", "POST /v1/runs/RUN/take-over", "DELETE /v1/runs/RUN"], sessions = ["200", "200"] }
"#;

/// The path with something in place of each parameter.
fn filled(path: &str) -> String {
    path.replace(['{', '}'], "")
}

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let gateway = site.keyed().await?;
    let full = gateway.holder("acme", EVERY)?;
    let document = full.ask("GET", "/v1/openapi.json", "").await?.json();
    let (mut opened, mut kept_out, mut tried) = (Vec::new(), Vec::new(), 0);
    for lacking in EVERY.split(',') {
        let others: Vec<_> = EVERY.split(',').filter(|scope| *scope != lacking).collect();
        let scopes = if site.lifted { EVERY.to_owned() } else { others.join(",") };
        let holder = gateway.holder("acme", &scopes)?;
        for (path, methods) in document["paths"].as_object().context("no paths")? {
            for (method, operation) in methods.as_object().context("no methods")? {
                let mut needed = operation["security"][0]["token"].as_array().into_iter().flatten();
                if needed.all(|scope| scope != lacking) {
                    continue;
                }
                let told = holder.ask(&method.to_uppercase(), &filled(path), "").await?;
                tried += 1;
                if told.code() == "missing_scope" { &mut kept_out } else { &mut opened }
                    .push(format!("{method} {path} without {lacking}"));
            }
        }
        if ALL.split(',').all(|needed| needed != lacking) {
            continue;
        }
        tried += 1;
        match holder.upgrade(&format!("{UPGRADE}{}", holder.headers())).await? {
            Err(told) if told.code() == "missing_scope" => kept_out.push(format!("an SDK without {lacking}")),
            _ => opened.push(format!("an SDK without {lacking}")),
        }
    }
    let runs = if site.lifted { full } else { gateway.holder("acme", "run")? };
    // A new id: the fleet would tell what an earlier run of the same id has left.
    let run = unique("told");
    let job = json!({ "id": run, "code": "print('sec' + 'ret')" }).to_string();
    let mut read = Vec::new();
    for what in ["POST /v1/runs?wait=60s", "POST /v1/runs/RUN/take-over", "DELETE /v1/runs/RUN"] {
        let (method, path) = what.split_once(' ').context("METHOD PATH")?;
        if runs.ask(method, &path.replace("RUN", &run), &job).await?.body.contains("secret") {
            read.push(what);
        }
    }
    let session = json!({ "code": "", "session": { "id": "narrowed", "close": true } });
    let batch = json!({ "jobs": [session] });
    let mut sessions = Vec::new();
    for (path, body) in [("/v1/runs?wait=30s", session), ("/v1/batches?wait=30s", batch)] {
        sessions.push(runs.ask("POST", path, &body.to_string()).await?.code());
    }
    let mut evidence = Evidence::default();
    evidence.note("tried", tried);
    if site.lifted {
        evidence.note("kept_out", kept_out);
    } else {
        evidence.note("opened", opened);
    }
    evidence.note("read", read);
    evidence.note("sessions", sessions);
    Ok(evidence)
}
