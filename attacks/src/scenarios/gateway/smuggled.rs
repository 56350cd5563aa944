//! Requests whose end is in doubt.

use std::time::Duration;

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::evidence::Evidence;
use crate::fleet::Site;
use crate::fleet::gateway::Gateway;
use crate::fleet::keyed::ALL;

pub(super) const SHEET: &str = r#"
tries = "sends requests that hide another one in their body: with two lengths, with a length and chunks, with chunks that are named or written oddly, with lengths that are no numbers, in HTTP/1.0, with bare line ends and folded lines"
wins = "requests that a proxy in front of the gateway does not see, or answers that it gives to somebody else"
guard = "a request whose end is in doubt is refused or is the last of its connection"
control = {}
held = { answered = [], goes_on = [], tried = { min = 25 } }
open = { answered = ["two requests"] }
"#;

const HIDDEN: &str = "GET /healthz HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n";

/// Header lines, and the body that comes with them.
fn tries() -> Vec<(&'static str, String)> {
    let chunks = format!("0\r\n\r\n{HIDDEN}");
    let both = |headers: &'static str| (headers, chunks.clone());
    let chunked = |body: &str| ("Transfer-Encoding: chunked", format!("{body}{HIDDEN}"));
    vec![
        both("Content-Length: 5\r\nTransfer-Encoding: chunked"),
        both("Transfer-Encoding: chunked\r\nContent-Length: 5"),
        both("Content-Length: 300\r\nTransfer-Encoding: chunked"),
        both("Content-Length: 5\r\nTransfer-Encoding: xchunked"),
        both("Content-Length: 5\r\nTransfer-Encoding: identity"),
        both("Content-Length: 5\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity"),
        both("Content-Length: 5\r\nTransfer-Encoding : chunked"),
        both("Content-Length: 5\r\nTransfer-Encoding: \u{b}chunked"),
        both("Content-Length: 5\r\nTransfer-Encoding:\r\n chunked"),
        both("Content-Length: 5\r\nX: x\rTransfer-Encoding: chunked"),
        both("Transfer-Encoding: chunked, identity"),
        both("Transfer-Encoding: \"chunked\""),
        both("Content-Length: 5\r\nContent-Length: 300"),
        both("Content-Length: 300\r\nContent-Length: 5"),
        both("Content-Length: 5, 300"),
        both("Content-Length: +5"),
        both("Content-Length: 0x5"),
        both("Content-Length: -5"),
        both("Content-Length: 5 5"),
        both("Content-Length: 5\0"),
        both("Content-Length: 18446744073709551621"),
        both("Content-Length : 5"),
        both("Content-Length:\r\n 5"),
        chunked("-0\r\n\r\n"),
        chunked("0x0\r\n\r\n"),
        chunked(" 0\r\n\r\n"),
        chunked("10000000000000000\r\n\r\n"),
        chunked("1;a\nb\r\nx\r\n0\r\n\r\n"),
        chunked("1\r\nxx0\r\n\r\n"),
        chunked("0\n\n"),
    ]
}

/// Sends a request and what follows it. Gives how many answers come, and whether the connection then stays open.
async fn answers(gateway: &Gateway, request: &str) -> Result<(usize, bool)> {
    let mut stream = gateway.connect().await?;
    let _ = stream.write_all(request.as_bytes()).await;
    let mut told = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut told)).await;
    Ok((String::from_utf8_lossy(&told).matches("HTTP/1.1 ").count(), ended.is_err()))
}

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let gateway = site.keyed().await?;
    let holder = gateway.holder("acme", ALL)?;
    let request = |version: &str, headers: &str, body: &str| {
        format!("POST /v1/runs HTTP/{version}\r\nHost: gateway\r\n{}{headers}\r\n\r\n{body}", holder.headers())
    };
    let mut requests = Vec::new();
    if site.lifted {
        requests.push(("two requests", request("1.1", "Content-Length: 2", &format!("{{}}{HIDDEN}"))));
    } else {
        requests.extend(tries().into_iter().map(|(headers, body)| (headers, request("1.1", headers, &body))));
        let chunks = format!("0\r\n\r\n{HIDDEN}");
        requests.push(("HTTP/1.0", request("1.0", "Connection: keep-alive\r\nTransfer-Encoding: chunked", &chunks)));
    }
    let (mut answered, mut goes_on) = (Vec::new(), Vec::new());
    for (what, request) in &requests {
        let (count, open) = answers(&holder, request).await?;
        if count > 1 {
            answered.push(*what);
        }
        if open {
            goes_on.push(*what);
        }
    }
    let mut evidence = Evidence::default();
    evidence.note("tried", requests.len());
    evidence.note("answered", answered);
    evidence.note("goes_on", goes_on);
    Ok(evidence)
}
