//! Many copies of one job, which all wait for its outcome.

use anyhow::Result;
use lapin::options::BasicPublishOptions;
use serde_json::json;
use thermae_schemas::Job;

use crate::evidence::Evidence;
use crate::fleet::Site;

pub(super) const SHEET: &str = r#"
tries = "submits a running job two thousand times more, half of them as other jobs with its idempotency key; each copy waits for the outcome"
wins = "all capacity for deciding about copies, so that nobody's lost jobs are decided"
guard = "a quota of waiting copies for each tenant; a copy that waits too long goes back to the queue"
uncontrolled = "the quota belongs to the scheduler and has no setting"
held = { served = 5 }
"#;

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let attacker = site.attacker().await?;
    let channel = attacker.channel().await?;
    let code = "import time\ntime.sleep(8)";
    let job = Job { idempotency_key: Some("followed".to_owned()), ..Job::python(code) };
    let handle = site.acme.submit(job, None).await?;
    let mut confirms = Vec::new();
    for n in 0..2000 {
        // Half of the messages are the same job, each for another client. Half are other jobs with its idempotency key.
        let id = if n % 2 == 0 { handle.id().to_string() } else { format!("{}-{n}", handle.id()) };
        let copy = json!({ "id": id, "code": code, "idempotency_key": "followed" }).to_string();
        let (to, key, options) = ("submit".into(), "acme.normal.default".into(), BasicPublishOptions::default());
        let said = attacker.signed("acme").with_message_id(id.as_str().into());
        let said = said.with_reply_to(format!("acme.other{n}").as_str().into());
        confirms.push(channel.basic_publish(to, key, options, copy.as_bytes(), said).await?);
    }
    for confirm in confirms {
        confirm.await?;
    }
    for _ in 0..5 {
        site.honest().await?;
    }
    crate::fleet::soon("its own job", handle.result()).await??;
    let mut evidence = Evidence::default();
    evidence.note("served", 5);
    Ok(evidence)
}
