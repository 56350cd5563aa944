//! Schemas and arguments that try to hang or kill the worker, or to get past the gate.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use thermae_schemas::{ErrorCode, JsonText, ToolSpec};
use thermae_testkit::hostile;

use super::schema::{Room, Schema};
use super::{Gate, Refused, parameters};
use crate::options::Bounds;

/// Far less than the worst of these would take without a budget.
const SOON: Duration = Duration::from_secs(60);

fn gate(schema: Value) -> Result<Gate, String> {
    let spec = ToolSpec { input_schema: Some((&schema).into()), ..ToolSpec::new("t") };
    Gate::new(&[spec], Bounds::default()).map(|(gate, _)| gate).map_err(|e| e.to_string())
}

fn check(schema: Value, arguments: &str) -> Result<Box<RawValue>, Refused> {
    let begun = Instant::now();
    let checked = gate(schema).unwrap().check("t", RawValue::from_string(arguments.to_owned()).unwrap());
    assert!(begun.elapsed() < SOON, "it took {:?}", begun.elapsed());
    checked
}

fn chain(length: usize, links: impl Fn(String) -> Value) -> Value {
    let mut defs = serde_json::Map::new();
    for at in 0..length {
        defs.insert(format!("a{at}"), links(format!("#/$defs/a{}", at + 1)));
    }
    defs.insert(format!("a{length}"), json!({"type": "object"}));
    json!({"$defs": defs, "$ref": "#/$defs/a0"})
}

#[test]
fn references_in_a_circle_end() {
    for schema in [
        json!({"$ref": "#"}),
        json!({"allOf": [{"$ref": "#"}]}),
        json!({"not": {"$ref": "#"}}),
        json!({"if": {"$ref": "#"}, "then": {"$ref": "#"}}),
        json!({"$dynamicAnchor": "x", "anyOf": [{"$dynamicRef": "#x"}, {"type": "string"}]}),
        json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}),
        json!({"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#"}),
        json!({"$schema": "https://json-schema.org/draft/2019-09/schema", "$recursiveAnchor": true, "anyOf": [{"$recursiveRef": "#"}]}),
    ] {
        let _ = check(schema, "{}");
    }
}

#[test]
fn a_chain_of_references_does_not_reach_the_end_of_the_stack() {
    for length in [5_000, 30_000] {
        let refused = Schema::read(&chain(length, |next| json!({"$ref": next})).to_string(), &mut Room::default())
            .err()
            .unwrap()
            .brief();
        assert!(refused.contains("levels deep"), "{refused}");
    }
    let deep = |next: String| (0..100).fold(json!({"$ref": next}), |inner, _| json!({"allOf": [inner]}));
    assert!(Schema::read(&chain(20, deep).to_string(), &mut Room::default()).is_err());
    assert!(Schema::read(&chain(100, |next| json!({"$ref": next})).to_string(), &mut Room::default()).is_ok());
}

#[test]
fn a_walk_that_doubles_at_every_step_is_given_up() {
    let twice = |next: String| json!({"allOf": [{"$ref": next}, {"$ref": next}]});
    let refused = check(chain(60, twice), "{}").unwrap_err();
    assert_eq!(refused.code, ErrorCode::ToolArguments);
    assert!(refused.message.contains("take too long"), "{}", refused.message);
}

#[test]
fn deep_arguments_of_a_recursive_schema_are_given_up() {
    // A nearly honest schema: a tree with two kinds of nodes. The code chooses the depth.
    let schema = json!({"type": ["object", "integer"], "anyOf": [
        {"type": "integer"},
        {"properties": {"l": {"$ref": "#"}}, "required": ["l"]},
        {"properties": {"l": {"$ref": "#"}}, "required": ["l", "r"]},
    ]});
    let tree = |depth, leaf: &str| [&"{\"l\":".repeat(depth), leaf, &"}".repeat(depth)].concat();
    assert!(check(schema.clone(), &tree(6, "1")).is_ok());
    assert!(check(schema.clone(), &tree(6, "\"x\"")).is_err());
    let refused = check(schema, &tree(60, "\"x\"")).unwrap_err();
    assert!(refused.message.contains("take too long"), "{}", refused.message);
}

#[test]
fn the_recursion_may_hide_where_only_data_is_expected() {
    for place in ["default", "const", "enum", "examples", "x-own"] {
        let at = format!("#/{place}");
        let branch = |more: &str| json!({"properties": {"l": {"$ref": at}}, "required": ["l", more]});
        let schema = json!({"$ref": at, place: {"type": "object", "anyOf": [branch("l"), branch("r"), branch("s")]}});
        let deep = ["{\"l\":".repeat(60), "1".into(), "}".repeat(60)].concat();
        if let Ok(gate) = gate(schema) {
            let begun = Instant::now();
            let _ = gate.check("t", RawValue::from_string(deep).unwrap());
            assert!(begun.elapsed() < SOON, "{place} took {:?}", begun.elapsed());
        }
    }
}

#[test]
fn a_schema_that_leads_past_the_marks_is_refused() {
    for schema in [
        json!({"$ref": "other.json"}),
        json!({"$ref": "file:///etc/passwd"}),
        json!({"$id": "http://x/", "$ref": "http://x/#/const"}),
        json!({"properties": {"a": {"$id": "http://x/", "$ref": "#/const"}}}),
        json!({"$ref": "#/nowhere"}),
        json!({"x-thermae-cost": 0}),
        json!({"properties": {"a": {"$dynamicRef": "http://x/#a"}}}),
    ] {
        assert!(Schema::read(&schema.to_string(), &mut Room::default()).is_err(), "{schema}");
    }
}

