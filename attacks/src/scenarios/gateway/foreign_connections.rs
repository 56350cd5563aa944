//! Another tenant's run and session, over an SDK's connection.

use anyhow::Result;
use serde_json::{Value, json};
use thermae_schemas::{Job, SessionName, SessionRequest};

use crate::evidence::Evidence;
use crate::fleet::broker::unique;
use crate::fleet::keyed::ALL;
use crate::fleet::waiting::Waiting;
use crate::fleet::{Site, run, soon};

pub(super) const SHEET: &str = r#"
tries = "has a key of one tenant, and knows all ids of another one's run, waiting call and session: over an SDK's connection, asks for the run, attaches to it, answers its call, submits another job under its id, cancels it, runs a command in the session and reads its file"
wins = "the victim's output and files, influence on its tool calls, its outcome and its session"
guard = "an SDK's connection is its key's tenant, whose name is part of every key in the fleet; ids give no access"
control = {}
held = { info = "unknown", attach = "unknown_run", answer = "unknown_call", exec = "session_lost", read = "session_lost", listed = false, submit = "mine\n", victims = "own\n", session = "secret\n" }
open = { info = { any = ["running", "waiting", "paused"] }, answer = "done", exec = "secret\n", read = "secret\n", victims = "stolen\n", session = "secret\n" }
"#;

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let gateway = site.keyed().await?;
    let mut sdk = gateway.holder(if site.lifted { "globex" } else { "acme" }, ALL)?.sdk().await?;
    let name = unique("victims");
    let in_session = |code: &str, close: bool| -> Result<Job> {
        let session = SessionRequest { close, ..SessionRequest::new(SessionName::new(name.clone())?) };
        Ok(Job { session: Some(session), ..Job::python(code) })
    };
    let begins = in_session("open('secret', 'w').write('secret\\n')", false)?;
    soon("the session", run(&site.globex, begins)).await??;
    let victims = Waiting::begin(site).await?;
    let job = victims.run.id().clone();

    let mut evidence = Evidence::default();
    let info = json!({ "type": "run_info", "id": 1, "job": job });
    evidence.note("info", sdk.asked(&info, b"").await?.json()["state"].clone());
    if !site.lifted {
        // The victim itself would take the run from its other client.
        let attach = json!({ "type": "attach", "id": 2, "window": 65536, "job": job });
        evidence.note("attach", sdk.asked(&attach, b"").await?.code());
    }
    let call = &victims.call;
    let answer = json!({ "type": "answer", "id": 3, "call": call.call, "reply_to": call.reply_to });
    evidence.note("answer", sdk.asked(&answer, br#"{"ok": "stolen"}"#).await?.code());
    let requests = [
        ("exec", json!({ "exec": { "shell": "cat secret" } })),
        ("read", json!({ "file": { "op": "read", "path": "secret" } })),
    ];
    for (id, (what, mut request)) in (4..).zip(requests) {
        request["session"] = json!(name);
        let header = json!({ "type": "request", "id": id, "window": 1 << 20 });
        let mut told = sdk.asked(&header, request.to_string().as_bytes()).await?;
        let mut output = String::new();
        while told.header["type"] == "output" {
            output.push_str(&String::from_utf8_lossy(&told.payload));
            let Some(next) = sdk.hear().await? else { break };
            told = next;
        }
        let refused = told.json()["error"]["code"].clone();
        evidence.note(what, if refused.is_null() { Value::from(output) } else { refused });
    }
    if !site.lifted {
        let listed = sdk.asked(&json!({ "type": "sessions", "id": 6 }), b"").await?;
        evidence.note("listed", String::from_utf8_lossy(&listed.payload).contains(&name));
        let mine = json!({ "id": job, "code": "print('mine')" }).to_string();
        let result = sdk.asked(&json!({ "type": "run", "id": 7, "window": 65536 }), mine.as_bytes()).await?;
        evidence.note("submit", result.json()["stdout"].clone());
        // A cancel succeeds whatever it cancels. That the victim's run goes on shows that it had no effect.
        sdk.say(&json!({ "type": "cancel_run", "id": 8, "job": job }), b"").await?;
        while sdk.hear().await?.is_some_and(|heard| heard.header["id"] != 8) {}
    }
    evidence.note("victims", victims.end().await?);
    let left = in_session("print(open('secret').read(), end='')", true)?;
    evidence.note("session", soon("the victim's look", run(&site.globex, left)).await??.stdout);
    Ok(evidence)
}
