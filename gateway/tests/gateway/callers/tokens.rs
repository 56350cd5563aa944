//! Tokens over HTTP: each caller mints for its own tenant, and anybody narrows.

use std::sync::Arc;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use thermae_gateway::{Options, Tokens};
use thermae_tokens::{Issuer, SecretKey, Trust};

use super::site::{Site, caller};
use thermae_schemas::Scope;

/// A gateway that mints, and shows what it minted. The folder has the public key.
async fn site(folder: &std::path::Path) -> Result<Site> {
    let key = SecretKey::generate()?;
    std::fs::create_dir(folder.join("keys"))?;
    key.public().write_new(folder.join("keys/1.pem"))?;
    let revoked = folder.join("revoked");
    std::fs::write(&revoked, "")?;
    let trust = Trust::new(folder.join("keys"), Some(revoked), std::time::Duration::ZERO);
    let tokens = Tokens { issuer: Some(Arc::new(Issuer::new(1, key))), trust: Some(Arc::new(trust)) };
    Site::new(Options { tokens, ..Options::default() }).await
}

fn mint() -> Value {
    json!({ "capabilities": [{ "pattern": "pay" }], "expires_in_ms": 60_000, "calls": 5 })
}

pub(super) async fn tokens_are_minted_narrowed_and_shown() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let site = site(folder.path()).await?;
    site.known.set("minter", Ok(caller("acme", "minter", [Scope::Tokens])?));
    let minted = site.ask("minter", "POST /v1/tokens", &mint()).await?;
    ensure!(minted.status == 201, "{minted:?}");
    let token = minted.json()?["token"].clone();
    let less = json!({ "token": token, "capabilities": [], "calls": 2, "expires_in_ms": 1000 });
    let narrowed = site.ask("globex", "POST /v1/tokens/narrow", &less).await?;
    ensure!(narrowed.status == 201, "{narrowed:?}");
    let narrowed = narrowed.json()?;
    let show = |token: &Value| json!({ "token": token });
    let shown = site.ask("minter", "POST /v1/tokens/show", &show(&narrowed["token"])).await?.json()?;
    ensure!(shown["capabilities"] == json!([[{ "pattern": "pay" }], []]) && shown["calls"] == json!([5, 2]), "{shown}");
    ensure!(shown["revocation_ids"][1] == narrowed["revocation_id"], "{shown}");
    // It is the tenant's own, and what is revoked or changed is not shown.
    let foreign = site.ask("globex", "POST /v1/tokens/show", &show(&token)).await?;
    foreign.problem(403, "token_foreign_tenant")?;
    std::fs::write(folder.path().join("revoked"), shown["revocation_ids"][1].as_str().unwrap_or_default())?;
    site.ask("minter", "POST /v1/tokens/show", &show(&narrowed["token"])).await?.problem(403, "token_revoked")?;
    ensure!(site.ask("minter", "POST /v1/tokens/show", &show(&token)).await?.status == 200);
    std::fs::write(folder.path().join("revoked"), "no id")?;
    site.ask("minter", "POST /v1/tokens/show", &show(&token)).await?.problem(503, "token_unverifiable")?;
    site.end().await
}

pub(super) async fn what_would_be_no_token_is_refused() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let site = site(folder.path()).await?;
    let token = site.ask("acme", "POST /v1/tokens", &mint()).await?.json()?["token"].clone();
    let with = |mut body: Value, name: &str, value: Value| {
        body[name] = value;
        body
    };
    for (body, status, code) in [
        (with(mint(), "tenant", json!("globex")), 422, "unknown_field"),
        (with(mint(), "expires_in_ms", json!(0)), 422, "schema_violation"),
        (with(mint(), "expires_in_ms", json!(31_622_400_001_u64)), 422, "schema_violation"),
        (with(mint(), "calls", Value::Null), 422, "schema_violation"),
        (with(mint(), "capabilities", Value::Null), 422, "bad_capability"),
        (json!({ "capabilities": [] }), 422, "schema_violation"),
    ] {
        site.ask("acme", "POST /v1/tokens", &body).await?.problem(status, code)?;
    }
    let narrow = json!({ "token": token });
    for (body, status, code) in [
        (narrow.clone(), 422, "token_not_written"),
        (with(narrow.clone(), "expires_in_ms", json!(120_000)), 422, "token_not_written"),
        (with(narrow.clone(), "capabilities", Value::Null), 422, "bad_capability"),
        (with(narrow.clone(), "token", json!("no token")), 422, "token_malformed"),
        (with(narrow, "token", json!("A".repeat(70_000))), 422, "token_too_large"),
    ] {
        site.ask("acme", "POST /v1/tokens/narrow", &body).await?.problem(status, code)?;
    }
    site.end().await
}

pub(super) async fn a_gateway_without_keys_only_narrows() -> Result<()> {
    let site = Site::new(Options::default()).await?;
    site.ask("acme", "POST /v1/tokens", &mint()).await?.problem(404, "no_issuer")?;
    site.ask("acme", "POST /v1/tokens/show", &json!({ "token": "" })).await?.problem(404, "token_unsupported")?;
    site.end().await
}
