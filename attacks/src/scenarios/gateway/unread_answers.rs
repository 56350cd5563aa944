//! Answers that nobody reads.

use anyhow::{Result, ensure};
use futures::future::join_all;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::evidence::Evidence;
use crate::fleet::broker::unique;
use crate::fleet::gateway::Gateway;
use crate::fleet::{Site, soon, until};

pub(super) const SHEET: &str = r#"
tries = "asks sixty times for a run whose outcome has six megabytes, follows a batch with such an outcome sixty times, and reads none of the answers"
wins = "the gateway's memory, which no bound of bytes counts once an answer is made"
guard = "an answer counts among the bytes that its tenant and all callers may hold until the last of it is written; a stream waits until there is room for its next line"
control = {}
held = { memory = { max = 450 }, served = 1 }
open = { grown = true }
"#;

/// Readers of each kind.
const READERS: usize = 60;

/// Growth of the gateway that shows that the guard is off, in MiB.
const GROWN: u64 = 600;

const CODE: &str = "
import base64, os
for _ in range(4): display({'text/plain': base64.b64encode(os.urandom(1_200_000)).decode()}, raw=True)
";

/// Asks for what is at the path, and reads no more than the status of the answer.
async fn ask(reader: &Gateway, path: &str) -> Result<TcpStream> {
    let mut stream = reader.connect_narrow().await?;
    let head = format!("GET {path} HTTP/1.1\r\nHost: gateway\r\n{}\r\n", reader.headers());
    stream.write_all(head.as_bytes()).await?;
    let mut status = [0; 12];
    soon("an answer begins", stream.read_exact(&mut status)).await??;
    Ok(stream)
}

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let gateway = site.keyed().await?;
    let (reader, other) = (gateway.holder("acme", "run,read")?, gateway.holder("globex", "run,read")?);
    let (run, batch) = (unique("large"), unique("large"));
    let job = json!({ "id": run, "code": CODE }).to_string();
    let told = reader.ask("POST", "/v1/runs?wait=60s", &job).await?;
    ensure!(told.body.len() > 6_000_000, "{} {}", told.status, told.body.len());
    let jobs = json!({ "id": batch, "jobs": [{ "code": CODE }] }).to_string();
    let told = reader.ask("POST", "/v1/batches?wait=60s", &jobs).await?;
    ensure!(told.status == 200, "{told:?}");
    let before = gateway.process().begin_memory()?;
    let grown = || anyhow::Ok(gateway.process().largest_memory()?.saturating_sub(before));
    let (run, batch) = (format!("/v1/runs/{run}"), format!("/v1/batches/{batch}/results"));
    let asked = (0..2 * READERS).map(|n| ask(&reader, if n.is_multiple_of(2) { &run } else { &batch }));
    let streams = join_all(asked).await.into_iter().collect::<Result<Vec<_>>>()?;
    let mut evidence = Evidence::default();
    if site.lifted {
        until("the gateway grows", async || Ok(grown()? >= GROWN)).await?;
        evidence.note("grown", true);
    } else {
        other.honest().await?;
        evidence.note("served", 1);
        evidence.note("memory", grown()?);
    }
    drop(streams);
    Ok(evidence)
}
