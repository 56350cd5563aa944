//! Another tenant's run that has ended, and the artifact that it left.

use anyhow::{Context, Result};
use serde_json::json;
use thermae_schemas::Job;

use crate::evidence::Evidence;
use crate::fleet::gateway::TOKEN;
use crate::fleet::{Site, run, soon};

pub(super) const SHEET: &str = r#"
tries = "knows the ids of another tenant's run that has ended and of its artifact: asks for the run, also with headers that name the other tenant, takes it over, asks for the artifact, names the artifact as an input of a job"
wins = "the victim's outcome and its file"
guard = "the gateway speaks as one tenant, whatever a request says; the keys of records and files begin with the tenant's name"
control = {}
held = { info = "unknown_run", forged = "unknown_run", take_over = "unknown_run", artifact = "unknown_run", reference = "unknown_ref" }
open = { info = "200", forged = "200", take_over = "200", reference = "secret" }
"#;

/// Headers by which proxies and other services tell who asks.
const FORGED: [&str; 6] =
    ["X-Tenant", "X-Thermae-Tenant", "X-Forwarded-User", "X-Remote-User", "X-Original-User", "Thermae-Tenant"];

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let gateway = site.gateway().await?;
    let job = Job::python("open('/workspace/artifacts/a.txt', 'w').write('secret')");
    let id = job.id.clone();
    let outcome = soon("the victim's run", run(&site.globex, job)).await??;
    let artifact = &outcome.artifacts.first().with_context(|| format!("no artifact: {outcome:?}"))?.id;

    let mut evidence = Evidence::default();
    let path = format!("/v1/runs/{id}");
    evidence.note("info", gateway.ask("GET", &format!("{path}/info"), "").await?.code());
    let names: String = FORGED.iter().map(|name| format!("{name}: globex\r\n")).collect();
    let headers = format!("Authorization: Bearer {TOKEN}\r\n{names}");
    evidence.note("forged", gateway.with("GET", &format!("{path}/info"), &headers, "").await?.code());
    evidence.note("take_over", gateway.ask("POST", &format!("{path}/take-over"), "").await?.code());
    evidence.note("artifact", gateway.ask("GET", &format!("{path}/artifacts/a.txt"), "").await?.code());
    let thief =
        json!({ "code": "print(open('a.txt').read(), end='')", "files": [{ "path": "a.txt", "ref": artifact }] });
    let told = gateway.ask("POST", "/v1/runs?wait=60s", &thief.to_string()).await?.json();
    let outcome = &told["outcome"];
    let got = if outcome["status"] == "succeeded" { &outcome["stdout"] } else { &outcome["error"]["code"] };
    evidence.note("reference", got.clone());
    Ok(evidence)
}
