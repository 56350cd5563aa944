//! Pages in a browser, and other protocols.

use anyhow::{Context, Result};
use serde_json::json;

use crate::evidence::Evidence;
use crate::fleet::Site;
use crate::fleet::keyed::ALL;
use crate::fleet::socket::UPGRADE;

pub(super) const SHEET: &str = r#"
tries = "as a page in a browser that got hold of a key: opens an SDK's connection with each kind of `Origin`, asks whether other origins may send requests, submits jobs as forms do; as anybody: upgrades to HTTP/2, upgrades other operations, older versions and other methods, and speaks HTTP/2 or a tunnel at once"
wins = "the fleet from any page that a user visits, or a connection that a proxy takes for something else"
guard = "connections with an `Origin` are refused, no answer allows another origin, jobs must be JSON by their media type, and the only upgrade is that of `GET /v1/connect` to a WebSocket"
control = {}
held = { switched = [], allowed = [], ran = [] }
open = { switched = ["GET /v1/connect HTTP/1.1"], ran = ["application/json"] }
"#;

const CONNECT: &str = "GET /v1/connect HTTP/1.1";

/// First lines of requests, and header lines.
fn tries() -> Vec<(String, String)> {
    let connect = |headers: String| (CONNECT.to_owned(), headers);
    let mut all = Vec::new();
    for origin in ["https://page.example", "null", "", "http://gateway", "http://127.0.0.1", "file://"] {
        all.push(connect(format!("{UPGRADE}Origin: {origin}\r\n")));
    }
    all.push(connect(format!("{UPGRADE}Origin: http://gateway\r\nOrigin: null\r\n")));
    all.push(connect(UPGRADE.replace("13", "8")));
    all.push(connect(UPGRADE.replace("websocket", "tcp")));
    let h2c = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n";
    for line in [CONNECT, "GET /v1/runs HTTP/1.1", "GET /healthz HTTP/1.1"] {
        all.push((line.to_owned(), h2c.to_owned()));
    }
    for line in [
        "GET /v1/runs HTTP/1.1",
        "GET /healthz HTTP/1.1",
        "POST /v1/connect HTTP/1.1",
        "GET /v1/connect HTTP/1.0",
        "CONNECT /v1/connect HTTP/1.1",
        "CONNECT 127.0.0.1:1 HTTP/1.1",
        "PRI * HTTP/2.0",
    ] {
        all.push((line.to_owned(), UPGRADE.to_owned()));
    }
    all
}

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let gateway = site.keyed().await?;
    let holder = gateway.holder("acme", ALL)?;
    let headers = holder.headers();
    let tries = if site.lifted { vec![(CONNECT.to_owned(), UPGRADE.to_owned())] } else { tries() };
    let (mut switched, mut allowed) = (Vec::new(), Vec::new());
    for (line, more) in tries {
        let (told, _) = holder.begun(format!("{line}\r\nHost: gateway\r\n{more}{headers}\r\n").as_bytes()).await?;
        let tunnel = line.starts_with("CONNECT") || line.starts_with("PRI");
        if told.status == 101 || tunnel && told.status / 100 == 2 {
            switched.push(line);
        } else if told.head.contains("access-control-") {
            allowed.push(line);
        }
    }
    let job = json!({ "code": "print('ran')" }).to_string();
    let kinds: &[&str] = if site.lifted {
        &["application/json"]
    } else {
        &["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
    };
    let (authorization, _) = headers.split_once("\r\n").context("no headers")?;
    let mut ran = Vec::new();
    for kind in kinds {
        let headers = format!("{authorization}\r\nContent-Type: {kind}\r\nOrigin: https://page.example\r\n");
        let asks = format!("{headers}Access-Control-Request-Method: POST\r\n");
        let (told, asked) = (
            holder.with("POST", "/v1/runs?wait=30s", &headers, &job).await?,
            holder.with("OPTIONS", "/v1/runs", &asks, "").await?,
        );
        if told.body.contains("ran\\n") {
            ran.push(*kind);
        }
        if [told, asked].iter().any(|told| told.head.contains("access-control-")) {
            allowed.push((*kind).to_owned());
        }
    }
    let mut evidence = Evidence::default();
    evidence.note("switched", switched);
    evidence.note("allowed", allowed);
    evidence.note("ran", ran);
    Ok(evidence)
}
