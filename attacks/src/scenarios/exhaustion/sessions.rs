//! Sessions that take all of a worker's places for sessions.

use anyhow::Result;
use thermae_schemas::{Job, Outcome, SessionName, SessionRequest};

use crate::evidence::Evidence;
use crate::fleet::broker::unique;
use crate::fleet::{Site, run, soon};

pub(super) const SHEET: &str = r#"
tries = "opens more sessions than the worker holds, and leaves them idle"
wins = "no session for anybody else"
guard = "`max_sessions_per_tenant`; only a session of the same tenant that was unused for `session_min_idle` makes room for a further one"
control = {}
held = { opened = 2, refused = "session_limit", first = "succeeded", other = "succeeded" }
open = { opened = 8, first = "session_evicted" }
"#;

/// Twice as many as the worker holds.
const SESSIONS: usize = 8;

/// How a job of a session ended: its error, or its status.
fn end(outcome: Outcome) -> String {
    outcome.error.map_or(outcome.status.as_str(), |error| error.code.as_str()).to_owned()
}

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let name = unique("s");
    let job = |n: usize, close: bool| -> Result<Job> {
        let session = SessionRequest { close, ..SessionRequest::new(SessionName::new(format!("{name}-{n}"))?) };
        Ok(Job { session: Some(session), ..Job::python("pass") })
    };
    let (mut evidence, mut opened) = (Evidence::default(), 0);
    for n in 0..SESSIONS {
        match end(soon("a session", run(&site.acme, job(n, false)?)).await??).as_str() {
            "succeeded" => opened += 1,
            refused => evidence.note("refused", refused),
        }
    }
    evidence.note("opened", opened);
    evidence.note("first", end(soon("the first session", run(&site.acme, job(0, false)?)).await??));
    if !site.lifted {
        let other = soon("another tenant's session", run(&site.globex, job(0, false)?)).await??;
        evidence.note("other", end(other));
        soon("its end", run(&site.globex, job(0, true)?)).await??;
    }
    for n in 0..SESSIONS {
        soon("an end", run(&site.acme, job(n, true)?)).await??;
    }
    Ok(evidence)
}
