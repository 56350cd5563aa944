//! Exchanges: they decide which queues a message reaches.

use std::sync::Arc;

use ahash::HashMap;

use crate::bus::{Error, ExchangeKind, ExchangeSpec, QueueSpec};

/// Name of a queue.
pub(super) type Name = Arc<str>;

/// An exchange and its bindings.
pub(super) struct Exchange {
    pub(super) spec: ExchangeSpec,
    /// Queues bound without a wildcard, by binding key. For a fan-out exchange, all queues are under the empty key.
    exact: HashMap<String, Vec<Name>>,
    /// Binding keys with `*` or `#`, and their queues.
    patterns: Vec<(String, Name)>,
    /// Bindings of other exchanges: binding key and name of the exchange that gets the message.
    onward: Vec<(String, String)>,
}

impl Exchange {
    pub(super) fn new(spec: ExchangeSpec) -> Self {
        Self { spec, exact: HashMap::default(), patterns: Vec::new(), onward: Vec::new() }
    }

    /// Binds another exchange to this one.
    pub(super) fn lead_to(&mut self, key: &str, exchange: &str) {
        self.onward.push((key.to_owned(), exchange.to_owned()));
    }

    /// The exchanges that a message with this key is passed on to.
    pub(super) fn leads_to(&self, key: &str) -> impl Iterator<Item = &str> {
        let all = self.spec.kind == ExchangeKind::Fanout;
        let matching = self.onward.iter().filter(move |(pattern, _)| all || matches(pattern, key));
        matching.map(|(_, exchange)| exchange.as_str())
    }

    /// An error if the exchange is declared again with other properties.
    pub(super) fn agrees(&self, spec: &ExchangeSpec) -> Result<(), Error> {
        if self.spec == *spec {
            return Ok(());
        }
        Err(Error::Topology(format!("exchange {:?} exists with other properties", spec.name)))
    }

    pub(super) fn bind(&mut self, key: &str, queue: &Name) {
        let is_pattern = self.spec.kind == ExchangeKind::Topic && key.split('.').any(|word| word == "*" || word == "#");
        if is_pattern {
            let binding = (key.to_owned(), queue.clone());
            if !self.patterns.contains(&binding) {
                self.patterns.push(binding);
            }
            return;
        }
        let key = if self.spec.kind == ExchangeKind::Fanout { "" } else { key };
        let bound = self.exact.entry(key.to_owned()).or_default();
        if !bound.contains(queue) {
            bound.push(queue.clone());
        }
    }

    /// Removes all bindings of a queue.
    pub(super) fn unbind(&mut self, queue: &str) {
        self.exact.retain(|_, bound| {
            bound.retain(|name| &**name != queue);
            !bound.is_empty()
        });
        self.patterns.retain(|(_, name)| &**name != queue);
    }

    /// The queues that a message with this key reaches, each once.
    pub(super) fn route(&self, key: &str) -> Vec<Name> {
        let key = if self.spec.kind == ExchangeKind::Fanout { "" } else { key };
        let mut found = self.exact.get(key).cloned().unwrap_or_default();
        for (pattern, name) in &self.patterns {
            if matches(pattern, key) && !found.contains(name) {
                found.push(name.clone());
            }
        }
        found
    }
}

/// Whether a topic pattern matches a key: `*` is one word, `#` is any number of words.
fn matches(pattern: &str, key: &str) -> bool {
    fn words(pattern: &[&str], key: &[&str]) -> bool {
        match (pattern.split_first(), key.split_first()) {
            (None, None) => true,
            (Some((&"#", rest)), _) => (0..=key.len()).any(|skip| words(rest, &key[skip..])),
            (Some((&"*", pattern)), Some((_, key))) => words(pattern, key),
            (Some((word, pattern)), Some((found, key))) => word == found && words(pattern, key),
            _ => false,
        }
    }
    words(&pattern.split('.').collect::<Vec<_>>(), &key.split('.').collect::<Vec<_>>())
}

/// An error if the queue is declared again with other properties. New bindings are allowed.
pub(super) fn same_queue(known: &QueueSpec, spec: &QueueSpec) -> Result<(), Error> {
    let bare = |spec: &QueueSpec| QueueSpec { bindings: Vec::new(), ..spec.clone() };
    if bare(known) == bare(spec) {
        return Ok(());
    }
    Err(Error::Topology(format!("queue {:?} exists with other properties", spec.name)))
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn topics_match_by_words() {
        for (pattern, key) in [("a.b", "a.b"), ("*.b", "a.b"), ("#", "a.b.c"), ("a.#", "a"), ("a.#.d", "a.b.c.d")] {
            assert!(matches(pattern, key), "{pattern} {key}");
        }
        for (pattern, key) in [("*.b", "a.c"), ("*", "a.b"), ("a.*", "a"), ("*.cancel", "t.high.cancel"), ("a", "b")] {
            assert!(!matches(pattern, key), "{pattern} {key}");
        }
    }
}
