//! Checks the options.

use super::Options;

/// An option whose value can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {problem}")]
pub struct Invalid {
    /// Path of the option's key.
    pub key: String,
    /// What is wrong with the value.
    pub problem: String,
}

impl Options {
    /// Checks what the types can't express.
    ///
    /// # Errors
    /// The first key whose value can't be used.
    pub fn validate(&self) -> Result<(), Invalid> {
        let check = |ok: bool, key: String, problem: &str| {
            if ok { Ok(()) } else { Err(Invalid { key, problem: problem.to_owned() }) }
        };
        check(!self.pools.is_empty(), "pools".into(), "a worker needs at least one pool")?;
        check(!self.heartbeat_every.0.is_zero(), "heartbeat_every".into(), "must not be zero")?;
        check(
            self.lease.0 >= self.heartbeat_every.0 * 2,
            "lease".into(),
            "must be at least twice heartbeat_every, or one late heartbeat kills every job",
        )?;
        check(
            self.artifacts.keep.is_none_or(|keep| keep.0 >= self.artifacts.url_ttl.0.max(self.record_ttl.0)),
            "artifacts.keep".into(),
            "must be at least as long as artifacts.url_ttl and record_ttl: until then, clients may ask for an artifact",
        )?;
        check(!self.artifacts.checkpoint_ttl.0.is_zero(), "artifacts.checkpoint_ttl".into(), "must not be zero")?;
        check(
            self.artifacts.checkpoint_ttl_max.0 >= self.artifacts.checkpoint_ttl.0,
            "artifacts.checkpoint_ttl_max".into(),
            "must be at least artifacts.checkpoint_ttl",
        )?;
        self.audit.validate().map_err(|(k, problem)| Invalid { key: format!("audit.{k}"), problem })?;
        self.tokens.validate().map_err(|(k, why)| Invalid { key: format!("tokens.{k}"), problem: why.to_owned() })?;
        check(self.refused_bytes.0 > 0, "refused_bytes".into(), "must not be zero")?;
        check(self.docker.uids > 0, "docker.uids".into(), "must not be zero")?;
        check(self.docker.first_uid > 0, "docker.first_uid".into(), "must not be 0 (root)")?;
        check(
            self.docker.first_uid.checked_add(self.docker.uids).is_some_and(|end| end < u32::MAX),
            "docker.uids".into(),
            "the last of these user ids is higher than the kernel allows",
        )?;
        for (name, pool) in &self.pools {
            let key = |k: &str| format!("pools.{name}.{k}");
            check(pool.slots() > 0 && pool.slots() <= 4096, key("slots"), "must be 1 to 4096")?;
            check(
                pool.warm() > 0,
                key("warm"),
                "must not be zero: the worker makes a container to see whether it can",
            )?;
            check(pool.create_parallel > 0, key("create_parallel"), "must not be zero")?;
            check((1..=4096).contains(&pool.max_sessions), key("max_sessions"), "must be 1 to 4096")?;
            check(pool.max_sessions_per_tenant != Some(0), key("max_sessions_per_tenant"), "must not be zero")?;
            check((2..=262_144).contains(&pool.cpu_shares), key("cpu_shares"), "must be 2 to 262144")?;
            // The kernel refuses less than a thousandth of a second in each period.
            check(pool.cpu_quota.is_none_or(|n| (1..=100_000).contains(&n)), key("cpu_quota"), "must be 1 to 100000")?;
            check(pool.tenant_traffic() > 0, key("tenant_traffic"), "must not be zero")?;
            check(pool.retire_after_jobs > 0, key("retire_after_jobs"), "must not be zero")?;
            check(!pool.ping_every.0.is_zero(), key("ping_every"), "must not be zero")?;
            check(!pool.languages.is_empty(), key("languages"), "must not be empty")?;
            for language in &pool.languages {
                let known = thermae_runner::languages().any(|known| known == language.as_str());
                check(known, key("languages"), "the languages are python and bash")?;
            }
            super::paths::validate(pool).map_err(|(k, problem)| Invalid { key: key(&k), problem })?;
            pool.bounds.validate().map_err(|(k, problem)| Invalid { key: key(&format!("bounds.{k}")), problem })?;
            pool.limits.validate().map_err(|(k, problem)| Invalid { key: key(&format!("limits.{k}")), problem })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use thermae_service::units::Millis;

    use super::*;
    use crate::options::TokenOptions;

    #[test]
    fn the_defaults_are_valid() {
        Options::default().validate().unwrap();
    }

    #[test]
    fn options_of_tokens_are_named_by_their_keys() {
        let key = |tokens| Options { tokens, ..Options::default() }.validate().unwrap_err().key;
        let default = TokenOptions::default();
        assert_eq!(key(TokenOptions { revoked: Some("revoked".into()), ..default.clone() }), "tokens.revoked");
        assert_eq!(key(TokenOptions { skew: Millis::from_secs(301), ..default }), "tokens.skew");
    }

    #[test]
    fn a_limit_above_its_ceiling_is_named_by_its_key() {
        let mut options = Options::default();
        for pool in options.pools.values_mut() {
            pool.limits.default.wall = Millis::from_secs(3600);
        }
        assert_eq!(options.validate().unwrap_err().key, "pools.default.limits.default.wall");
    }
}
