//! The time that it takes to refuse a key.

use std::time::Instant;

use anyhow::{Result, ensure};
use serde_json::json;

use crate::evidence::Evidence;
use crate::fleet::Site;
use crate::fleet::broker::unique;
use crate::fleet::gateway::Gateway;
use crate::fleet::keyed::{ALL, id_of};

pub(super) const SHEET: &str = r#"
tries = "knows the id of a key, and measures in turns how long the gateway takes to refuse two kinds of guesses: the key with another last digit and with another first digit; this id and ids that don't exist"
wins = "the key, digit by digit, or the ids of keys"
guard = "digests of whole keys are compared, in constant time; an id is no secret, and one that doesn't exist costs the gateway no more than a look into its store"
control = {}
held = { digits = { max = 2.0 }, ids = { max = 10.0 } }
open = { apart = { min = 40.0 } }
"#;

/// Pairs of guesses.
const PAIRS: usize = 200;

/// Milliseconds by which the one kind of request takes longer than the other, or less long: the median of pairs, so
/// that neither single slow requests nor slow moments of the machine count.
async fn apart(
    pairs: usize,
    mut one: impl AsyncFnMut() -> Result<()>,
    mut other: impl AsyncFnMut() -> Result<()>,
) -> Result<f64> {
    let mut differences = Vec::new();
    for _ in 0..pairs {
        let begun = Instant::now();
        one().await?;
        let middle = Instant::now();
        other().await?;
        let (first, second) = (middle - begun, middle.elapsed());
        differences.push((first.as_secs_f64() - second.as_secs_f64()) * 1000.0);
    }
    differences.sort_by(f64::total_cmp);
    Ok(differences[pairs / 2].abs())
}

async fn refused(gateway: &Gateway, key: &str) -> Result<()> {
    let told = gateway.with("GET", "/v1/runs", &format!("Authorization: Bearer {key}\r\n"), "").await?;
    ensure!(told.code() == "key_unknown", "{told:?}");
    Ok(())
}

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let gateway = site.keyed().await?;
    let holder = gateway.holder("globex", ALL)?;
    let key = holder.secret();
    let mut evidence = Evidence::default();
    let changed = |at: usize| {
        let digit = if &key[at..=at] == "0" { "1" } else { "0" };
        format!("{}{digit}{}", &key[..at], &key[at + 1..])
    };
    let (first, last) = (changed(21), changed(key.len() - 1));
    if site.lifted {
        // What a right key opens takes longer here: the measurement must see that.
        let id = unique("slow");
        let path = format!("/v1/runs/{id}");
        let job = json!({ "id": id, "code": "await hold()", "tools": [{ "name": "hold" }] }).to_string();
        holder.ask("POST", "/v1/runs", &job).await?;
        let right = async || {
            let told = holder.ask("GET", &format!("{path}?wait=50ms"), "").await?;
            ensure!(told.json()["state"] == "underway", "{told:?}");
            Ok(())
        };
        evidence.note("apart", apart(20, right, async || refused(&holder, &last).await).await?);
        holder.ask("DELETE", &path, "").await?;
        return Ok(evidence);
    }
    let digits = apart(PAIRS, async || refused(&holder, &first).await, async || refused(&holder, &last).await).await?;
    evidence.note("digits", digits);
    let mut number = 0;
    let unknown = async || {
        number += 1;
        refused(&holder, &key.replace(id_of(key)?, &format!("{number:016x}"))).await
    };
    evidence.note("ids", apart(PAIRS, unknown, async || refused(&holder, &last).await).await?);
    Ok(evidence)
}
