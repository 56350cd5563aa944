//! The parameters of a tool, in the order of its schema's text.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use thermae_schemas::ToolSpec;

/// The names of a tool's arguments in order. Empty if its schema is no object or has no `properties`.
pub(super) fn names(tool: &ToolSpec) -> Vec<String> {
    #[derive(serde::Deserialize)]
    struct Schema {
        #[serde(default)]
        properties: Keys,
    }
    let schema = tool.input_schema.as_ref().and_then(|schema| serde_json::from_str::<Schema>(schema.raw().get()).ok());
    schema.map_or_else(Vec::new, |schema| schema.properties.0)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_the_clients() {
        let names = |tool| names(&serde_json::from_str(tool).unwrap());
        let schema = r#"{"name": "a", "input_schema": {"properties": {"zeta": {}, "alpha": {"type": "string"}}}}"#;
        assert_eq!(names(schema), ["zeta", "alpha"]);
        for none in [r#"{"name": "b"}"#, r#"{"name": "c", "input_schema": true}"#] {
            assert!(names(none).is_empty());
        }
    }
}
