//! Values that are small as JSON text and large in memory.

use anyhow::Result;
use thermae_schemas::Job;

use crate::evidence::Evidence;
use crate::fleet::{Site, load};

pub(super) const SHEET: &str = r#"
tries = "returns 14 MB of JSON that are two million objects, or JSON that is nested a million deep, in four jobs at once"
wins = "gigabytes of the worker's memory, its stack and its threads, which all tenants share"
guard = "the worker keeps a job's JSON as bytes, and counts its values and its depth before it keeps anything"
uncontrolled = "the bounds are part of reading JSON; the crate's own test shows what passes just below them"
held = { memory = { max = 450 }, served = { min = 1 }, ended = 4 }
"#;

const CODE: &str = "
class Bomb:
    def _repr_mimebundle_(self, **_): return {'application/json': [{'': 0} for _ in range(2_000_000)]}
Bomb()
";

const DEEP: &str = "
deep = []
for _ in range(1_000_000): deep = [deep]
class Deep:
    def _repr_mimebundle_(self, **_): return {'application/json': deep}
Deep()
";

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let jobs = [CODE, DEEP, CODE, CODE].map(Job::python).to_vec();
    let (mut evidence, outcomes) = load::under(site, jobs, None).await?;
    evidence.note("ended", outcomes.len());
    Ok(evidence)
}
