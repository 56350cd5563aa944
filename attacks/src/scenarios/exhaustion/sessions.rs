//! Sessions that take all of a worker's places for sessions.

use anyhow::Result;
use thermae_schemas::{Job, SessionName, SessionRequest, Status};

use crate::evidence::Evidence;
use crate::fleet::broker::unique;
use crate::fleet::{Site, run, soon};

pub(super) const SHEET: &str = r#"
tries = "opens more sessions than the worker holds, and leaves them idle"
wins = "no session for anybody else"
guard = "`max_sessions_per_tenant`; only a session of the same tenant that was unused for `session_min_idle` makes room for a further one"
control = {}
held = { most = { max = 2 }, first = "succeeded", other = "succeeded" }
open = { most = 4, first = "session_evicted" }
"#;

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let name = unique("s");
    let job = |n: usize, close: bool| -> Result<Job> {
        let session = SessionRequest { close, ..SessionRequest::new(SessionName::new(format!("{name}-{n}"))?) };
        Ok(Job { session: Some(session), ..Job::python("pass") })
    };
    let (mut evidence, mut most) = (Evidence::default(), 0);
    for n in 0..8 {
        let outcome = tokio::time::timeout(std::time::Duration::from_secs(5), run(&site.acme, job(n, false)?)).await;
        if outcome.is_err() {
            break;
        }
    }
    crate::fleet::until("a heartbeat", async || {
        most = site.acme.sessions(std::time::Duration::from_secs(10)).await?.len();
        Ok(most > 0)
    })
    .await?;
    evidence.note("most", most);
    let first = soon("the first session", run(&site.acme, job(0, false)?)).await??;
    evidence.note("first", first.error.map_or(first.status.as_str(), |error| error.code.as_str()));
    if !site.lifted {
        let other = soon("another tenant's session", run(&site.globex, job(0, false)?)).await??;
        evidence.note("other", other.status.as_str());
        soon("its end", run(&site.globex, job(0, true)?)).await??;
        debug_assert_eq!(other.status, Status::Succeeded);
    }
    for session in site.acme.sessions(std::time::Duration::from_secs(10)).await? {
        let close = SessionRequest { close: true, ..SessionRequest::new(session.id) };
        soon("an end", run(&site.acme, Job { session: Some(close), ..Job::python("") })).await??;
    }
    Ok(evidence)
}
