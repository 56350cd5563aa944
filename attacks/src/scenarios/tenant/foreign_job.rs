//! Jobs with the id or the idempotency key of another tenant's job.

use anyhow::Result;
use thermae_schemas::{Job, JobId};

use crate::evidence::Evidence;
use crate::fleet::broker::unique;
use crate::fleet::{Site, run, soon};

pub(super) const SHEET: &str = r#"
tries = "submits a job with the id, and one with the idempotency key, of another tenant's job that has ended, and uses a key before the victim does"
wins = "the victim's recorded outcome, or its own outcome in place of the victim's"
guard = "records and idempotency keys are kept by tenant"
control = {}
held = { by_id = "mine\n", by_key = "mine\n", occupied = "theirs\n" }
open = { by_id = "secret\n", by_key = "secret\n", occupied = "mine\n" }
"#;

fn job(id: Option<&str>, key: Option<&str>, word: &str) -> Result<Job> {
    let mut job = Job::python(format!("print({word:?})"));
    if let Some(id) = id {
        job.id = JobId::new(id)?;
    }
    job.idempotency_key = key.map(str::to_owned);
    Ok(job)
}

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    // With the guard off, the attacker is the victim. Its jobs are then the victim's own, submitted again.
    let attacker = if site.lifted { &site.globex } else { &site.acme };
    let same = |word: &'static str| if site.lifted { "secret" } else { word };
    let (id, key, taken) = (unique("id"), unique("key"), unique("taken"));
    let mut evidence = Evidence::default();
    soon("the victim's", run(&site.globex, job(Some(&id), None, "secret")?)).await??;
    soon("the victim's", run(&site.globex, job(None, Some(&key), "secret")?)).await??;
    let by_id = soon("by its id", run(attacker, job(Some(&id), None, same("mine"))?)).await??;
    evidence.note("by_id", by_id.stdout);
    let by_key = soon("by its key", run(attacker, job(None, Some(&key), same("mine"))?)).await??;
    evidence.note("by_key", by_key.stdout);
    soon("a key taken", run(attacker, job(None, Some(&taken), "mine")?)).await??;
    let word = if site.lifted { "mine" } else { "theirs" };
    let victims = soon("the victim's key", run(&site.globex, job(None, Some(&taken), word)?)).await??;
    evidence.note("occupied", victims.stdout);
    Ok(evidence)
}
