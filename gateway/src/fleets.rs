//! Where the fleets of tenants come from.

use std::sync::Arc;

use async_trait::async_trait;
use thermae_fleet::Fleet;
use thermae_schemas::TenantName;

use crate::problem::Problem;

/// Connects to the fleet, for one tenant after the other.
#[async_trait]
pub trait Fleets: Send + Sync {
    /// The fleet, as this tenant. It is asked for with a tenant's first request, and again after the tenant was idle.
    /// The gateway closes what nobody else has.
    ///
    /// # Errors
    /// The fleet can't be used for this tenant now. Other tenants notice nothing.
    async fn open(&self, tenant: &TenantName) -> Result<Arc<Fleet>, Unopened>;
}

/// Why the fleet can't be used for a tenant.
#[derive(Debug, thiserror::Error)]
pub enum Unopened {
    /// The gateway has no credentials for the tenant.
    #[error("there are no credentials")]
    NoCredentials,
    /// The gateway's credentials for the tenant can't be used. The reason contains no secret.
    #[error("the credentials can't be used: {0}")]
    Credentials(String),
    /// The fleet itself.
    #[error(transparent)]
    Fleet(#[from] thermae_fleet::Error),
}

impl From<&Unopened> for Problem {
    /// What a caller is told. The log tells more: it may name hosts and files.
    fn from(why: &Unopened) -> Self {
        use thermae_fleet::Error;
        match why {
            Unopened::Fleet(Error::Unreachable { .. }) => {
                Self::new("broker_unreachable", "the fleet's RabbitMQ does not answer")
            }
            Unopened::Fleet(Error::Denied { .. }) => {
                Self::new("broker_denied", "RabbitMQ refused the gateway's credentials for this tenant")
            }
            Unopened::Fleet(Error::Client(thermae_client::Error::NoScheduler)) => {
                Self::new("no_scheduler", "no scheduler has ever run on the fleet")
            }
            Unopened::NoCredentials => {
                Self::new("tenant_unavailable", "the gateway has no credentials for this tenant")
            }
            _ => Self::new("tenant_unavailable", "the gateway can't use the fleet for this tenant"),
        }
    }
}

/// A fleet that is open already, for its only tenant.
pub(crate) struct Only(pub(crate) Arc<Fleet>);

#[async_trait]
impl Fleets for Only {
    async fn open(&self, tenant: &TenantName) -> Result<Arc<Fleet>, Unopened> {
        if tenant == self.0.client().tenant() { Ok(self.0.clone()) } else { Err(Unopened::NoCredentials) }
    }
}
