//! Requests that say whose they are.

use anyhow::Result;
use serde_json::{Value, json};
use thermae_schemas::{Job, JobId};

use crate::evidence::Evidence;
use crate::fleet::broker::unique;
use crate::fleet::keyed::ALL;
use crate::fleet::socket::UPGRADE;
use crate::fleet::{Site, run, soon};

pub(super) const SHEET: &str = r#"
tries = "has a key of one tenant, and names another one: in headers, in the query, in ids, in a job, and in what an SDK opens (also as a URL and a password of its own)"
wins = "everything that the other tenant has"
guard = "the tenant is that of the key, and nothing else of a request is asked; fields and parameters that say more are refused"
control = {}
slow = true
held = { seen = [], opened = [], jobs = ["unknown_field", "unknown_field"] }
open = { seen = ["plain"], opened = ["opened"] }
"#;

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let gateway = site.keyed().await?;
    let holder = gateway.holder(if site.lifted { "globex" } else { "acme" }, ALL)?;
    let mut job = Job::python("print('secret')");
    job.id = JobId::new(unique("claimed"))?;
    let id = job.id.clone();
    soon("the victim's run", run(&site.globex, job)).await??;
    let mut tries = vec![("plain".to_owned(), format!("/v1/runs/{id}/info"), String::new())];
    if !site.lifted {
        tries.clear();
        for name in ["X-Tenant", "X-Thermae-Tenant", "Thermae-Tenant", "X-Forwarded-User", "X-Remote-User", "From"] {
            tries.push((name.to_owned(), format!("/v1/runs/{id}/info"), format!("{name}: globex\r\n")));
        }
        for path in [
            format!("/v1/runs/{id}/info?tenant=globex"),
            format!("/v1/runs/globex.{id}/info"),
            format!("/v1/runs/globex%2f{id}/info"),
            format!("/v1/runs/globex:{id}/info"),
            format!("/v1/runs/..%2fglobex%2f{id}/info"),
            format!("/v1/globex/runs/{id}/info"),
            format!("//globex/v1/runs/{id}/info"),
            format!("http://globex/v1/runs/{id}/info"),
        ] {
            tries.push((path.clone(), path, String::new()));
        }
    }
    let mut seen = Vec::new();
    for (what, path, header) in tries {
        let told = holder.with("GET", &path, &format!("{}{header}", holder.headers()), "").await?;
        if told.status == 200 {
            seen.push(what);
        }
    }
    let mut evidence = Evidence::default();
    evidence.note("seen", seen);
    let claims: &[Value] = if site.lifted {
        &[json!({})]
    } else {
        &[
            json!({ "tenant": "globex" }),
            json!({ "url": "amqp://globex:globex@127.0.0.1:5672", "password": "globex" }),
            json!({ "embedded": {} }),
        ]
    };
    let mut opened = Vec::new();
    for claim in claims {
        let headers = format!("{UPGRADE}{}X-Tenant: globex\r\n", holder.headers());
        let mut sdk = holder.upgrade(&headers).await?.map_err(|told| anyhow::anyhow!("{told:?}"))?;
        sdk.asked(&json!({ "type": "hello", "versions": [1], "sdk": "attacks" }), b"").await?;
        let mut open = json!({ "type": "open", "id": 1 });
        open.as_object_mut().into_iter().for_each(|open| open.extend(claim.as_object().cloned().unwrap_or_default()));
        let told = sdk.asked(&open, b"").await?.code();
        if told != "bad_option" {
            opened.push(told);
        }
    }
    evidence.note("opened", opened);
    if !site.lifted {
        let mut jobs = Vec::new();
        for field in ["tenant", "user_id"] {
            let job = json!({ "code": "", field: "globex" }).to_string();
            let told = holder.ask("POST", "/v1/runs?wait=30s", &job).await?;
            jobs.push(told.code());
        }
        evidence.note("jobs", jobs);
    }
    Ok(evidence)
}
