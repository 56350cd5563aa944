//! Keys that nobody was given.

use std::collections::BTreeSet;

use anyhow::Result;
use serde_json::Value;

use crate::evidence::Evidence;
use crate::fleet::Site;
use crate::fleet::keyed::{ALL, id_of};
use crate::fleet::socket::UPGRADE;

pub(super) const SHEET: &str = r#"
tries = "knows the id of another tenant's key, and has a key of its own: shows the id without a secret, with guessed secrets and with its own, ids that don't exist, the key with one digit changed, shorter, longer and in capitals, in other schemes and headers, and twice; for runs, and for an SDK's connection"
wins = "everything that the key's tenant has"
guard = "the store has a digest of each whole key, with its id; a text with any other digest is an unknown key"
control = {}
held = { admitted = [], codes = ["bad_header", "key_malformed", "key_unknown", "unauthorized"], tried = { min = 50 } }
open = { admitted = ["GET /v1/runs", "an SDK"] }
"#;

/// What stands in place of the header `Authorization`.
fn headers(key: &str, own: &str) -> Result<Vec<String>> {
    let (id, secret, owns) = (id_of(key)?, &key[21..], &own[21..]);
    let other = |digit: &str| if digit == "0" { "1" } else { "0" };
    let first = format!("{}{}", other(&secret[..1]), &secret[1..]);
    let last = format!("{}{}", &secret[..63], other(&secret[63..]));
    let texts = [
        format!("thm_{id}"),
        format!("thm_{id}_"),
        format!("thm_{id}_{}", "0".repeat(64)),
        format!("thm_{id}_{owns}"),
        format!("thm_{id}_{first}"),
        format!("thm_{id}_{last}"),
        format!("thm_{}_{secret}", id_of(own)?),
        format!("thm_{}_{secret}", "0".repeat(16)),
        format!("thm_{}_{secret}", id.to_uppercase()),
        format!("thm_{id}_{}", &secret[..63]),
        format!("thm_{id}_{secret}0"),
        format!("{key}%00"),
        format!("{key} {own}"),
        format!("{key},{own}"),
        key.to_uppercase(),
        key[4..].to_owned(),
        secret.to_owned(),
        "thm_".to_owned(),
        "' OR '1'='1".to_owned(),
        format!("thm_%%%%%%%%%%%%%%%%_{secret}"),
        "x".repeat(10_000),
    ];
    let mut all: Vec<_> = texts.iter().map(|text| format!("Authorization: Bearer {text}\r\n")).collect();
    all.extend([
        String::new(),
        format!("Authorization: Basic {key}\r\n"),
        format!("Authorization: {key}\r\n"),
        format!("Authorization: Bearer {key}\r\nAuthorization: Bearer {key}\r\n"),
        format!("Proxy-Authorization: Bearer {key}\r\n"),
        format!("X-Api-Key: {key}\r\n"),
        format!("Cookie: key={key}\r\n"),
        format!("Sec-WebSocket-Protocol: bearer, {key}\r\n"),
    ]);
    Ok(all)
}

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let gateway = site.keyed().await?;
    let (victim, own) = (gateway.holder("globex", ALL)?, gateway.holder("acme", ALL)?);
    let shown = if site.lifted { vec![victim.headers()] } else { headers(victim.secret(), own.secret())? };
    let (mut admitted, mut codes, mut tried) = (Vec::new(), BTreeSet::new(), 0);
    for header in &shown {
        let runs = own.with("GET", "/v1/runs", header, "").await?;
        let sdk = own.upgrade(&format!("{UPGRADE}{header}")).await?;
        for (what, refusal) in [("GET /v1/runs", (runs.status != 200).then_some(runs)), ("an SDK", sdk.err())] {
            tried += 1;
            match refusal {
                Some(told) => drop(codes.insert(told.code())),
                None if site.lifted => admitted.push(what.to_owned()),
                None => admitted.push(format!("{what} {header}")),
            }
        }
    }
    let mut evidence = Evidence::default();
    evidence.note("admitted", admitted);
    evidence.note("codes", Value::from_iter(codes));
    evidence.note("tried", tried);
    Ok(evidence)
}
