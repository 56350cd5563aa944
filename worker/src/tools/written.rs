//! The schemas of tools as the client wrote them. A JSON value in memory loses the order of keys, and the order of
//! `properties` is that of positional arguments. So the schemas are read from the text of the job.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The schemas of one tool.
#[derive(Debug, Clone, Default, serde::Deserialize)]
pub(crate) struct Written {
    /// JSON Schema of the arguments.
    #[serde(default)]
    pub input_schema: Option<Box<RawValue>>,
    /// JSON Schema of the result.
    #[serde(default)]
    pub output_schema: Option<Box<RawValue>>,
}

impl Written {
    /// The names of the arguments in order. Empty if the schema is no object or has no `properties`.
    pub(crate) fn params(&self) -> Vec<String> {
        #[derive(serde::Deserialize)]
        struct Schema {
            #[serde(default)]
            properties: Keys,
        }
        let schema = self.input_schema.as_deref().and_then(|schema| serde_json::from_str::<Schema>(schema.get()).ok());
        schema.map_or_else(Vec::new, |schema| schema.properties.0)
    }
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

/// The schemas of every tool of a job, in the job's order. Empty if the text is not a job.
pub(crate) fn written(job: &[u8]) -> Vec<Written> {
    #[derive(serde::Deserialize)]
    struct Job {
        #[serde(default)]
        tools: Vec<Written>,
    }
    serde_json::from_slice::<Job>(job).map_or_else(|_| Vec::new(), |job| job.tools)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_the_clients() {
        let job = br#"{"id": "x", "code": "", "tools": [
            {"name": "a", "input_schema": {"properties": {"zeta": {}, "alpha": {"type": "string"}}}},
            {"name": "b", "output_schema": {"z": 1, "a": 2}}, {"name": "c", "input_schema": true}]}"#;
        let tools = written(job);
        let params: Vec<_> = tools.iter().map(Written::params).collect();
        assert_eq!(params, [vec!["zeta".to_owned(), "alpha".to_owned()], vec![], vec![]]);
        assert_eq!(tools[1].output_schema.as_ref().unwrap().get(), r#"{"z": 1, "a": 2}"#);
        assert!(written(b"{}").is_empty() && written(b"[]").is_empty());
    }
}
