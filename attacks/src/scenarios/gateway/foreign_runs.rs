//! Another tenant's run, by its id.

use anyhow::Result;
use serde_json::json;

use crate::evidence::Evidence;
use crate::fleet::Site;
use crate::fleet::waiting::Waiting;

pub(super) const SHEET: &str = r#"
tries = "knows the id of another tenant's run and of its waiting call: asks for the run and its artifacts, follows it, answers its call, takes it over, cancels it, submits another job under its id"
wins = "the victim's output, influence on its tool calls, its outcome"
guard = "the gateway speaks as one tenant, whose name is part of every key in the fleet; ids give no access"
control = {}
held = { get = "unknown_run", info = "unknown_run", events = "unknown_run", artifact = "unknown_run", answer = "unknown_run", take_over = "unknown_run", cancel = "unknown_run", submit = "mine\n", victims = "own\n" }
open = { info = "200", answer = "204", victims = "stolen\n" }
"#;

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let gateway = site.gateway().await?;
    let victims = Waiting::begin(site).await?;

    let mut evidence = Evidence::default();
    let path = format!("/v1/runs/{}", victims.run.id());
    let answer = json!({ "ok": "stolen" }).to_string();
    let mut tries = vec![
        ("get", "GET", String::new(), ""),
        ("info", "GET", "/info".to_owned(), ""),
        ("events", "GET", "/events".to_owned(), ""),
        ("artifact", "GET", "/artifacts/a.csv".to_owned(), ""),
        ("answer", "POST", format!("/calls/{}", victims.call.call), answer.as_str()),
    ];
    if !site.lifted {
        // The victim itself would take the run from its other client.
        tries.push(("take_over", "POST", "/take-over".to_owned(), ""));
        tries.push(("cancel", "DELETE", String::new(), ""));
    }
    for (name, method, rest, body) in tries {
        evidence.note(name, gateway.ask(method, &format!("{path}{rest}"), body).await?.code());
    }
    if !site.lifted {
        let mine = json!({ "id": victims.run.id(), "code": "print('mine')" }).to_string();
        let told = gateway.ask("POST", "/v1/runs?wait=60s", &mine).await?.json();
        evidence.note("submit", told["outcome"]["stdout"].clone());
    }
    evidence.note("victims", victims.end().await?);
    Ok(evidence)
}
