//! Countless tool calls that nobody answers.

use anyhow::Result;
use serde_json::json;
use thermae_schemas::{Job, LimitRequest, ToolSpec};

use crate::evidence::Evidence;
use crate::fleet::{Site, load};
use crate::tools::GATE;

pub(super) const SHEET: &str = r#"
tries = "makes twenty thousand calls of 4 KB at once in each of two jobs, all of which wait for their answers"
wins = "the worker's memory, in which each call waits; messages without number in the broker"
guard = "the pool's `bounds.tool_calls` and `bounds.tool_argument_bytes`: further calls raise `ToolError`"
uncontrolled = "how many calls are made depends on the machine; the worker's own tests check the exact bounds"
held = { ended = 2, memory = { max = 450 }, served = { min = 1 } }
slow = true
"#;

const CODE: &str = "
import asyncio
async def call():
    try:
        await gate(x='x' * 4096)
    except ToolError:
        pass
tasks = [asyncio.ensure_future(call()) for _ in range(20_000)]
await asyncio.wait(tasks, timeout=6)
for task in tasks: task.cancel()
";

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let spec: ToolSpec = serde_json::from_value(json!({ "name": GATE }))?;
    let limits = LimitRequest { wall_ms: Some(20_000), ..LimitRequest::default() };
    let job = || Job { tools: vec![spec.clone()], limits: limits.clone(), ..Job::python(CODE) };
    let tools: std::sync::Arc<crate::tools::Tools> = std::sync::Arc::default();
    let (mut evidence, outcomes) = load::under(site, vec![job(), job()], Some(tools.clone())).await?;
    tools.open();
    evidence.note("ended", outcomes.len());
    Ok(evidence)
}
