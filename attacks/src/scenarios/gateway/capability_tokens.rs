//! Capability tokens that give no right to a call.

use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use futures::future::try_join_all;
use serde_json::json;
use thermae_schemas::Capabilities;
use thermae_tokens::{Grant, Issuer, Narrowing, SecretKey, attenuate};

use crate::evidence::Evidence;
use crate::fleet::Site;
use crate::fleet::broker::unique;
use crate::fleet::gateway::Gateway;
use crate::fleet::keyed::EVERY;
use crate::fleet::minting::{KEY, Minting, grant};

pub(super) const SHEET: &str = r#"
tries = "has a key of one tenant: submits jobs with tokens that are forged, of an unknown key, of the other tenant, expired, revoked, and cut out of a narrowed one, and has them shown; mints a token for the other tenant; uses a token for three calls in eight runs at once, through two gateways"
wins = "tool calls that nobody granted"
guard = "the worker verifies a token for the tenant of the job before the code runs and before each call, and the registry counts the calls of all runs in one step"
control = {}
held = { ran = [], refused = ["token_bad_signature", "token_unknown_key", "token_foreign_tenant", "token_expired", "token_revoked", "token_bad_signature"], shown = ["token_bad_signature", "token_unknown_key", "token_foreign_tenant", "token_expired", "token_revoked", "token_bad_signature"], minted = "unknown_field", calls = 3 }
open = { ran = ["1\n"], calls = 8 }
"#;

/// Makes one call.
const CODE: &str = "
try:
    await pay()
except ToolError:
    pass
";

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let gateways = [site.keyed().await?, site.keyed().await?];
    let holders = [gateways[0].holder("acme", EVERY)?, gateways[1].holder("acme", EVERY)?];
    let holder = &holders[0];
    let tokens = if site.lifted { vec![site.minting.mint(&grant("acme")?)?] } else { bad(&site.minting)? };
    let (mut ran, mut refused, mut shown) = (Vec::new(), Vec::new(), Vec::new());
    for token in &tokens {
        let told = holder.ask("POST", "/v1/runs?wait=60s", &job("print(1)", token)).await?.json();
        match told["outcome"]["error"]["code"].as_str() {
            Some(code) => refused.push(code.to_owned()),
            None => ran.push(told["outcome"]["stdout"].clone()),
        }
        shown.push(holder.ask("POST", "/v1/tokens/show", &json!({ "token": token }).to_string()).await?.code());
    }
    let three = (!site.lifted).then(|| 3.try_into()).transpose()?;
    let token = site.minting.mint(&Grant { calls: three, ..grant("acme")? })?;
    let made = try_join_all((0..8).map(|n| call(&holders[n % 2], &token))).await?;

    let mut evidence = Evidence::default();
    evidence.note("calls", made.into_iter().filter(|made| *made).count());
    evidence.note("ran", ran);
    if !site.lifted {
        evidence.note("refused", refused);
        evidence.note("shown", shown);
        let mint = json!({ "tenant": "globex", "capabilities": [{ "pattern": "**" }], "expires_in_ms": 60_000 });
        evidence.note("minted", holder.ask("POST", "/v1/tokens", &mint.to_string()).await?.code());
    }
    Ok(evidence)
}

fn job(code: &str, token: &str) -> String {
    json!({ "id": unique("token"), "code": code, "tools": [{ "name": "pay" }], "token": token }).to_string()
}

/// Runs a job that makes one call. Returns whether the call came, and answers it.
async fn call(holder: &Gateway, token: &str) -> Result<bool> {
    let told = holder.ask("POST", "/v1/runs?wait=60s&until=call", &job(CODE, token)).await?.json();
    let Some(call) = told["calls"][0]["call"].as_str() else { return Ok(false) };
    let path = format!("/v1/runs/{}/calls/{call}", told["id"].as_str().context("no id")?);
    holder.ask("POST", &path, &json!({ "ok": null }).to_string()).await?;
    Ok(true)
}

/// Tokens that give nothing to `acme`.
fn bad(minting: &Minting) -> Result<Vec<String>> {
    let good = grant("acme")?;
    let of_other = |id: u32| -> Result<String> { Ok(Issuer::new(id, SecretKey::generate()?).mint(&good)?.into()) };
    let expired = Grant { expires: SystemTime::now() - Duration::from_secs(3600), ..good.clone() };
    let revoked = minting.mint(&good)?;
    minting.revoke(&revoked)?;
    let nothing = Narrowing { set: Some(Capabilities::from_json("[]")?), ..Narrowing::default() };
    let narrowed = attenuate(&minting.mint(&good)?, &nothing)?;
    Ok(vec![
        of_other(KEY)?,
        of_other(KEY + 1)?,
        minting.mint(&grant("globex")?)?,
        minting.mint(&expired)?,
        revoked,
        without_narrowings(narrowed.as_str())?,
    ])
}

/// A token without the blocks after its first.
fn without_narrowings(token: &str) -> Result<String> {
    const BLOCK: u8 = 0x1a;
    let bytes = URL_SAFE.decode(token)?;
    let (mut rest, mut kept) = (bytes.as_slice(), Vec::new());
    while let Some(tag) = rest.first() {
        let (part, after) = part(rest).context("the token ends within a part")?;
        if *tag != BLOCK {
            kept.extend_from_slice(part);
        }
        rest = after;
    }
    Ok(URL_SAFE.encode(kept))
}

/// The first part of a token's bytes, and the rest. A part is the id of the key, which has one byte here, or begins
/// with its length, seven bits in each byte.
fn part(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    const KEY_ID: u8 = 0x08;
    if *bytes.first()? == KEY_ID {
        return bytes.split_at_checked(2);
    }
    let (mut length, mut at) = (0, 1);
    loop {
        let byte = *bytes.get(at)?;
        length |= usize::from(byte & 0x7f) << (7 * (at - 1));
        at += 1;
        if byte < 0x80 {
            return bytes.split_at_checked(at + length);
        }
    }
}