#[test]
fn references_that_tools_really_use_still_work() {
    let schema = json!({
        "$id": "https://example.com/tool", "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": {"Some thing": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Some%20thing"}, "n": {"type": "integer"}}},
                  "named": {"$anchor": "here", "type": "string"}},
        "type": "object", "properties": {"thing": {"$ref": "#/$defs/Some%20thing"}, "name": {"$ref": "#here"}},
    });
    let deep = format!("{}{{\"n\":1}}{}", "{\"next\":".repeat(50), "}".repeat(50));
    assert!(check(schema.clone(), &format!("{{\"thing\":{deep},\"name\":\"a\"}}")).is_ok());
    let wrong = check(schema.clone(), r#"{"thing":{"next":{"n":"one"}}}"#).unwrap_err();
    assert!(wrong.message.contains("at thing.next.n: \"one\" is not an integer"), "{}", wrong.message);
    assert!(check(schema, r#"{"name":1}"#).is_err());
    // A large tree with a large grammar, and many small values: the budget grows with the arguments.
    let kinds: Vec<_> =
        (0..20).map(|n| json!({"properties": {"k": {"const": n}, "l": {"$ref": "#"}, "r": {"$ref": "#"}}})).collect();
    let grammar = json!({"type": "object", "required": ["k"], "anyOf": kinds});
    let tree = (0..6).fold("{\"k\":3}".to_owned(), |t, n| format!("{{\"k\":{n},\"l\":{t},\"r\":{t}}}"));
    assert!(check(grammar, &tree).is_ok());
    let list = json!({"$defs": {"i": {"properties": {"n": {"type": "integer"}}}}, "properties": {"a": {"items": {"$ref": "#/$defs/i"}}}});
    let many = format!("{{\"a\":[{}]}}", vec!["{\"n\":1}"; 40_000].join(","));
    assert!(check(list, &many).is_ok());
}

#[test]
fn kept_inputs_are_answered() {
    let gate = gate(json!({"type": "object"})).unwrap();
    for input in hostile::corpus() {
        let schema = JsonText::new(String::from_utf8_lossy(&input).into_owned());
        parameters::of(&ToolSpec { input_schema: schema.ok(), ..ToolSpec::new("t") }).unwrap();
        let Ok(text) = String::from_utf8(input) else { continue };
        let Ok(raw) = RawValue::from_string(text) else { continue };
        if let Err(refused) = gate.check("t", raw) {
            assert_eq!(refused.code, ErrorCode::ToolArguments);
        }
    }
}

const KEYWORDS: &[&str] = &[
    "$ref",
    "$defs",
    "$id",
    "$anchor",
    "$dynamicRef",
    "type",
    "properties",
    "items",
    "allOf",
    "anyOf",
    "not",
    "pattern",
    "enum",
    "const",
    "minimum",
    "multipleOf",
    "minLength",
    "required",
    "additionalProperties",
    "format",
    "$schema",
    "a",
];

proptest! {
    #[test]
    fn any_schema_and_any_arguments_are_answered(schema in hostile::json(KEYWORDS), arguments in hostile::json(KEYWORDS)) {
        if let Ok(schema) = serde_json::from_str(&schema)
            && let Ok(gate) = gate(schema)
            && let Ok(arguments) = RawValue::from_string(arguments)
        {
            let _ = gate.check("t", arguments);
        }
    }

    #[test]
    fn references_anywhere_end(to in "#(/(properties|allOf|a|0|1|not|anyOf)){0,3}", from in "#(/(properties|allOf|a|0|1|not)){0,3}") {
        let schema = json!({"allOf": [{"$ref": to}, {"properties": {"a": {"$ref": from}}}], "properties": {"a": {"$ref": to}},
                            "not": {"anyOf": [{"$ref": from}, {"a": {"$ref": to}}]}});
        if let Ok(gate) = gate(schema) {
            let begun = Instant::now();
            let deep = ["{\"a\":".repeat(40), "1".into(), "}".repeat(40)].concat();
            let _ = gate.check("t", RawValue::from_string(deep).unwrap());
            prop_assert!(begun.elapsed() < SOON);
        }
    }

    #[test]
    fn a_tool_of_any_name_is_told_by_a_name_that_code_can_hold(names in prop::collection::vec(hostile::word(), 1..4)) {
        let specs: Vec<_> = names.iter().map(ToolSpec::new).collect();
        if let Ok((_, told)) = Gate::new(&specs, Bounds::default()) {
            for tool in told {
                let others = |c: char| c != '_' && (c.is_ascii_punctuation() || c.is_whitespace() || c.is_control());
                prop_assert!(!tool.alias.contains(others), "{:?}", tool.alias);
                prop_assert!(!tool.alias.starts_with(|c: char| c.is_ascii_digit()) && !tool.alias.is_empty());
                prop_assert_eq!(thermae_schemas::alias(&tool.alias), tool.alias);
            }
        }
    }

    #[test]
    fn parameters_are_read_from_anything(tool in hostile::message(&[("name", "\"t\""),
        ("input_schema", r#"{"properties":{"b":{},"a":{}}}"#), ("parameters", r#"[{"name":"b"}]"#)])) {
        if let Ok(tool) = serde_json::from_str(&tool) {
            let _ = parameters::of(&tool);
        }
    }
}
