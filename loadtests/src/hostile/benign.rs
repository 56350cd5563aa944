//! The benign tenant: honest jobs that burn processor time, always with more of them in flight than it has slots.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use thermae_fleet::Fleet;
use thermae_schemas::Job;
use tokio::task::JoinSet;

/// More than the slots of a worker with shipped defaults on the machines that run this test.
const IN_FLIGHT: usize = 16;

const BURN: &str = "import time\nend = time.monotonic() + 0.5\nwhile time.monotonic() < end: pass";

/// Keeps [`IN_FLIGHT`] jobs in flight for `time`. Counts no means, so the result is empty.
pub(super) async fn run(url: &str, time: Duration) -> Result<BTreeMap<&'static str, u64>> {
    let fleet = Fleet::connect(url).await?;
    let mut tasks = JoinSet::new();
    for _ in 0..IN_FLIGHT {
        let client = fleet.client().clone();
        tasks.spawn(tokio::time::timeout(time, async move {
            loop {
                if let Ok(handle) = client.submit(Job::python(BURN), None).await {
                    let _ = handle.result().await;
                }
            }
        }));
    }
    while tasks.join_next().await.is_some() {}
    Ok(BTreeMap::new())
}
