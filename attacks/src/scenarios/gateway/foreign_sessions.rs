//! Another tenant's session, by its name.

use anyhow::Result;
use serde_json::json;
use thermae_schemas::{Job, SessionName, SessionRequest};

use crate::evidence::Evidence;
use crate::fleet::broker::unique;
use crate::fleet::{Site, run, soon};

pub(super) const SHEET: &str = r#"
tries = "knows the name of another tenant's live session: lists sessions, runs a command in it, reads, writes and removes its files, closes it"
wins = "the victim's files, and influence on its session"
guard = "requests name the tenant of the gateway; a session of the same name is another session"
control = {}
held = { listed = false, exec = "session_lost", read = "session_lost", write = "session_lost", remove = "session_lost", close = "session_lost", victims = "secret\n" }
open = { listed = true, exec = "200", read = "200", write = "200", victims = "stolen\n" }
"#;

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let gateway = site.gateway().await?;
    let name = unique("victims");
    let job = |code: &str, close: bool| -> Result<Job> {
        let session = SessionRequest { close, ..SessionRequest::new(SessionName::new(name.clone())?) };
        Ok(Job { session: Some(session), ..Job::python(code) })
    };
    soon("the session", run(&site.globex, job("open('secret', 'w').write('secret\\n')", false)?)).await??;
    let mut evidence = Evidence::default();
    // Workers report their sessions with their heartbeats.
    let listed = async || anyhow::Ok(gateway.ask("GET", "/v1/sessions", "").await?.body.contains(&name));
    if site.lifted {
        crate::fleet::until("the session among the victim's", async || listed().await).await?;
    }
    evidence.note("listed", listed().await?);
    let path = format!("/v1/sessions/{name}");
    let command = json!({ "shell": "cat secret" }).to_string();
    let mut tries = vec![
        ("exec", "POST", "/exec", command.as_str()),
        ("read", "GET", "/files/secret", ""),
        ("write", "PUT", "/files/secret", "stolen\n"),
    ];
    if !site.lifted {
        tries.push(("remove", "DELETE", "/files/secret", ""));
        tries.push(("close", "DELETE", "", ""));
    }
    for (name, method, rest, body) in tries {
        evidence.note(name, gateway.ask(method, &format!("{path}{rest}"), body).await?.code());
    }
    let victims =
        soon("the victim's look", run(&site.globex, job("print(open('secret').read(), end='')", true)?)).await??;
    evidence.note("victims", victims.stdout);
    Ok(evidence)
}
