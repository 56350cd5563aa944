//! What came of the last requests of each tenant, and of the last calls that waited for approval.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use thermae_schemas::{JobId, TenantName};
use tokio::time::Instant;

/// Whose it is, and its id.
pub(crate) type Key = (TenantName, JobId);

/// Most answers of a tenant that are remembered.
const MOST: usize = 1024;

/// Most bytes of them.
const MOST_BYTES: usize = 4 << 20;

/// How long those of a tenant are remembered after its last one.
const REMEMBERED: Duration = Duration::from_secs(600);

/// The answers to what ended last. No tenant makes another one's be forgotten.
#[derive(Default)]
pub(crate) struct Ended(HashMap<TenantName, Answers>);

struct Answers {
    by_id: HashMap<JobId, Bytes>,
    order: VecDeque<JobId>,
    bytes: usize,
    used: Instant,
}

impl Ended {
    /// Remembers an answer, and forgets the tenant's oldest ones if there are too many.
    pub(crate) fn remember(&mut self, (tenant, id): Key, answer: Bytes, now: Instant) {
        self.0.retain(|_, answers| now.duration_since(answers.used) < REMEMBERED);
        let new = || Answers { by_id: HashMap::new(), order: VecDeque::new(), bytes: 0, used: now };
        self.0.entry(tenant).or_insert_with(new).remember(id, answer, now);
    }

    /// The answer to what has this key.
    pub(crate) fn find(&self, (tenant, id): &Key) -> Option<Bytes> {
        self.0.get(tenant)?.by_id.get(id).cloned()
    }
}

impl Answers {
    fn remember(&mut self, id: JobId, answer: Bytes, now: Instant) {
        self.used = now;
        self.bytes += answer.len();
        if let Some(old) = self.by_id.insert(id.clone(), answer) {
            self.bytes -= old.len();
        } else {
            self.order.push_back(id);
        }
        while self.order.len() > MOST || (self.bytes > MOST_BYTES && self.order.len() > 1) {
            let Some(oldest) = self.order.pop_front() else { break };
            self.bytes -= self.by_id.remove(&oldest).map_or(0, |answer| answer.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_of_a_tenant_are_forgotten_first() {
        let key = |tenant: &str, n: usize| (TenantName::new(tenant).unwrap(), JobId::new(format!("r{n}")).unwrap());
        let (mut ended, now) = (Ended::default(), Instant::now());
        let done = || Bytes::from_static(b"done");
        ended.remember(key("globex", 0), Bytes::from_static(b"other"), now);
        for n in 0..=MOST {
            ended.remember(key("acme", n), done(), now);
        }
        let knows = |ended: &Ended, tenant: &str, n: usize| ended.find(&key(tenant, n)).is_some();
        assert!(!knows(&ended, "acme", 0) && knows(&ended, "acme", 1) && knows(&ended, "acme", MOST));
        ended.remember(key("acme", 0), Bytes::from(vec![0; MOST_BYTES]), now);
        assert!(knows(&ended, "acme", 0) && !knows(&ended, "acme", MOST));
        assert_eq!(ended.find(&key("globex", 0)).unwrap(), "other");
        ended.remember(key("acme", 1), done(), now + REMEMBERED);
        assert!(!knows(&ended, "globex", 0) && !knows(&ended, "acme", 0) && knows(&ended, "acme", 1));
    }
}
