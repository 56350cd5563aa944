//! Endless output.

use anyhow::Result;
use thermae_schemas::{Job, Stream};

use crate::evidence::Evidence;
use crate::fleet::{Site, load};

pub(super) const SHEET: &str = r#"
tries = "writes to both streams as fast as it can, a byte at a time and a megabyte at a time, in four jobs whose output the client follows"
wins = "the worker's memory and threads; a broker full of events"
guard = "a limit on output, which the runner checks as it reads the output; what waits to be sent is bounded"
uncontrolled = "a job can't ask for more output than its pool's ceiling, so there is no run without a limit"
slow = true
held = { memory = { max = 450 }, served = { min = 1 }, statuses = "output_limit output_limit output_limit output_limit" }
"#;

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let flood = |piece: &str| {
        let code = format!("import os\nwhile True:\n    os.write(1, {piece})\n    os.write(2, {piece})");
        Job { stream: vec![Stream::Output], ..Job::python(code) }
    };
    let jobs = ["b'x'", "b'\\n'", "b'\\xff' * 1048576", "b'\\x1b' * 65536"].map(flood).to_vec();
    let (mut evidence, outcomes) = load::under(site, jobs, None).await?;
    let statuses: Vec<_> = outcomes.iter().map(|outcome| outcome.status.as_str()).collect();
    evidence.note("statuses", statuses.join(" "));
    Ok(evidence)
}
