//! Requests without the token.

use anyhow::{Context, Result};
use serde_json::Value;

use crate::evidence::Evidence;
use crate::fleet::Site;
use crate::fleet::gateway::TOKEN;

pub(super) const SHEET: &str = r#"
tries = "asks for every operation without a token, with parts of it, with more than it, in other schemes and headers, twice, and in the query"
wins = "everything that the tenant has"
guard = "each guarded operation compares the header `Authorization` with the token, in constant time, before anything else"
control = {}
held = { admitted = [], tried = { min = 150 } }
open = { tried = { min = 15 }, kept_out = [] }
"#;

/// What stands in place of the header `Authorization`.
fn headers() -> Vec<String> {
    let almost = &TOKEN[..TOKEN.len() - 1];
    vec![
        String::new(),
        "Authorization: \r\n".to_owned(),
        "Authorization: Bearer\r\n".to_owned(),
        "Authorization: Bearer \r\n".to_owned(),
        format!("Authorization: Bearer {almost}\r\n"),
        format!("Authorization: Bearer {TOKEN}x\r\n"),
        format!("Authorization: Bearer {}\r\n", TOKEN.to_uppercase()),
        format!("Authorization: Basic {TOKEN}\r\n"),
        format!("Authorization: {TOKEN}\r\n"),
        format!("Authorization: Bearer x\r\nAuthorization: Bearer {TOKEN}\r\n"),
        format!("X-Authorization: Bearer {TOKEN}\r\n"),
        format!("Cookie: token={TOKEN}\r\n"),
    ]
}

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let gateway = site.gateway().await?;
    let document = gateway.ask("GET", "/v1/openapi.json", "").await?.json();
    let right = [format!("Authorization: Bearer {TOKEN}\r\n")];
    let shown = if site.lifted { right.to_vec() } else { headers() };
    let (mut admitted, mut kept_out, mut tried) = (Vec::new(), Vec::new(), 0);
    for (path, methods) in document["paths"].as_object().context("no paths")? {
        for (method, operation) in methods.as_object().context("no methods")? {
            if operation["security"].as_array().is_some_and(Vec::is_empty) {
                continue;
            }
            let (method, path) = (method.to_uppercase(), filled(path));
            for header in &shown {
                let query =
                    if header.is_empty() && method == "GET" { format!("?token={TOKEN}") } else { String::new() };
                let told = gateway.with(&method, &format!("{path}{query}"), header, "").await?;
                tried += 1;
                // A header that is there twice is a bad request.
                let refused = told.status == 401 || told.status == 400 && told.code() == "bad_header";
                if refused { &mut kept_out } else { &mut admitted }.push(format!("{method} {path} {header}"));
            }
        }
    }
    let mut evidence = Evidence::default();
    evidence.note("tried", tried);
    if site.lifted {
        evidence.note("kept_out", kept_out);
    } else {
        evidence.note("admitted", Value::from(admitted));
    }
    Ok(evidence)
}

/// The path with something in place of each parameter.
fn filled(path: &str) -> String {
    let part = |part: &str| if part.starts_with('{') { "x".to_owned() } else { part.to_owned() };
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}
