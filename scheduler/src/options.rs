//! The options of the scheduler.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thermae_backplane::registry::{Budget, Keep, RUNNING_TTL};
use thermae_schemas::{Language, PoolName, TenantName};
use thermae_service::config;
use thermae_service::units::{ByteSize, Millis};

/// How much longer a record must live than any message. The clocks of the fleet's machines differ, and a copy of a
/// message may wait in the queue `resolve`.
const CLOCKS: Duration = Duration::from_secs(3600);

/// The options of the scheduler. All schedulers of a fleet should have the same ones.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Pools that jobs may name even while no worker serves them. Pools that a living worker announces need not be
    /// listed.
    pub pools: BTreeMap<PoolName, PoolOptions>,
    /// Tenants with a weight or a bound of their own.
    pub tenants: BTreeMap<TenantName, TenantOptions>,
    /// Weight and bound of tenants that are not listed.
    pub other_tenants: TenantOptions,
    /// Whether tenants without an entry in `scheduler.tenants` may submit jobs. If `false`, their jobs are rejected
    /// (`unknown_tenant`). RabbitMQ decides who may connect at all.
    pub admit_unknown_tenants: bool,
    /// RabbitMQ users that may speak for every tenant, in addition to the scheduler's own user: those that other
    /// schedulers of this fleet connect as, or connected as before.
    pub fleet_users: Vec<String>,
    /// Jobs that may be handed out at once for each slot of a pool's workers, from 1 to 100. Above 1, a worker finds
    /// its next job in its queue already.
    pub credit_factor: f64,
    /// Part of a pool's slots, from 0 to 1, that each tenant leaves to the others while others use the pool. It is at
    /// least one slot, unless the part is 0. A tenant counts as a user of the pool until five minutes after its last
    /// job came.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub reserve: f64,
    /// Number of jobs that are taken from each submit queue ahead of their turn, at least 1. All others wait in
    /// RabbitMQ.
    pub window: u16,
    /// Bytes per second of refused messages, cancels, questions (for the list of sessions), requests to sessions and
    /// repeated outcomes that the scheduler accepts from one tenant, after a burst of 16 seconds' worth. Each counts as
    /// at least 4 KiB. Beyond that, the tenant's queue that they came through waits, and RabbitMQ refuses further
    /// messages once it is full.
    pub refused_bytes: ByteSize,
    /// Bytes of jobs that may be held ahead of their turn, for all submit queues together. If there are many queues,
    /// the `window` of each shrinks so that jobs of `max_job_bytes` fit. It never falls below one job.
    pub lane_memory: ByteSize,
    /// A submit queue (lane) that got no job for this long is deleted. The next job creates it again.
    pub lane_idle: Millis,
    /// Number of hand-outs that may be in progress at the same time, at least 1.
    pub concurrency: usize,
    /// Largest size of a job's message. A job with a larger one is rejected (`job_too_large`). It also bounds the first
    /// message of a request to a session (`schema_violation`).
    pub max_job_bytes: ByteSize,
    /// How long a job that was handed out but never started counts against its pool's credit (the number of jobs that
    /// may be handed out at once).
    pub credit_ttl: Millis,
    /// How old a job's message may be when the scheduler takes it, counted from its submission. An older job is
    /// rejected (`submission_expired`), and so is a job that does not start within this time after it was handed out.
    pub message_max_age: Millis,
    /// How long Redis keeps a job's record after its last change. At least an hour longer than `message_max_age`, so
    /// that the record outlives the last copy of the job's message. At most 8 days.
    pub record_ttl: Millis,
    /// How long the outcomes that the scheduler itself records (`rejected`, `cancelled`, `lost`) stay readable.
    pub outcome_ttl: Millis,
    /// Largest total size of the outcomes that Redis keeps, for all tenants together. An outcome that does not fit is
    /// sent once, and Redis does not keep it.
    pub outcome_bytes: ByteSize,
    /// Largest total size of the outcomes that Redis keeps for one tenant. An outcome that does not fit is sent once,
    /// and Redis does not keep it.
    pub tenant_outcome_bytes: ByteSize,
    /// How long the scheduler waits, after Redis was emptied, for workers to announce themselves and the jobs whose
    /// records are missing.
    pub record_grace: Millis,
    /// How long the scheduler holds a job that it can't hand out. After that, the job goes back to its queue. Make this
    /// much shorter than RabbitMQ's acknowledgement timeout (`consumer_timeout`).
    pub hold_max: Millis,
    /// How long a pool may be without a worker that can run its jobs. After that, the jobs that wait for it are
    /// rejected. Make this long enough to drain workers and start new ones.
    pub no_worker_after: Millis,
    /// How long the queue of a dead worker is watched for messages that come back late. After that, it is deleted. Make
    /// this longer than RabbitMQ takes to notice a dead connection.
    pub worker_grace: Millis,
    /// How often the scheduler reads the fleet's state again if it gets no news.
    pub tick: Millis,
    /// How long the leading scheduler keeps its lead without renewing it.
    pub lead_ttl: Millis,
    /// How often the leading scheduler renews its lead, and how often the others try to get it. At most half of
    /// `lead_ttl`.
    pub lead_renew: Millis,
}

/// What the scheduler knows of a pool before a worker announces it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PoolOptions {
    /// Languages that the pool runs, until a worker announces its own.
    pub languages: Vec<Language>,
    /// How long the outcomes that the scheduler itself records for this pool stay readable. By default,
    /// `scheduler.outcome_ttl`.
    pub outcome_ttl: Option<Millis>,
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self { languages: vec![Language::python(), Language::bash()], outcome_ttl: None }
    }
}

/// A tenant's weight and bound.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TenantOptions {
    /// A tenant's share of a busy pool, in proportion to the weights of the other tenants. From 1 to 1000000.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub weight: u32,
    /// Number of jobs that a tenant may have handed out at once, over all pools. By default, there is no bound.
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
    /// Checks what the types alone can't express.
    ///
    /// # Errors
    /// [`config::Error`], which names the key.
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

    /// How long, and within which budget, Redis keeps what a job leaves when the scheduler ends it. `pool` is the job's
    /// pool, if it is known.
    pub(crate) fn keep(&self, pool: Option<&PoolName>) -> Keep {
        let outcome = pool.and_then(|pool| self.pools.get(pool)?.outcome_ttl).unwrap_or(self.outcome_ttl);
        let budget = Budget { tenant: self.tenant_outcome_bytes.as_u64(), all: self.outcome_bytes.as_u64() };
        Keep { outcome: outcome.duration(), record: self.record_ttl.duration(), budget }
    }

    /// A tenant's weight. It is 1 for a tenant that may not submit jobs.
    pub(crate) fn weight(&self, tenant: &TenantName) -> u32 {
        self.tenant(tenant).map_or(1, |options| options.weight.max(1))
    }

    /// A tenant's weight and bound. `None` for a tenant that may not submit jobs.
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
