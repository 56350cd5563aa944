//! Yeses that count for more calls than the one that was asked about.

use std::collections::HashMap;
use std::sync::Arc;

use thermae_capabilities::At;
use tokio::sync::watch;

/// The yeses of one job that are not used up, by capability.
#[derive(Debug)]
pub(crate) struct Yeses(watch::Sender<HashMap<At, Yes>>);

#[derive(Debug)]
struct Yes {
    /// How many more calls may pass.
    calls: u64,
    /// Id of the call that the last yes was about.
    about: Arc<str>,
}

impl Default for Yeses {
    fn default() -> Self {
        Self(watch::Sender::new(HashMap::new()))
    }
}

/// Tells of new yeses.
pub(super) struct News(watch::Receiver<HashMap<At, Yes>>);

impl News {
    /// Waits for a yes that has come since the last wait.
    pub(super) async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending().await
        }
    }
}

impl Yeses {
    /// Tells of yeses that come from now on.
    pub(super) fn news(&self) -> News {
        News(self.0.subscribe())
    }

    /// Uses one call of each of these capabilities, or of none. Returns the id of a call that was asked about.
    pub(super) fn take(&self, at: &[At]) -> Option<Arc<str>> {
        let mut about = None;
        self.0.send_if_modified(|yeses| {
            if at.iter().all(|at| yeses.get(at).is_some_and(|yes| yes.calls > 0)) {
                for at in at {
                    if let Some(yes) = yeses.get_mut(at) {
                        yes.calls -= 1;
                        about = Some(Arc::clone(&yes.about));
                    }
                }
            }
            // Nobody waits for fewer of them.
            false
        });
        about
    }

    /// Lets this many more calls of these capabilities pass.
    pub(super) fn give(&self, at: &[At], calls: u32, about: &Arc<str>) {
        if calls == 0 {
            return;
        }
        self.0.send_modify(|yeses| {
            for at in at {
                let yes = yeses.entry(*at).or_insert_with(|| Yes { calls: 0, about: Arc::clone(about) });
                yes.calls = yes.calls.saturating_add(u64::from(calls));
                yes.about = Arc::clone(about);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_yes_counts_for_so_many_calls_of_its_own_capabilities() {
        let (first, second) = (At { set: 0, capability: 0 }, At { set: 1, capability: 4 });
        let (yeses, about) = (Yeses::default(), Arc::from("c"));
        let mut news = yeses.news();
        assert!(yeses.take(&[first]).is_none());
        yeses.give(&[first], 0, &about);
        assert!(yeses.take(&[first]).is_none());
        yeses.give(&[first], 2, &about);
        news.next().await;
        assert!(yeses.take(&[first, second]).is_none(), "one of two is not enough");
        yeses.give(&[second], 1, &about);
        assert_eq!(yeses.take(&[first, second]).as_deref(), Some("c"));
        assert!(yeses.take(&[first, second]).is_none());
        assert_eq!(yeses.take(&[first]).as_deref(), Some("c"));
        assert!(yeses.take(&[first]).is_none() && yeses.take(&[]).is_none());
    }
}
