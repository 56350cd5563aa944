//! The JSON Schema of a set, for documents and for authors of clients.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::Set;
use crate::bound::{
    LONGEST_PATH, LONGEST_PATTERN, MOST_CAPABILITIES, MOST_CONSTRAINTS, MOST_LISTED, MOST_SEGMENTS, MOST_STEPS,
};

impl JsonSchema for Set {
    fn schema_name() -> Cow<'static, str> {
        "Capabilities".into()
    }

    fn schema_id() -> Cow<'static, str> {
        concat!(module_path!(), "::Set").into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let capability = generator.subschema_for::<OneCapability>();
        json_schema!({
            "description": "Capabilities, in the order in which they are tried. A call that none of them allows is \
                            refused, so an empty list allows nothing.",
            "type": "array",
            "maxItems": MOST_CAPABILITIES,
            "items": capability,
        })
    }
}

/// A pattern of texts that consist of segments, each of which matches `one`.
fn segments(one: &str, most: usize) -> String {
    format!("^{one}(/{one}){{0,{}}}$", most - 1)
}

/// Stands for [`crate::Capability`] in schemas.
struct OneCapability;

impl JsonSchema for OneCapability {
    fn schema_name() -> Cow<'static, str> {
        "Capability".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let constraint = generator.subschema_for::<OneConstraint>();
        let count = |what: &str, most: u64| {
            let mut schema = json_schema!({"type": "integer", "minimum": 1, "maximum": most});
            schema.insert("description".to_owned(), what.into());
            schema
        };
        json_schema!({
            "description": "Leave to call the tools that match a pattern, with arguments for which all constraints \
                            hold.",
            "type": "object",
            "additionalProperties": false,
            "required": ["pattern"],
            "properties": {
                "pattern": {
                    "description": "Pattern of tools' names. Its segments are separated by /. * stands for exactly one \
                                    segment, ** for any number of them, also none.",
                    "type": "string",
                    "maxLength": LONGEST_PATTERN,
                    "pattern": segments(r"([^/*]+|\*\*?)", MOST_SEGMENTS),
                },
                "constraints": {
                    "description": "What must be true of the arguments.",
                    "type": "array",
                    "minItems": 1,
                    "maxItems": MOST_CONSTRAINTS,
                    "items": constraint,
                },
                "max_calls": count("How many calls the capability allows.", u64::from(u32::MAX)),
                "arguments": {"description": "JSON Schema of the arguments.", "type": "object"},
                "result": {"description": "JSON Schema of the result.", "type": "object"},
                "max_argument_bytes": count("Most bytes of the arguments, as JSON.", u64::MAX),
                "max_result_bytes": count("Most bytes of the result, as JSON.", u64::MAX),
                "timeout_ms": count("How long a call can wait for its answer, in milliseconds.", u64::MAX),
                "approval": {
                    "description": "Each call that the capability takes waits for somebody's yes.",
                    "type": "object",
                    "additionalProperties": false,
                    "properties": {
                        "next": count("Most calls that one yes counts for; by default, 1.", u64::from(u32::MAX)),
                        "timeout_ms": count("How long a call waits for the decision, in milliseconds.", u64::MAX),
                    },
                },
            },
        })
    }
}

/// Stands for a constraint in schemas.
struct OneConstraint;

impl JsonSchema for OneConstraint {
    fn schema_name() -> Cow<'static, str> {
        "Constraint".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let constraint = generator.subschema_for::<Self>();
        let list = json_schema!({"type": "array", "minItems": 1, "maxItems": MOST_CONSTRAINTS, "items": constraint});
        let path = json_schema!({
            "description": "Keys of objects and positions in arrays, separated by /. ~1 stands for / and ~0 for ~.",
            "type": "string",
            "maxLength": LONGEST_PATH,
            "pattern": segments("([^/~]|~0|~1)+", MOST_STEPS),
            // What looks like a position and is none. No pattern that all readers know tells the digits of all scripts.
            "not": {"pattern": "(^|/)([+-]+[0-9]+|0[0-9]+|[0-9]{21,})(/|$)"},
        });
        let test = |ops: &[&str], value: Schema| {
            json_schema!({
                "type": "object",
                "additionalProperties": false,
                "required": ["path", "op", "value"],
                "properties": {"path": path, "op": {"enum": ops}, "value": value},
            })
        };
        let listed =
            |items: Schema| json_schema!({"type": "array", "minItems": 1, "maxItems": MOST_LISTED, "items": items});
        let not_null = json_schema!({"not": {"type": "null"}});
        json_schema!({
            "description": "What must be true of the arguments.",
            "oneOf": [
                test(&["<", "<=", ">", ">="], json_schema!({"type": "number"})),
                test(&["=="], json_schema!({})),
                test(&["!="], not_null.clone()),
                test(&["in"], listed(json_schema!({}))),
                test(&["not in"], listed(not_null)),
                test(&["starts", "ends", "contains"], json_schema!({"type": "string", "minLength": 1})),
                {
                    "type": "object",
                    "additionalProperties": false,
                    "required": ["path", "op"],
                    "properties": {"path": path, "op": {"enum": ["exists", "not exists"]}},
                },
                {"type": "object", "additionalProperties": false, "required": ["and"], "properties": {"and": list}},
                {"type": "object", "additionalProperties": false, "required": ["or"], "properties": {"or": list}},
            ],
        })
    }
}
