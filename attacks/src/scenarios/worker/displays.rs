//! Countless displays.

use anyhow::Result;
use thermae_schemas::{Job, Stream};

use crate::evidence::Evidence;
use crate::fleet::{Site, load};

pub(super) const SHEET: &str = r#"
tries = "displays and streams ten thousand values in each of three jobs"
wins = "the worker's memory, and messages without number in the broker"
guard = "the pool's `bounds.displays`: further displays are left out, and a note in the outcome says how many"
control = {}
held = { most = { max = 1001 }, memory = { max = 450 }, served = { min = 1 } }
open = { most = { min = 5000 } }
"#;

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let job = || Job { stream: vec![Stream::Display], ..Job::python("for n in range(10_000): display(n)") };
    let (mut evidence, outcomes) = load::under(site, vec![job(), job(), job()], None).await?;
    evidence.note("most", outcomes.iter().map(|outcome| outcome.displays.len()).max());
    Ok(evidence)
}
