//! Outcomes that are too large for the registry, in the store.

use bytes::Bytes;
use thermae_schemas::TenantName;

use super::{Artifacts, Error, gather};

/// More bytes than any outcome has.
const LARGEST: u64 = 64 << 20;

fn key(digest: &str) -> String {
    format!("outcomes/{digest}")
}

impl Artifacts {
    /// Stores an outcome, and returns its digest.
    ///
    /// # Errors
    /// The store fails.
    pub(crate) async fn put_outcome(&self, tenant: &TenantName, outcome: Bytes) -> Result<String, Error> {
        let digest = gather::digest(outcome.clone()).await;
        self.put(tenant, &key(&digest), outcome).await?;
        Ok(digest)
    }

    /// The outcome with this digest, byte for byte. `None` if the store does not have it any more.
    ///
    /// # Errors
    /// The store fails.
    pub(crate) async fn outcome(&self, tenant: &TenantName, digest: &str) -> Result<Option<Bytes>, Error> {
        let outcome = match self.get(tenant, &key(digest), LARGEST).await {
            Err(error) if error.is_missing() => return Ok(None),
            outcome => outcome?,
        };
        if gather::digest(outcome.clone()).await != digest {
            tracing::error!(%tenant, digest, "an outcome in the store does not match its digest");
            return Ok(None);
        }
        Ok(Some(outcome))
    }
}
