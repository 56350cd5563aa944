//! Tool arguments that are small as JSON text and large in memory.

use std::sync::Arc;

use anyhow::Result;
use serde_json::json;
use thermae_schemas::{Job, ToolSpec};

use crate::evidence::Evidence;
use crate::fleet::{Site, load};
use crate::tools::Tools;

pub(super) const SHEET: &str = r#"
tries = "calls a tool with 5 MB of small JSON values, again and again, in two jobs, and goes on after each refusal"
wins = "gigabytes of the worker's memory"
guard = "the worker keeps a job's JSON as bytes; the number of values in arguments is bounded, for each call and for all calls together"
uncontrolled = "the bounds are part of reading JSON; the crate's own test shows what passes just below them"
held = { memory = { max = 450 }, served = { min = 1 }, statuses = "succeeded succeeded", calls = 0 }
"#;

const CODE: &str = "
values = [{'': 0}] * 700_000
for _ in range(6):
    try:
        await look(x=values)
    except ToolError:
        pass
";

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let tools: Arc<Tools> = Arc::default();
    let spec: ToolSpec = serde_json::from_value(json!({ "name": "look" }))?;
    let job = || Job { tools: vec![spec.clone()], ..Job::python(CODE) };
    let (mut evidence, outcomes) = load::under(site, vec![job(), job()], Some(tools.clone())).await?;
    let statuses: Vec<_> = outcomes.iter().map(|outcome| outcome.status.as_str()).collect();
    evidence.note("statuses", statuses.join(" "));
    evidence.note("calls", tools.calls());
    Ok(evidence)
}
