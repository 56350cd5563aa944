//! What an SDK of a gateway opens: the gateway's own fleet, and nothing else of its machine.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value};
use thermae_bridge::{Opened, Opener, Refusal};

use crate::tenants::Lease;

/// Gives an SDK the gateway's fleet, as the tenant of its caller.
pub(super) struct OwnFleet(pub(super) Arc<Lease>);

#[async_trait]
impl Opener for OwnFleet {
    async fn open(&self, ask: Map<String, Value>) -> Result<Opened, Refusal> {
        // URLs, tenants, paths and all else that a bridge of one's own opens are not the caller's to choose here.
        if let Some(field) = ask.keys().next() {
            let why = format!("a gateway opens its own fleet, and `open` has the field {field:?}");
            return Err(Refusal::new("bad_option", why).advice("send `open` without any field but `id`"));
        }
        let fleet = self.0.fleet();
        let client = fleet.client_of(fleet.client().tenant().clone()).await?;
        Ok(Opened { client, fleet, facts: Map::new() })
    }
}
