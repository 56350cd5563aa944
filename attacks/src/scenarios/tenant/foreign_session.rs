//! Jobs in another tenant's session, by its name.

use anyhow::Result;
use thermae_schemas::{Job, SessionName, SessionRequest};

use crate::evidence::Evidence;
use crate::fleet::broker::unique;
use crate::fleet::{Site, run, soon};

pub(super) const SHEET: &str = r#"
tries = "runs jobs in a session that has the name of another tenant's session, changes a variable there, and closes the session"
wins = "the variables of the victim's live session, and influence on its later jobs"
guard = "a session belongs to its tenant; for each tenant, the same name is another session"
control = {}
held = { read = "", victims = "secret\n" }
open = { read = "secret\n" }
"#;

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let session = SessionName::new(unique("shared"))?;
    let job = |code: &str, close: bool| {
        let mut job = Job::python(code);
        job.session = Some(SessionRequest { close, ..SessionRequest::new(session.clone()) });
        job
    };
    soon("the victim's session", run(&site.globex, job("word = 'secret'", false))).await??;
    // With the guard off, the attacker is the victim.
    let attacker = if site.lifted { &site.globex } else { &site.acme };
    let mut evidence = Evidence::default();
    let read = soon("a look", run(attacker, job("print(word)", false))).await??;
    evidence.note("read", read.stdout);
    soon("a change", run(attacker, job("word = 'changed'", false))).await??;
    soon("a close", run(attacker, job("", true))).await??;
    evidence
        .note("victims", soon("the victim's next job", run(&site.globex, job("print(word)", false))).await??.stdout);
    soon("the end", run(&site.globex, job("", true))).await??;
    Ok(evidence)
}
