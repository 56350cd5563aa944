//! What a process needs before it is ready, as named conditions. Its components set them, and [`crate::http`] serves
//! them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use tokio::sync::watch;

/// The conditions of one process. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Health(Arc<watch::Sender<BTreeMap<String, State>>>);

/// The state of one condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct State {
    /// Whether the condition is met.
    pub ready: bool,
    /// Why it is not met, or what else is known. It may be empty.
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

    /// The condition with this name. If it doesn't exist, it is added, and is not met until it is set.
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

    /// Whether all conditions are met.
    pub fn is_ready(&self) -> bool {
        all(&self.0.borrow())
    }

    /// All conditions, by name.
    pub fn states(&self) -> BTreeMap<String, State> {
        self.0.borrow().clone()
    }

    /// Follows the conditions, for a task that waits for one of them.
    pub fn subscribe(&self) -> watch::Receiver<BTreeMap<String, State>> {
        self.0.subscribe()
    }

    /// Waits until all conditions are met.
    pub async fn wait_ready(&self) {
        // `self` has the sender, so the channel can't close meanwhile.
        let _ = self.0.subscribe().wait_for(all).await;
    }
}

fn all(states: &BTreeMap<String, State>) -> bool {
    states.values().all(|state| state.ready)
}

/// One condition, which the component that it is about sets. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Condition {
    health: Health,
    name: Arc<str>,
}

impl Condition {
    /// Notes that the condition is met.
    pub fn ready(&self) {
        self.set(true, String::new());
    }

    /// Notes that the condition is met, with a detail for `/readyz`.
    pub fn ready_with(&self, detail: impl Into<String>) {
        self.set(true, detail.into());
    }

    /// Notes that the condition is not met, and why.
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
