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
                        "schema": { "type": "integer" },
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

    use super::*;

    /// All references in the document lead somewhere in it.
    #[test]
    fn references_lead_somewhere() {
        fn walk(value: &Value, found: &mut BTreeSet<String>) {
            match value {
                Value::Object(fields) => {
                    found.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
                    fields.values().for_each(|value| walk(value, found));
                }
                Value::Array(list) => list.iter().for_each(|value| walk(value, found)),
                _ => {}
            }
        }
        let mut found = BTreeSet::new();
        walk(document(), &mut found);
        assert!(found.len() > 10, "{found:?}");
        for reference in found {
            let pointer = reference.strip_prefix('#').unwrap_or_else(|| panic!("{reference} leads elsewhere"));
            assert!(document().pointer(pointer).is_some(), "{reference} leads nowhere");
        }
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
