//! Yeses that count for more calls than the one that was asked about.

use std::collections::HashMap;
use std::sync::Arc;

use thermae_capabilities::At;
use tokio::sync::watch;

/// The yeses of one job that are not used up. A yes is about all capabilities that wanted approval of the call that was
/// asked about, and counts only for calls of exactly these: whoever gave it was shown the pattern of the first, so it
/// must not let a call pass that another capability of the same set takes.
#[derive(Debug)]
pub(crate) struct Yeses(watch::Sender<HashMap<Vec<At>, Yes>>);

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
pub(super) struct News(watch::Receiver<HashMap<Vec<At>, Yes>>);

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

    /// Uses one call of a yes about these capabilities. Returns the id of the call that was asked about.
    pub(super) fn take(&self, at: &[At]) -> Option<Arc<str>> {
        let mut about = None;
        self.0.send_if_modified(|yeses| {
            if let Some(yes) = yeses.get_mut(at).filter(|yes| yes.calls > 0) {
                yes.calls -= 1;
                about = Some(Arc::clone(&yes.about));
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
            let yes = yeses.entry(at.to_vec()).or_insert_with(|| Yes { calls: 0, about: Arc::clone(about) });
            yes.calls = yes.calls.saturating_add(u64::from(calls));
            yes.about = Arc::clone(about);
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
        assert_eq!([(); 3].map(|()| yeses.take(&[first]).is_some()), [true, true, false]);
        assert!(yeses.take(&[]).is_none());
    }

    /// A job brings a set of its own beside that of its token, so it chooses which pattern is shown.
    #[test]
    fn a_yes_about_two_capabilities_is_none_about_one_of_them() {
        let (narrow, wide) = (At { set: 0, capability: 0 }, At { set: 1, capability: 0 });
        let (yeses, about) = (Yeses::default(), Arc::from("c"));
        yeses.give(&[narrow, wide], 4, &about);
        assert!(yeses.take(&[wide]).is_none() && yeses.take(&[narrow]).is_none());
        assert_eq!(yeses.take(&[narrow, wide]).as_deref(), Some("c"));
    }
}
