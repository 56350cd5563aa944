//! The fleet under load: a real one over AMQP, or an embedded one in this process.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use thermae_client::Client;
use thermae_fleet::{EmbeddedOptions, Fleet, RemoteOptions};
use thermae_schemas::TenantName;
use thermae_service::units::Millis;

/// How long the embedded fleet keeps outcomes here. No job is submitted twice, so none is needed longer. The outcomes
/// are in this process: ten minutes of them would hide a leak.
const RECORD_TTL: Millis = Millis::from_secs(10);

/// Which fleet.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// AMQP URL of the fleet; by default, an embedded fleet in this process is used.
    #[arg(long, global = true, env = "THERMAE_AMQP", hide_env_values = true)]
    pub amqp: Option<String>,
    /// Tenant to act as; by default, the user in the URL.
    #[arg(long, global = true, env = "THERMAE_TENANT")]
    pub tenant: Option<String>,
    /// Python interpreter for the embedded fleet's sandboxes; by default, the active virtualenv's, otherwise python3 on
    /// PATH.
    #[arg(long, global = true)]
    pub python: Option<std::path::PathBuf>,
}

/// A fleet and a client of it.
pub struct Target {
    /// The client that submits jobs.
    pub client: Client,
    fleet: Fleet,
}

impl Options {
    /// The fleet's name in reports: `fleet` or `embedded`.
    pub fn name(&self) -> &'static str {
        if self.amqp.is_some() { "fleet" } else { "embedded" }
    }

    /// Connects to a real fleet, or starts the embedded one.
    pub async fn open(&self) -> Result<Target> {
        let fleet = match &self.amqp {
            Some(url) => {
                Fleet::connect(RemoteOptions { tenant: self.tenant.clone(), ..RemoteOptions::new(url.as_str()) }).await
            }
            None => {
                Fleet::embedded(EmbeddedOptions {
                    python: self.python.clone(),
                    record_ttl: RECORD_TTL,
                    ..EmbeddedOptions::default()
                })
                .await
            }
        }
        .context("open the fleet")?;
        Ok(Target { client: fleet.client().clone(), fleet })
    }
}

impl Target {
    /// Metrics of the embedded fleet; `None` for a real fleet.
    pub fn metrics(&self) -> Option<&prometheus::Registry> {
        self.fleet.metrics()
    }

    /// Number of proofs that containers are clean, by result; empty for a real fleet.
    pub fn proofs(&self) -> BTreeMap<String, u64> {
        let families = self.metrics().map(prometheus::Registry::gather).unwrap_or_default();
        let verified = families.iter().filter(|f| f.name() == "thermae_worker_containers_verified_total");
        let mut proofs = BTreeMap::new();
        for metric in verified.flat_map(|f| f.get_metric()) {
            let result = metric.get_label().iter().find(|l| l.name() == "result").map(|l| l.value().to_owned());
            *proofs.entry(result.unwrap_or_default()).or_default() += metric.get_counter().get_value() as u64;
        }
        proofs
    }

    /// Waits until the embedded fleet's containers are warm. Does nothing for a real fleet, whose worker tells its own
    /// readiness.
    pub async fn ready(&self) {
        self.fleet.ready().await;
    }

    /// A client of another tenant. A real fleet's user must be allowed to speak for every tenant.
    pub async fn client_of(&self, tenant: TenantName) -> Result<Client> {
        self.fleet.client_of(tenant).await.context("a client of another tenant")
    }

    /// Disconnects from a real fleet, or ends the embedded one.
    pub async fn close(self) {
        self.fleet.close().await;
    }
}
