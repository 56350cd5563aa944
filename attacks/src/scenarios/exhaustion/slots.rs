//! Jobs that take all slots of the fleet.

use anyhow::Result;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use thermae_client::Events;
use thermae_schemas::{EventBody, Job, LimitRequest, Stream};

use crate::evidence::Evidence;
use crate::fleet::Site;

pub(super) const SHEET: &str = r#"
tries = "submits more jobs than the fleet has slots, and each job sleeps for longer than others can wait"
wins = "no slot for anybody else"
guard = "the tenant's `max_in_flight`; the slots that each tenant leaves to the others (`reserve`)"
control = {}
held = { served = true }
open = { served = false }
"#;

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let mut handles = Vec::new();
    let mut starts = FuturesUnordered::new();
    for _ in 0..8 {
        let limits = LimitRequest { wall_ms: Some(300_000), ..LimitRequest::default() };
        let job = Job { stream: vec![Stream::Lifecycle], limits, ..Job::python("import time\ntime.sleep(290)") };
        let mut handle = site.acme.submit(job, None).await?;
        starts.push(started(handle.events()));
        handles.push(handle);
    }
    // Wait until the jobs have all the slots that they get: two with the guard on, one more with the guard off. The
    // first job may have to wait for messages that earlier attacks moved.
    for _ in 0..2 {
        crate::fleet::soon("a job starts", starts.next()).await?;
    }
    if site.lifted {
        crate::fleet::soon("one more job starts", starts.next()).await?;
    }
    let served = tokio::time::timeout(site.patience(), site.honest()).await;
    for handle in &handles {
        handle.cancel().await?;
    }
    for handle in &handles {
        crate::fleet::soon("a cancelled job", handle.result()).await??;
    }
    let mut evidence = Evidence::default();
    evidence.note("served", matches!(served, Ok(Ok(_))));
    Ok(evidence)
}

async fn started(mut events: Events) {
    while let Some(event) = events.next().await {
        if matches!(event.body, EventBody::Started { .. }) {
            break;
        }
    }
}
