//! Answers to tool calls that nobody reads.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use thermae_schemas::{Job, LimitRequest, ToolSpec};

use crate::evidence::Evidence;
use crate::fleet::{Site, soon, within};
use crate::tools::{LARGE, Tools};

pub(super) const SHEET: &str = r#"
tries = "calls a tool a hundred and fifty times at once in each of two jobs, gets a megabyte for each call, and reads no answer"
wins = "the worker's memory, in which the answers wait"
guard = "answers that runs have not read take only so much of the worker's memory (`answers.run_memory`, `answers.tenant_memory`, `answers.memory`); further ones are on its disk, bounded as well"
control = {}
held = { memory = { max = 220 } }
open = { memory = { min = 280 } }
slow = true
"#;

/// Calls of each job.
const EACH: usize = 150;

/// Longer than the answers take to come.
const LONG: Duration = Duration::from_secs(60);

/// Makes all calls, and then does nothing but keep its thread.
const CODE: &str = "
import asyncio, time
tasks = [asyncio.ensure_future(large()) for _ in range(150)]
await asyncio.sleep(0)
time.sleep(50)
";

/// Calls whose answers have come, or were dropped.
const ANSWERED: &str = "thermae_worker_tool_call_seconds_count";

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let spec: ToolSpec = serde_json::from_value(json!({ "name": LARGE }))?;
    let limits = LimitRequest { wall_ms: Some(60_000), ..LimitRequest::default() };
    let (before, answered) = (site.worker.begin_memory()?, site.worker.metric(ANSWERED)?);
    let mut handles = Vec::new();
    for _ in 0..2 {
        let job = Job { tools: vec![spec.clone()], limits: limits.clone(), ..Job::python(CODE) };
        handles.push(soon("a submit", site.acme.submit(job, Some(Arc::new(Tools::default())))).await??);
    }
    within(LONG, "all answers", async {
        while site.worker.metric(ANSWERED)? - answered < (2 * EACH) as f64 {
            site.honest().await?;
        }
        Ok::<_, anyhow::Error>(())
    })
    .await??;
    let mut evidence = Evidence::default();
    evidence.note("memory", site.worker.largest_memory()?.saturating_sub(before));
    for handle in handles {
        soon("a cancel", handle.cancel()).await??;
        soon("the end of a job", handle.result()).await??;
    }
    Ok(evidence)
}
