//! How the scheduler behaves.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thermae_schemas::{Language, PoolName, TenantName};
use thermae_service::config;
use thermae_service::units::{ByteSize, Millis};

/// How the scheduler behaves. Every scheduler of a fleet should have the same.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Pools that jobs may name although no worker serves them at the moment. Pools that a living worker announces are known
    /// anyway.
    pub pools: BTreeMap<PoolName, PoolOptions>,
    /// Tenants with a share or a bound of their own.
    pub tenants: BTreeMap<TenantName, TenantOptions>,
    /// Share and bound of tenants that are not listed.
    pub other_tenants: TenantOptions,
    /// Whether tenants that are not listed may submit. Who may connect at all is for RabbitMQ to say.
    pub admit_unknown_tenants: bool,
    /// Jobs handed out per slot of a pool's workers. Above 1, so that a worker finds its next job in its queue.
    pub credit_factor: f64,
    /// Jobs taken from each submit queue ahead of their turn. Everything else waits in RabbitMQ.
    pub window: u16,
    /// Jobs being handed out at once.
    pub concurrency: usize,
    /// Largest job message.
    pub max_job_bytes: ByteSize,
    /// How long a job that was handed out and never started counts against its pool's credit.
    pub credit_ttl: Millis,
    /// How long the record of a job that has not ended is kept after its last change.
    pub record_ttl: Millis,
    /// How long the outcomes that the scheduler itself records (rejected, cancelled, lost) stay readable.
    pub outcome_ttl: Millis,
    /// After the registry was emptied, how long a missing record may yet be announced by its worker.
    pub record_grace: Millis,
    /// A job that could not be handed out for so long goes back to its queue, well before RabbitMQ's acknowledgement time-out.
    pub hold_max: Millis,
    /// How long the queue of a dead worker is watched for messages that come back late, before it is deleted. Longer than RabbitMQ
    /// takes to notice a dead connection.
    pub worker_grace: Millis,
    /// How often the fleet's state is read again where no news came.
    pub tick: Millis,
    /// How long leadership lasts without being renewed.
    pub lead_ttl: Millis,
    /// How often leadership is renewed.
    pub lead_renew: Millis,
}

/// What is known of a pool in advance.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PoolOptions {
    /// Languages that it runs, until a worker announces its own.
    pub languages: Vec<Language>,
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self { languages: vec![Language::Python] }
    }
}

/// A tenant's share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TenantOptions {
    /// Its share of a busy pool, in proportion to the others'.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub weight: u32,
    /// Jobs it may have handed out at once, over all pools; no bound where it is missing.
    pub max_in_flight: Option<u32>,
}

impl Default for TenantOptions {
    fn default() -> Self {
        Self { weight: 1, max_in_flight: None }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            pools: PoolName::new("default").map(|name| (name, PoolOptions::default())).into_iter().collect(),
            tenants: BTreeMap::new(),
            other_tenants: TenantOptions::default(),
            admit_unknown_tenants: true,
            credit_factor: 2.0,
            window: 32,
            concurrency: 64,
            max_job_bytes: ByteSize::mib(1),
            credit_ttl: Millis::from_secs(300),
            record_ttl: Millis::from_secs(6 * 3600),
            outcome_ttl: Millis::from_secs(900),
            record_grace: Millis::from_secs(30),
            hold_max: Millis::from_secs(15 * 60),
            worker_grace: Millis::from_secs(600),
            tick: Millis::from_secs(1),
            lead_ttl: Millis::from_secs(5),
            lead_renew: Millis::from_millis(1500),
        }
    }
}

impl Options {
    /// What the types alone can't say.
    ///
    /// # Errors
    /// [`config::Error`], naming the key.
    pub fn check(&self) -> Result<(), config::Error> {
        let refuse = |key: &str, why: &str| Err(config::Error::invalid(key, why));
        if !(self.credit_factor.is_finite() && (1.0..=100.0).contains(&self.credit_factor)) {
            return refuse("credit_factor", "must be between 1 and 100");
        }
        if self.window == 0 || self.concurrency == 0 {
            return refuse("window", "window and concurrency must be at least 1");
        }
        for (tenant, options) in &self.tenants {
            if options.weight == 0 || options.weight > 1_000_000 {
                return refuse(&format!("tenants.{tenant}.weight"), "must be between 1 and 1000000");
            }
        }
        if self.lead_renew.duration() * 2 > self.lead_ttl.duration() {
            return refuse("lead_renew", "must be at most half of lead_ttl");
        }
        if self.tick.duration().is_zero() || self.lead_renew.duration().is_zero() {
            return refuse("tick", "tick and lead_renew must be longer than 0");
        }
        Ok(())
    }

    /// A tenant's share; `None` for one that may not submit.
    pub fn tenant(&self, tenant: &TenantName) -> Option<&TenantOptions> {
        match self.tenants.get(tenant) {
            Some(options) => Some(options),
            None => self.admit_unknown_tenants.then_some(&self.other_tenants),
        }
    }
}
