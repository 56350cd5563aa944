//! How the scheduler behaves.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thermae_backplane::registry::{Budget, Keep, RUNNING_TTL};
use thermae_schemas::{Language, PoolName, TenantName};
use thermae_service::config;
use thermae_service::units::{ByteSize, Millis};

/// How much longer a record lives than any message: clocks of the fleet's machines differ, and a copy may wait to be resolved.
const CLOCKS: Duration = Duration::from_secs(3600);

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
    /// RabbitMQ users beside the scheduler's own that speak for every tenant: those that other schedulers of this fleet connect
    /// as, or connected as before.
    pub fleet_users: Vec<String>,
    /// Jobs handed out per slot of a pool's workers. Above 1, so that a worker finds its next job in its queue.
    pub credit_factor: f64,
    /// Part of a pool's slots, and at least one of them, that each tenant leaves to the others while others use the pool: had their
    /// last job there within five minutes. 0 leaves nothing.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub reserve: f64,
    /// Jobs taken from each submit queue ahead of their turn. Everything else waits in RabbitMQ.
    pub window: u16,
    /// Bytes of refused messages, cancels and questions that are taken from one tenant a second, after 16 seconds' worth
    /// at once. Each counts as 4 KiB at least. Beyond that the tenant's queue by which they came waits, and RabbitMQ
    /// refuses what is published to it once it is full.
    pub refused_bytes: ByteSize,
    /// Bytes of jobs that may be held ahead of their turn, over all submit queues. With many queues each one's window shrinks so that
    /// jobs of `max_job_bytes` fit; it never falls below one job.
    pub lane_memory: ByteSize,
    /// A submit queue that got no job for so long is deleted. The next job makes it anew.
    pub lane_idle: Millis,
    /// Jobs being handed out at once.
    pub concurrency: usize,
    /// Largest job message.
    pub max_job_bytes: ByteSize,
    /// How long a job that was handed out and never started counts against its pool's credit.
    pub credit_ttl: Millis,
    /// How long a message may be under way, from its submission to the start of its code. A job that comes later is refused.
    pub message_max_age: Millis,
    /// How long a job's record is kept after its last change. At least an hour longer than `message_max_age`, so that no record is
    /// forgotten before the last copy of its message; at most 8 days.
    pub record_ttl: Millis,
    /// How long the outcomes that the scheduler itself records (rejected, cancelled, lost) stay readable.
    pub outcome_ttl: Millis,
    /// Bytes of outcomes that are kept readable at once, of all tenants; what is more is told once and not kept.
    pub outcome_bytes: ByteSize,
    /// The same of one tenant.
    pub tenant_outcome_bytes: ByteSize,
    /// After the registry was emptied, how long a missing record may yet be announced by its worker.
    pub record_grace: Millis,
    /// A job that could not be handed out for so long goes back to its queue, well before RabbitMQ's acknowledgement time-out.
    pub hold_max: Millis,
    /// How long a pool may be without a worker that can run its jobs before those that wait for it are rejected. Long enough for workers
    /// to be drained and started anew.
    pub no_worker_after: Millis,
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
    /// How long the outcomes that the scheduler itself records for it stay readable; the scheduler's `outcome_ttl`
    /// where it is missing.
    pub outcome_ttl: Option<Millis>,
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self { languages: vec![Language::Python], outcome_ttl: None }
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
            fleet_users: Vec::new(),
            credit_factor: 2.0,
            reserve: 0.125,
            window: 32,
            refused_bytes: ByteSize::mib(1),
            lane_memory: ByteSize::mib(1024),
            lane_idle: Millis::from_secs(24 * 3600),
            concurrency: 64,
            max_job_bytes: ByteSize::mib(1),
            credit_ttl: Millis::from_secs(300),
            message_max_age: Millis::from_secs(24 * 3600),
            record_ttl: Millis::from_secs(25 * 3600),
            outcome_ttl: Millis::from_secs(3600),
            outcome_bytes: ByteSize::mib(1024),
            tenant_outcome_bytes: ByteSize::mib(256),
            record_grace: Millis::from_secs(30),
            hold_max: Millis::from_secs(15 * 60),
            no_worker_after: Millis::from_secs(15 * 60),
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
        if !(0.0..=1.0).contains(&self.reserve) {
            return refuse("reserve", "must be between 0 and 1");
        }
        if self.refused_bytes.as_u64() == 0 {
            return refuse("refused_bytes", "must be at least 1");
        }
        if self.window == 0 || self.concurrency == 0 {
            return refuse("window", "window and concurrency must be at least 1");
        }
        for (tenant, options) in &self.tenants {
            if options.weight == 0 || options.weight > 1_000_000 {
                return refuse(&format!("tenants.{tenant}.weight"), "must be between 1 and 1000000");
            }
        }
        if self.lane_idle.duration().is_zero() {
            return refuse("lane_idle", "must be longer than 0");
        }
        if self.lead_renew.duration() * 2 > self.lead_ttl.duration() {
            return refuse("lead_renew", "must be at most half of lead_ttl");
        }
        if self.record_ttl.duration() < self.message_max_age.duration() + CLOCKS {
            return refuse("record_ttl", "must be at least an hour longer than message_max_age");
        }
        if self.record_ttl.duration() > RUNNING_TTL {
            return refuse("record_ttl", "must be at most 8 days");
        }
        if self.tick.duration().is_zero() || self.lead_renew.duration().is_zero() {
            return refuse("tick", "tick and lead_renew must be longer than 0");
        }
        Ok(())
    }

    /// What is kept of a job that ends, of this pool where it is known.
    pub(crate) fn keep(&self, pool: Option<&PoolName>) -> Keep {
        let outcome = pool.and_then(|pool| self.pools.get(pool)?.outcome_ttl).unwrap_or(self.outcome_ttl);
        let budget = Budget { tenant: self.tenant_outcome_bytes.as_u64(), all: self.outcome_bytes.as_u64() };
        Keep { outcome: outcome.duration(), record: self.record_ttl.duration(), budget }
    }

    /// A tenant's weight; 1 for one that may not submit.
    pub(crate) fn weight(&self, tenant: &TenantName) -> u32 {
        self.tenant(tenant).map_or(1, |options| options.weight.max(1))
    }

    /// A tenant's share; `None` for one that may not submit.
    pub fn tenant(&self, tenant: &TenantName) -> Option<&TenantOptions> {
        match self.tenants.get(tenant) {
            Some(options) => Some(options),
            None => self.admit_unknown_tenants.then_some(&self.other_tenants),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_values_are_refused_by_name() {
        type Spoil = fn(&mut Options);
        let default = Options::default();
        assert!(default.check().is_ok());
        let bad: [(&str, Spoil); 11] = [
            ("credit_factor", |o| o.credit_factor = 0.5),
            ("credit_factor", |o| o.credit_factor = f64::NAN),
            ("reserve", |o| o.reserve = 1.5),
            ("reserve", |o| o.reserve = f64::NAN),
            ("refused_bytes", |o| o.refused_bytes = ByteSize::bytes(0)),
            ("window", |o| o.window = 0),
            ("lane_idle", |o| o.lane_idle = Millis::from_secs(0)),
            ("lead_renew", |o| o.lead_renew = o.lead_ttl),
            // A record that is forgotten before the last copy of its message would let the job run again.
            ("record_ttl", |o| o.record_ttl = o.message_max_age),
            ("record_ttl", |o| o.record_ttl = Millis::from_secs(9 * 24 * 3600)),
            ("tick", |o| o.tick = Millis::from_secs(0)),
        ];
        for (key, spoil) in bad {
            let mut options = default.clone();
            spoil(&mut options);
            let why = options.check().unwrap_err().to_string();
            assert!(why.contains(key), "{key}: {why}");
        }
    }
}
