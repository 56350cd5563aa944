//! Lanes. A lane is the submit queue of one tenant, class and pool.

use std::fmt;

use thermae_schemas::{Class, PoolName, TenantName, names};

/// A lane, named by its parts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Lane {
    pub(crate) tenant: TenantName,
    pub(crate) class: Class,
    pub(crate) pool: PoolName,
}

impl Lane {
    /// Reads a routing key of the exchange `submit`. `None` if the key names no lane.
    pub(crate) fn parse(key: &str) -> Option<Self> {
        let mut words = key.split('.');
        let tenant = TenantName::new(words.next()?).ok()?;
        let class = words.next()?;
        let class = Class::ALL.into_iter().find(|c| c.as_str() == class)?;
        let pool = PoolName::new(words.next()?).ok()?;
        words.next().is_none().then_some(Self { tenant, class, pool })
    }
}

/// Writes the lane's routing key.
impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&names::submit_key(&self.tenant, self.class, &self.pool))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_is_its_key() {
        let lane = Lane::parse("acme.high.default").unwrap();
        assert_eq!((lane.to_string().as_str(), lane.class), ("acme.high.default", Class::High));
        for bad in ["", "acme", "acme.cancel", "acme.high", "acme.urgent.default", "acme.high.default.x", ".high.p"] {
            assert_eq!(Lane::parse(bad), None, "{bad:?}");
        }
    }
}
