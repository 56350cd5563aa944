//! The names of tools' arguments in the order in which the client wrote them, which is the order of positional
//! arguments. A JSON value in memory loses this order, so it is read from the text of the job.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};

#[derive(serde::Deserialize)]
struct Job {
    #[serde(default)]
    tools: Vec<Tool>,
}

#[derive(serde::Deserialize)]
struct Tool {
    #[serde(default)]
    input_schema: Option<Schema>,
}

#[derive(serde::Deserialize)]
struct Schema {
    #[serde(default)]
    properties: Keys,
}

#[derive(Default)]
struct Keys(Vec<String>);

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Keys;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Keys, A::Error> {
                let mut keys = Vec::new();
                while let Some((key, IgnoredAny)) = map.next_entry::<String, IgnoredAny>()? {
                    keys.push(key);
                }
                Ok(Keys(keys))
            }
        }
        from.deserialize_map(Read)
    }
}

/// For every tool of a job, the names of its arguments in order. Empty if the job has no tools, or if a schema is not
/// an object.
pub(crate) fn param_names(job: &[u8]) -> Vec<Vec<String>> {
    let Ok(job) = serde_json::from_slice::<Job>(job) else { return Vec::new() };
    job.tools.into_iter().map(|t| t.input_schema.map_or_else(Vec::new, |s| s.properties.0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_the_clients() {
        let job = br#"{"id": "x", "code": "", "tools": [
            {"name": "a", "input_schema": {"properties": {"zeta": {}, "alpha": {"type": "string"}}}},
            {"name": "b"}]}"#;
        assert_eq!(param_names(job), [vec!["zeta".to_owned(), "alpha".to_owned()], vec![]]);
        assert!(param_names(b"{}").is_empty());
    }
}
