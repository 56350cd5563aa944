//! Things shown without end.

use anyhow::Result;
use thermae_schemas::{Job, Stream};

use crate::evidence::Evidence;
use crate::fleet::{Site, load};

pub(super) const SHEET: &str = r#"
tries = "shows ten thousand things in each of three jobs, streamed"
wins = "the worker's memory, and messages without number in the broker"
guard = "bounds.displays of the pool: what is more is left out, and a note in the outcome says how many"
control = {}
held = { most = { max = 1001 }, memory = { max = 450 }, slowest = { max = 10 } }
open = { most = { min = 5000 } }
"#;

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let job = || Job { stream: vec![Stream::Display], ..Job::python("for n in range(10_000): display(n)") };
    let (mut evidence, outcomes) = load::under(site, vec![job(), job(), job()], None).await?;
    evidence.note("most", outcomes.iter().map(|outcome| outcome.displays.len()).max());
    Ok(evidence)
}
