//! Decisions about calls that wait for approval, by callers who may not decide.

use anyhow::Result;
use serde_json::json;

use crate::evidence::Evidence;
use crate::fleet::Site;
use crate::fleet::asking::Asking;
use crate::fleet::keyed::{ALL, EVERY};

pub(super) const SHEET: &str = r#"
tries = "has a key of a tenant that may approve, and knows all ids of another tenant's run and of its call that waits for approval: decides about the call over HTTP and over an SDK's connection, also as if it were a call of its own run; has a key that submits and may not approve: decides about a call of its own run, and answers the call instead"
wins = "a call that nobody approved who may"
guard = "decisions need the scope `approve`, and are sent as the key's tenant; the worker takes them only for a call of that tenant and of that run, and a call that waits for approval takes no answer"
control = {}
held = { foreign = "unknown_run", foreign_sdk = "unknown_call", foreign_call = "approval_over", own = "missing_scope", own_sdk = "missing_scope", answer = "unknown_call", victims = "approval_denied\n", mine = "approval_denied\n" }
open = { own = "200", mine = "made\n" }
"#;

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let gateway = site.deciding().await?;
    let submits = gateway.holder("acme", if site.lifted { EVERY } else { ALL })?;
    let mine = Asking::begin(&site.acme).await?;
    let (yes, mut evidence) = (json!({ "decision": "approve" }).to_string(), Evidence::default());
    if !site.lifted {
        let victims = Asking::begin(&site.globex).await?;
        let decides = gateway.holder("acme", EVERY)?;
        let (run, asked) = (victims.run.id(), &victims.asked);
        evidence.note("foreign", decides.ask("POST", &victims.path(), &yes).await?.code());
        let as_mine = format!("/v1/runs/{}/calls/{}/decision", mine.run.id(), asked.call);
        evidence.note("foreign_call", decides.ask("POST", &as_mine, &yes).await?.code());
        let decide = json!({ "type": "decide", "id": 1, "job": run, "call": asked.call, "reply_to": asked.reply_to });
        evidence.note("foreign_sdk", decides.sdk().await?.asked(&decide, yes.as_bytes()).await?.code());
        evidence.note("victims", victims.end(site).await?);

        let (run, asked) = (mine.run.id(), &mine.asked);
        let decide = json!({ "type": "decide", "id": 1, "job": run, "call": asked.call, "reply_to": asked.reply_to });
        evidence.note("own_sdk", submits.sdk().await?.asked(&decide, yes.as_bytes()).await?.code());
        let answer = format!("/v1/runs/{run}/calls/{}", asked.call);
        evidence.note("answer", submits.ask("POST", &answer, &json!({ "ok": "made" }).to_string()).await?.code());
    }
    evidence.note("own", submits.ask("POST", &mine.path(), &yes).await?.code());
    evidence.note("mine", mine.end(site).await?);
    Ok(evidence)
}
