//! Displays that are small as JSON text and large in memory.

use anyhow::Result;
use thermae_schemas::{Job, Stream};

use crate::evidence::Evidence;
use crate::fleet::{Site, load};

pub(super) const SHEET: &str = r#"
tries = "displays and streams bundles of millions of small JSON values, again and again, in three jobs at once"
wins = "gigabytes of the worker's memory"
guard = "the worker keeps a job's JSON as bytes; what a job displays is bounded, and so are the frames that wait"
uncontrolled = "the bounds are part of reading JSON; the crate's own test shows what passes just below them"
held = { memory = { max = 450 }, served = { min = 1 }, ended = 3 }
"#;

const CODE: &str = "
for size in (2_000_000, 400_000, 400_000, 2_000_000, 100_000):
    display({'application/json': [{'': 0} for _ in range(size)]}, raw=True)
";

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let job = || Job { stream: vec![Stream::Display], ..Job::python(CODE) };
    let (mut evidence, outcomes) = load::under(site, vec![job(), job(), job()], None).await?;
    evidence.note("ended", outcomes.len());
    Ok(evidence)
}
