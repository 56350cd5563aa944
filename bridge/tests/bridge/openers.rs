//! An opener that gives every SDK a tenant of its own on one fleet, as a gateway does.

use std::sync::Arc;

use anyhow::{Result, ensure};
use async_trait::async_trait;
use libtest_mimic::Trial;
use serde_json::{Map, Value, json};
use thermae_bridge::{Opened, Opener, Refusal};
use thermae_fleet::{EmbeddedOptions, Fleet};
use thermae_schemas::TenantName;

use crate::contract::sdk::{Sdk, WIDE};
use crate::test;

pub(crate) fn tests() -> Vec<Trial> {
    vec![test("sdks_of_several_tenants_share_a_fleet", sdks_of_several_tenants_share_a_fleet)]
}

struct ByToken(Arc<Fleet>);

#[async_trait]
impl Opener for ByToken {
    async fn open(&self, ask: Map<String, Value>) -> Result<Opened, Refusal> {
        let tenant = match ask.get("token").and_then(Value::as_str) {
            Some("red") => "red",
            Some("blue") => "blue",
            _ => return Err(Refusal::new("denied", "no such token")),
        };
        let tenant = TenantName::new(tenant).map_err(|error| Refusal::new("denied", error.to_string()))?;
        let client = self.0.client_of(tenant).await?;
        Ok(Opened { client, fleet: self.0.clone(), facts: Map::from_iter([("plan".to_owned(), json!("free"))]) })
    }
}

async fn sdks_of_several_tenants_share_a_fleet() -> Result<()> {
    let options = EmbeddedOptions { slots: Some(2), warm: Some(1), ..EmbeddedOptions::default() };
    let opener = Arc::new(ByToken(Arc::new(Fleet::embedded(options).await?)));
    let mut sdks = Vec::new();
    for token in ["red", "blue", "green"] {
        let mut sdk = Sdk::silent(opener.clone());
        sdk.hello().await?;
        ensure!(sdk.next().await?.is("hello"));
        sdk.send(json!({ "type": "open", "id": 0, "token": token }), "").await?;
        let told = sdk.next().await?;
        if token == "green" {
            ensure!(told.code() == "denied", "{told:?}");
            sdk.vanish().await?;
        } else {
            ensure!(told.header["tenant"] == token && told.header["plan"] == "free", "{told:?}");
            sdks.push(sdk);
        }
    }
    // A session belongs to its tenant, so both may use one name.
    for (n, sdk) in sdks.iter_mut().enumerate() {
        sdk.run(1, WIDE, json!({ "code": format!("x = {n}"), "session": { "id": "s" } })).await?;
        sdk.outcome(1).await?;
    }
    let (mut blue, red) = (sdks.remove(1), sdks.remove(0));
    red.vanish().await?;
    blue.run(2, WIDE, json!({ "code": "print(x)", "session": { "id": "s" } })).await?;
    let outcome = blue.outcome(2).await?;
    ensure!(outcome.stdout == "1\n", "one client's end did not end the fleet: {outcome:?}");
    blue.vanish().await?;
    let fleet = Arc::into_inner(opener).and_then(|opener| Arc::into_inner(opener.0));
    fleet.ok_or_else(|| anyhow::anyhow!("a connection still holds the fleet"))?.close().await;
    Ok(())
}
