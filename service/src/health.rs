//! What a process needs before it is of use, as named conditions that its components set.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use tokio::sync::watch;

/// The conditions of one process. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Health(Arc<watch::Sender<BTreeMap<String, State>>>);

/// How one condition stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct State {
    /// Whether it is met.
    pub ready: bool,
    /// Why not, or what is known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

impl Default for Health {
    fn default() -> Self {
        Self(Arc::new(watch::channel(BTreeMap::new()).0))
    }
}

impl Health {
    /// A process without conditions, which is ready.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a condition, not met until it is set (or finds it, if it is there).
    pub fn condition(&self, name: &str) -> Condition {
        self.0.send_if_modified(|states| {
            let missing = !states.contains_key(name);
            if missing {
                states.insert(name.to_owned(), State { ready: false, detail: "starting".to_owned() });
            }
            missing
        });
        Condition { health: self.clone(), name: name.into() }
    }

    /// Whether every condition is met.
    pub fn is_ready(&self) -> bool {
        all(&self.0.borrow())
    }

    /// Every condition, by name.
    pub fn states(&self) -> BTreeMap<String, State> {
        self.0.borrow().clone()
    }

    /// News of the conditions, for whoever waits for one of them.
    pub fn subscribe(&self) -> watch::Receiver<BTreeMap<String, State>> {
        self.0.subscribe()
    }

    /// Waits until every condition is met.
    pub async fn wait_ready(&self) {
        // The sender lives in `self`, so the channel can't close under the waiter.
        let _ = self.0.subscribe().wait_for(all).await;
    }
}

fn all(states: &BTreeMap<String, State>) -> bool {
    states.values().all(|state| state.ready)
}

/// One condition, to be set by the component that it is about. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Condition {
    health: Health,
    name: Arc<str>,
}

impl Condition {
    /// It is met.
    pub fn ready(&self) {
        self.set(true, String::new());
    }

    /// It is met, and this is to be known of it.
    pub fn ready_with(&self, detail: impl Into<String>) {
        self.set(true, detail.into());
    }

    /// It is not met, and this is why.
    pub fn not_ready(&self, why: impl Into<String>) {
        self.set(false, why.into());
    }

    fn set(&self, ready: bool, detail: String) {
        let state = State { ready, detail };
        self.health.0.send_if_modified(|states| {
            let changed = states.get(&*self.name) != Some(&state);
            if changed {
                states.insert(self.name.to_string(), state);
            }
            changed
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_means_every_condition_is_met() {
        let health = Health::new();
        assert!(health.is_ready());
        let (bus, pools) = (health.condition("bus"), health.condition("pools"));
        bus.ready();
        assert!(!health.is_ready());
        assert_eq!(health.states()["pools"].detail, "starting");
        pools.ready();
        assert!(health.is_ready());
        bus.not_ready("connection refused");
        assert_eq!(health.states()["bus"], State { ready: false, detail: "connection refused".into() });
        health.condition("pools");
        assert!(health.states()["pools"].ready, "asking for a condition again does not reset it");
    }

    #[tokio::test]
    async fn waiting_ends_when_the_last_one_is_met() {
        let health = Health::new();
        let condition = health.condition("bus");
        let waiting = tokio::spawn({
            let health = health.clone();
            async move { health.wait_ready().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        condition.ready();
        waiting.await.unwrap();
    }
}
