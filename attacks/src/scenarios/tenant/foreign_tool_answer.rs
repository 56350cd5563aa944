//! An answer to another tenant's tool call. The attacker even knows the call's secret number.

use std::sync::Arc;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use thermae_schemas::{Job, ToolSpec};

use crate::evidence::Evidence;
use crate::fleet::broker::table;
use crate::fleet::{Site, soon, until};
use crate::tools::{GATE, Tools};

pub(super) const SHEET: &str = r#"
tries = "answers a tool call of another tenant's job, under its own key and through an exchange of its own, and even knows the call's secret number"
wins = "an answer that the victim's code takes for its own tool's"
guard = "a worker accepts an answer only from a user of the tenant that the call belongs to"
control = {}
held = { own_key = "worked", victims_key = "ACCESS_REFUSED", got = "true\n" }
open = { victims_key = "worked", got = "forged\n" }
"#;

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let (attacker, witness) = (site.attacker().await?, site.witness().await?);
    let calls = witness.tap("replies", "globex.#").await?;
    let code =
        "import json\ngot = await gate(open=True)\nprint(got if isinstance(got, str) else json.dumps(got['open']))";
    let mut job = Job::python(code);
    job.tools = vec![serde_json::from_value::<ToolSpec>(json!({ "name": GATE }))?];
    let gate: Arc<Tools> = Arc::default();
    let handle = site.globex.submit(job, Some(gate.clone())).await?;
    soon("the victim's call", gate.reached()).await?;
    let mut call = None;
    until("the call", async || {
        call = calls.take().await?.into_iter().find_map(|(_, body)| {
            let event: Value = serde_json::from_str(&body).ok()?;
            Some((event.get("call")?.as_str()?.to_owned(), event.get("reply_to")?.as_str()?.to_owned()))
        });
        Ok(call.is_some())
    })
    .await?;
    let (call, key) = call.context("no call")?;
    let answer = json!({ "call": call, "ok": "forged" }).to_string();
    let mut evidence = Evidence::default();
    let own = key.replacen("globex", "acme", 1);
    let before = site.worker.metric("thermae_worker_forged_total")?;
    let sent = attacker.publish("calls", &own, answer.as_bytes(), attacker.signed("acme")).await?;
    evidence.note("own_key", sent);
    evidence.note("victims_key", attacker.publish("calls", &key, answer.as_bytes(), attacker.signed("globex")).await?);
    if !site.lifted {
        let alternate = table(&[("alternate-exchange", "calls")]);
        let exchange = attacker.exchange(lapin::ExchangeKind::Topic, alternate).await?;
        attacker.publish(&exchange, &key, answer.as_bytes(), attacker.signed("globex")).await?;
        // After this, the worker has also seen the answer that came before it, under the attacker's own key.
        until("the worker's dropping it", async || Ok(site.worker.metric("thermae_worker_forged_total")? > before))
            .await?;
    }
    // With the guard off, the forged answer has arrived. With it on, the victim's own answer arrives now.
    if !site.lifted {
        gate.open();
    }
    evidence.note("got", soon("the victim's job", handle.result()).await??.stdout);
    gate.open();
    Ok(evidence)
}
