//! Batches that are much more in memory than as text.

use anyhow::Result;
use futures::future::join_all;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::evidence::Evidence;
use crate::fleet::gateway::Gateway;
use crate::fleet::{Site, soon};

pub(super) const SHEET: &str = r#"
tries = "sends a batch of 15 MiB on each of forty-four connections, without its last byte, and then all last bytes at once: half of the batches have millions of numbers, and half are lists in lists"
wins = "the gateway's memory: values take many times the bytes of their text"
guard = "what has come of a body counts among the bytes that its tenant and all callers may hold; jobs of a batch are read one after the other, and what is made of them is counted before it is made"
slow = true
control = {}
held = { memory = { max = 450 }, served = { min = 1 } }
open = { memory = { min = 600 } }
"#;

const CONNECTIONS: usize = 44;
const BATCH: usize = 15 << 20;
/// Less than a job may have.
const JOB: usize = 900 << 10;

/// A batch of this many bytes. Its jobs have these texts as the value of an input. The last job is none, so that nothing
/// of the batch is submitted.
fn batch(value: &str) -> String {
    let job = format!(r#"{{"code":"","inputs":{{"x":{{"value":{value}}}}}}},"#);
    let mut text = r#"{"jobs":["#.to_owned();
    while text.len() + job.len() < BATCH {
        text.push_str(&job);
    }
    text.push_str(&" ".repeat(BATCH - text.len()));
    text + "0]}"
}

/// Sends a batch without its last byte, as far as the gateway takes it.
async fn most_of(holder: &Gateway, batch: &str) -> Result<TcpStream> {
    let mut stream = holder.connect().await?;
    let length = batch.len();
    let head = format!("POST /v1/batches HTTP/1.0\r\n{}Content-Length: {length}\r\n\r\n", holder.headers());
    stream.write_all(head.as_bytes()).await?;
    // The gateway may refuse it meanwhile.
    let _ = stream.write_all(&batch.as_bytes()[..length - 1]).await;
    Ok(stream)
}

async fn last_of(mut stream: TcpStream, batch: &str) -> Result<()> {
    let _ = stream.write_all(&batch.as_bytes()[batch.len() - 1..]).await;
    Gateway::answer(stream).await.map(drop)
}

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let gateway = site.keyed().await?;
    let (holder, other) = (gateway.holder("acme", "run,read")?, gateway.holder("globex", "run,read")?);
    other.honest().await?;
    let numbers = batch(&format!("[0{}]", ",0".repeat(JOB / 2)));
    let lists = batch(&format!("[{}0]", format!("{}{},", "[".repeat(100), "]".repeat(100)).repeat(JOB / 201)));
    let kind = |n: usize| if n.is_multiple_of(2) { &numbers } else { &lists };
    let before = gateway.process().begin_memory()?;
    let sending = join_all((0..CONNECTIONS).map(|n| most_of(&holder, kind(n))));
    let streams = soon("the batches are sent", sending).await?.into_iter().collect::<Result<Vec<_>>>()?;
    let ending = join_all(streams.into_iter().enumerate().map(|(n, stream)| last_of(stream, kind(n))));
    tokio::pin!(ending);
    other.honest().await?;
    let mut served = 1;
    let ended = loop {
        tokio::select! {
            biased;
            ended = &mut ending => break ended,
            ended = other.honest() => {
                ended?;
                served += 1;
            }
        }
    };
    ended.into_iter().collect::<Result<()>>()?;
    let mut evidence = Evidence::default();
    evidence.note("served", served);
    evidence.note("memory", gateway.process().largest_memory()?.saturating_sub(before));
    Ok(evidence)
}
