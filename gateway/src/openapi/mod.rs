//! The OpenAPI 3.1 document of the gateway, made from the table of operations and the types. The test
//! `tests/generated.rs` writes and checks the file `schemas/openapi.json`.

mod links;
mod operations;
mod parameters;
mod schemas;

use std::sync::OnceLock;

use serde_json::{Map, Value, json};

use crate::op::Op;

const DESCRIPTION: &str = "Runs programs that AI agents write, in sandboxes. docs/gateway.md shows how. Every failure \
    is a problem detail (RFC 9457) with a stable code. Further fields may be added to all answers.";

/// The document.
pub fn document() -> &'static Value {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    DOCUMENT.get_or_init(make)
}

fn make() -> Value {
    let mut schemas = schemas::Schemas::new();
    let mut paths: Map<String, Value> = Map::new();
    for op in Op::ALL {
        let facts = op.facts();
        let operation = operations::operation(op, &mut schemas);
        let path = paths.entry(facts.path.replace("{*", "{")).or_insert_with(|| json!({}));
        path[facts.method] = operation;
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Thermae",
            "version": env!("CARGO_PKG_VERSION"),
            "description": DESCRIPTION,
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": { "token": {
                "type": "http",
                "scheme": "bearer",
                "description": "The token of `thermae serve`, or an API key, which needs the scopes that the operation \
                    names.",
            } },
            "responses": { "Problem": {
                "description": "The request failed. `code` says why.",
                "headers": {
                    "X-Request-Id": { "schema": { "type": "string" } },
                    "Retry-After": {
                        "description": "Seconds after which it can help to try again.",
                        "schema": { "type": "integer", "minimum": 1, "maximum": u32::MAX },
                    },
                },
                "content": { "application/problem+json": { "schema": schemas.of::<crate::problem::ProblemView>() } },
            } },
            "schemas": schemas.finish(),
        },
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::slice;

    use super::*;

    /// Calls this for each object in the document, those in it included.
    fn each(value: &'static Value, seen: &mut dyn FnMut(&'static Map<String, Value>)) {
        match value {
            Value::Object(fields) => {
                seen(fields);
                fields.values().for_each(|value| each(value, seen));
            }
            Value::Array(list) => list.iter().for_each(|value| each(value, seen)),
            _ => {}
        }
    }

    /// All references in the document lead somewhere in it.
    #[test]
    fn references_lead_somewhere() {
        let mut found = BTreeSet::new();
        each(document(), &mut |fields| found.extend(fields.get("$ref").and_then(Value::as_str)));
        assert!(found.len() > 10, "{found:?}");
        for reference in found {
            let pointer = reference.strip_prefix('#').unwrap_or_else(|| panic!("{reference} leads elsewhere"));
            assert!(document().pointer(pointer).is_some(), "{reference} leads nowhere");
        }
    }

    #[test]
    fn every_integer_has_bounds() {
        let mut found = 0;
        each(document(), &mut |fields| {
            let kinds = fields.get("type").map(|kind| kind.as_array().map_or(slice::from_ref(kind), Vec::as_slice));
            if kinds.is_some_and(|kinds| kinds.contains(&json!("integer"))) {
                let bounded = ["minimum", "maximum"].map(|bound| fields.get(bound).is_some_and(Value::is_number));
                assert_eq!(bounded, [true; 2], "{fields:?}");
                found += 1;
            }
        });
        assert!(found > 50, "{found}");
        let calls = &document()["components"]["schemas"]["ToolSpec"]["properties"]["max_calls"];
        assert_eq!((&calls["minimum"], &calls["maximum"]), (&json!(0), &json!(u32::MAX)), "{calls}");
        let asked = &document()["components"]["schemas"]["RunRequest"]["properties"]["max_attempts"];
        assert_eq!(asked["maximum"], json!(100), "a bound of its own stays: {asked}");
    }

    #[test]
    fn a_submitted_job_needs_no_id_and_no_fields_of_its_own() {
        let job = &document()["components"]["schemas"]["RunRequest"];
        let required = job["required"].as_array().cloned().unwrap_or_default();
        assert!(!required.contains(&json!("id")) && job["properties"]["id"].is_object(), "{job}");
        assert_eq!(job["additionalProperties"], json!(false));
    }

    #[test]
    fn every_parameter_of_a_path_is_described() {
        for (path, operations) in document()["paths"].as_object().unwrap() {
            let names: BTreeSet<_> =
                path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).collect();
            for operation in operations.as_object().unwrap().values() {
                let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
                let said: BTreeSet<_> = parameters
                    .iter()
                    .filter(|p| p["in"] == "path")
                    .collect::<Vec<_>>()
                    .iter()
                    .filter_map(|parameter| parameter["name"].as_str().map(str::to_owned))
                    .collect();
                assert_eq!(said, names.iter().map(|name| (*name).to_owned()).collect(), "{path}");
                assert!(operation["summary"].is_string() && operation["responses"].is_object());
            }
        }
    }
}
