//! Programs of sessions that heed no interrupt.

use std::time::Duration;

use anyhow::Result;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use thermae_schemas::{EventBody, Job, LimitRequest, SessionName, SessionRequest, Stream};

use crate::evidence::Evidence;
use crate::fleet::broker::unique;
use crate::fleet::{Site, run, soon, within};

pub(super) const SHEET: &str = r#"
tries = "fills the slots with sessions whose programs ignore every interrupt, and cancels them"
wins = "slots that a cancel does not free"
guard = "the pool's `limits.grace`: a session whose code does not end after its interrupt is killed with it"
control = {}
held = { freed = true }
open = { freed = false }
"#;

/// Ends by itself only so late that the next job can't have waited for that.
const DEAF: &str = "
import time
end = time.monotonic() + LASTS
while time.monotonic() < end:
    try:
        print('on', flush=True)
        time.sleep(LASTS)
    except KeyboardInterrupt:
        pass
";

/// Longer than the program takes to end with the guards off.
const LONG: Duration = Duration::from_secs(150);

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let name = unique("deaf");
    let session = |n: usize, close: bool| -> Result<Option<SessionRequest>> {
        Ok(Some(SessionRequest { close, ..SessionRequest::new(SessionName::new(format!("{name}-{n}"))?) }))
    };
    let code = DEAF.replace("LASTS", if site.lifted { "60" } else { "290" });
    let limits = LimitRequest { wall_ms: Some(300_000), ..LimitRequest::default() };
    let (mut handles, mut deaf) = (Vec::new(), FuturesUnordered::new());
    for n in 0..3 {
        let session = session(n, false)?;
        let job = Job { session, stream: vec![Stream::Output], limits: limits.clone(), ..Job::python(code.as_str()) };
        let mut handle = site.acme.submit(job, None).await?;
        let mut events = handle.events();
        deaf.push(async move {
            while let Some(event) = events.next().await {
                if matches!(event.body, EventBody::Stdout { .. }) {
                    break;
                }
            }
        });
        handles.push(handle);
    }
    // With the guard on, the tenant has no more slots than two.
    for _ in 0..if site.lifted { 3 } else { 2 } {
        soon("a session's program runs", deaf.next()).await?;
    }
    for handle in &handles {
        handle.cancel().await?;
    }
    let next = tokio::time::timeout(site.patience(), run(&site.acme, Job::python("pass"))).await;
    for handle in &handles {
        within(LONG, "a cancelled job", handle.result()).await??;
    }
    if site.lifted {
        for n in 0..handles.len() {
            soon("an end", run(&site.acme, Job { session: session(n, true)?, ..Job::python("") })).await??;
        }
    }
    let mut evidence = Evidence::default();
    evidence.note("freed", matches!(next, Ok(Ok(_))));
    Ok(evidence)
}
