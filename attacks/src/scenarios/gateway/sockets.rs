//! Connections that say nothing.

use anyhow::Result;
use tokio::io::AsyncWriteExt;

use crate::evidence::Evidence;
use crate::fleet::Site;

pub(super) const SHEET: &str = r#"
tries = "opens seven hundred connections, and says nothing on them, or only half a line"
wins = "all of the gateway's connections, so that nobody else is served"
guard = "thousands of connections, each of which must send its headers within twenty seconds; one that says nothing holds no request"
uncontrolled = "the bounds have no setting"
held = { slowest = { max = 5 } }
"#;

/// As many as one process may open beside what it has open anyway.
const CONNECTIONS: usize = 700;

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let gateway = site.gateway().await?;
    let mut idle = Vec::new();
    for n in 0..CONNECTIONS {
        let mut stream = gateway.connect().await?;
        if n % 2 == 0 {
            stream.write_all(b"GET /v1/ru").await?;
        }
        idle.push(stream);
    }
    let mut slowest = 0.0f64;
    for _ in 0..5 {
        slowest = slowest.max(gateway.honest().await?);
    }
    let mut evidence = Evidence::default();
    evidence.note("slowest", slowest);
    Ok(evidence)
}
