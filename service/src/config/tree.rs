//! The values of one source, by their paths.

use config::{ConfigError, Map, Source, Value, ValueKind};

/// The values of one source.
#[derive(Debug, Clone, Default)]
pub(super) struct Tree(Map<String, Value>);

impl Tree {
    pub(super) fn table(&mut self) -> &mut Map<String, Value> {
        &mut self.0
    }

    /// Inserts a value at its path. Existing tables on the way are kept.
    pub(super) fn insert(&mut self, path: &[String], value: Value) {
        insert(&mut self.0, path, value);
    }
}

impl From<Map<String, Value>> for Tree {
    fn from(table: Map<String, Value>) -> Self {
        Self(table)
    }
}

/// Built from dotted paths and their values.
impl FromIterator<(String, Value)> for Tree {
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(values: I) -> Self {
        let mut tree = Self::default();
        for (path, value) in values {
            tree.insert(&path.split('.').map(str::to_owned).collect::<Vec<_>>(), value);
        }
        tree
    }
}

fn insert(tree: &mut Map<String, Value>, path: &[String], value: Value) {
    match path {
        [] => {}
        [last] => {
            tree.insert(last.clone(), value);
        }
        [first, rest @ ..] => {
            let inner = tree.entry(first.clone()).or_insert_with(|| Value::new(None, ValueKind::Table(Map::new())));
            if !matches!(inner.kind, ValueKind::Table(_)) {
                inner.kind = ValueKind::Table(Map::new());
            }
            if let ValueKind::Table(table) = &mut inner.kind {
                insert(table, rest, value);
            }
        }
    }
}

impl Source for Tree {
    fn clone_into_box(&self) -> Box<dyn Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<Map<String, Value>, ConfigError> {
        Ok(self.0.clone())
    }
}
