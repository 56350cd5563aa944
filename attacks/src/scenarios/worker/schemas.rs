//! Input schemas that are made to harm the process that checks them.

use std::sync::Arc;

use anyhow::Result;
use serde_json::{Value, json};
use thermae_schemas::{Job, ToolSpec};

use crate::evidence::Evidence;
use crate::fleet::{Site, load};
use crate::tools::Tools;

pub(super) const SHEET: &str = r#"
tries = "submits jobs whose tools have input schemas that lead in circles, double with each level, are a hundred levels deep, hold patterns of a gigabyte, thousands of patterns of megabytes, or ones that go back again and again, or point to files and to addresses"
wins = "the threads and memory of the scheduler and the worker, which all tenants share; a file of the worker"
guard = "each check of arguments has a budget; schemas are compiled without files or a network; patterns run in linear time or with a bounded number of steps back, and in bounded memory for each job"
uncontrolled = "the bounds are part of reading schemas"
held = { memory = { max = 450 }, served = { min = 1 }, ended = 10 }
"#;

fn schemas() -> [Value; 10] {
    let deep = (0..100).fold(json!({}), |inner, _| json!({ "properties": { "x": inner } }));
    let doubled: serde_json::Map<String, Value> = (0..40)
        .map(|n| (format!("d{n}"), json!({ "allOf": [{ "$ref": format!("#/$defs/d{}", n + 1) }, { "$ref": format!("#/$defs/d{}", n + 1) }] })))
        .chain([("d40".to_owned(), json!({}))])
        .collect();
    let many: serde_json::Map<String, Value> =
        (0..2000).map(|n| (format!("x{n}"), json!({ "pattern": format!(r"^\p{{L}}{{100}}{n}") }))).collect();
    [
        json!({ "properties": many }),
        json!({ "$ref": "#" }),
        json!({ "allOf": [{ "$ref": "#" }, { "$ref": "#" }] }),
        json!({ "properties": { "x": { "pattern": "((a{1,1000}){1,1000}){1,1000}" } } }),
        json!({ "properties": { "x": { "pattern": "^(a+)+$" } } }),
        json!({ "properties": { "x": { "pattern": "^(?=(a+)+$)(a+)+$" } } }),
        json!({ "$ref": "file:///etc/passwd" }),
        json!({ "$ref": "http://127.0.0.1:1/schema" }),
        json!({ "$defs": doubled, "$ref": "#/$defs/d0" }),
        deep,
    ]
}

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let code = "
nested = 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!'
for x in (nested, [[nested] * 100] * 100, {'x': nested}):
    try:
        await look(x=x)
    except ToolError:
        pass
";
    let mut jobs = Vec::new();
    for schema in schemas() {
        let spec: ToolSpec = serde_json::from_value(json!({ "name": "look", "input_schema": schema }))?;
        jobs.push(Job { tools: vec![spec], ..Job::python(code) });
    }
    let tools: Arc<Tools> = Arc::default();
    let (mut evidence, outcomes) = load::under(site, jobs, Some(tools)).await?;
    evidence.note("ended", outcomes.len());
    Ok(evidence)
}
