//! Large outcomes, which fill Redis.

use std::io::{Read, Write};
use std::net::TcpStream;

use anyhow::{Context, Result};
use thermae_schemas::Job;

use crate::evidence::Evidence;
use crate::fleet::{Site, load};

pub(super) const SHEET: &str = r#"
tries = "ends ten jobs with outcomes of several megabytes, which Redis keeps for clients that ask again"
wins = "Redis's memory, without which nobody's jobs are admitted and others' outcomes are not kept"
guard = "`tenant_outcome_bytes`: outcomes beyond it are sent once and not kept"
control = {}
held = { kept = { max = 16 }, served = { min = 1 }, memory = { max = 450 } }
open = { kept = { min = 30 } }
"#;

/// Memory that Redis uses, in MiB.
fn memory(url: &str) -> Result<u64> {
    let place = url.trim_start_matches("redis://").trim_end_matches('/');
    let mut stream = TcpStream::connect(place).context("connect to Redis")?;
    stream.write_all(b"INFO memory\r\nQUIT\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let used = answer.lines().find_map(|line| line.strip_prefix("used_memory:")).context("no memory in the answer")?;
    Ok(used.trim().parse::<u64>()? >> 20)
}

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let before = memory(site.redis())?;
    let code = "
import base64, os
for _ in range(4): display({'text/plain': base64.b64encode(os.urandom(1_200_000)).decode()}, raw=True)
";
    let mut evidence = Evidence::default();
    for _ in 0..5 {
        let (found, _) = load::under(site, vec![Job::python(code), Job::python(code)], None).await?;
        evidence = found;
    }
    evidence.note("kept", memory(site.redis())?.saturating_sub(before));
    Ok(evidence)
}
