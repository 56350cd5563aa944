use serde_json::{Value, json};
use thermae_schemas::ALIAS_CASES;

use super::*;

fn spec(name: &str) -> ToolSpec {
    ToolSpec::new(name)
}

fn raw(value: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap()
}

#[test]
fn tools_have_the_names_that_the_wire_contract_gives_them() {
    for (name, expected) in ALIAS_CASES {
        let (_, told) = Gate::new(&[spec(name)], Bounds::default()).unwrap();
        assert_eq!(told[0].alias, *expected);
    }
}

#[test]
fn two_tools_must_not_become_one() {
    let error = Gate::new(&[spec("a.b"), spec("a-b")], Bounds::default()).err().unwrap();
    let text = "the tools \"a.b\" and \"a-b\" would both be called a_b in the code; rename one";
    assert_eq!(error.to_string(), text);
    for (first, one) in ALIAS_CASES {
        for (second, other) in ALIAS_CASES {
            let gate = Gate::new(&[spec(first), spec(second)], Bounds::default());
            assert_eq!(gate.is_err(), one == other, "{first:?} and {second:?}");
        }
    }
}

#[test]
fn a_call_is_checked_before_it_leaves() {
    let mut tool = spec("t");
    tool.max_calls = Some(1);
    tool.timeout_ms = Some(7);
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    tool.input_schema = Some((&schema).into());
    let (gate, told) = Gate::new(&[tool], Bounds::default()).unwrap();
    assert_eq!((told[0].parameters[0].name.as_str(), gate.timeout("t")), ("n", Some(Duration::from_millis(7))));
    let code = |r: Result<Box<RawValue>, Refused>| r.unwrap_err().code;
    assert_eq!(code(gate.check("u", raw(&json!({})))), ErrorCode::UnknownTool);
    assert_eq!(code(gate.check("t", raw(&json!([1])))), ErrorCode::ToolArguments);
    assert_eq!(code(gate.check("t", raw(&json!({"n": "one"})))), ErrorCode::ToolArguments);
    assert_eq!(gate.check("t", raw(&json!({"n": 1}))).unwrap().get(), r#"{"n":1}"#);
    assert_eq!(code(gate.check("t", raw(&json!({"n": 1})))), ErrorCode::ToolCallLimit);
    assert_eq!(gate.calls(), 1);
}

#[test]
fn a_tool_whose_schema_cant_be_used_is_refused_alone() {
    for schema in [
        json!({"type": "objekt"}),
        json!({"$ref": "http://127.0.0.1:1/x.json"}),
        json!({"pattern": "("}),
        json!({"patternProperties": {"\\Z": {}}}),
    ] {
        let mut tool = spec("odd");
        tool.input_schema = Some((&schema).into());
        let (gate, told) = Gate::new(&[tool, spec("other")], Bounds::default()).unwrap();
        assert_eq!(told.len(), 2);
        let arguments = || serde_json::value::to_raw_value(&json!({})).unwrap();
        let refused = gate.check("odd", arguments()).unwrap_err();
        assert!(refused.message.contains("its input schema can't be used"), "{schema}: {refused:?}");
        assert!(gate.check("other", arguments()).is_ok());
    }
}

#[test]
fn schemas_speak_json_and_not_python() {
    let mut tool = spec("t");
    tool.input_schema =
        Some((&json!({"properties": {"b": {"enum": [true, false, null]}}, "additionalProperties": false})).into());
    let (gate, _) = Gate::new(&[tool], Bounds::default()).unwrap();
    assert!(gate.check("t", raw(&json!({"b": null}))).is_ok());
    assert!(gate.check("t", raw(&json!({"b": "None"}))).is_err());
}

#[test]
fn arguments_leave_as_they_came() {
    let mut checked = spec("checked");
    checked.input_schema = Some((&json!({"properties": {"path": {"const": "/tmp"}, "n": true}})).into());
    let (gate, _) = Gate::new(&[checked, spec("plain")], Bounds::default()).unwrap();
    let written = |text: &str| RawValue::from_string(text.into()).unwrap();
    for tool in ["checked", "plain"] {
        for text in [
            r#"{"path": "/tmp", "n": 100000000000000000001, "m": -18446744073709551616}"#,
            r#"{"z": 1.50, "path":  "/tmp", "a": [1E2, -0.0, 0.10000000000000000555, "\u0041"]}"#,
        ] {
            assert_eq!(gate.check(tool, written(text)).unwrap().get(), text);
        }
        let twice = gate.check(tool, written(r#"{"path": "/etc", "path": "/tmp"}"#)).unwrap_err();
        assert_eq!(twice.code, ErrorCode::ToolArguments);
        assert!(twice.message.contains("\"path\" stands twice"), "{}", twice.message);
    }
}

#[test]
fn a_rule_about_numbers_never_judges_a_rounded_one() {
    for rule in [
        json!({"const": 100_000_000_000_000_000_000_u128 as f64}),
        json!({"enum": ["a", 1e20]}),
        json!({"maximum": 1e20}),
        json!({"exclusiveMinimum": 0}),
        json!({"multipleOf": 2}),
    ] {
        let mut tool = spec("t");
        tool.input_schema = Some((&json!({"properties": {"n": rule}})).into());
        let (gate, _) = Gate::new(&[tool], Bounds::default()).unwrap();
        for digits in ["100000000000000000001", "18446744073709551616", "-9223372036854775809"] {
            let arguments = RawValue::from_string(format!(r#"{{"n": {digits}}}"#)).unwrap();
            let refused = gate.check("t", arguments).unwrap_err();
            assert!(refused.message.contains(digits), "{rule}: {}", refused.message);
        }
    }
}

#[test]
fn arguments_of_many_values_are_refused_and_never_a_tree() {
    let mut checked = spec("checked");
    checked.input_schema = Some((&json!({"type": "object"})).into());
    let (gate, _) = Gate::new(&[checked, spec("plain")], Bounds::default()).unwrap();
    let many = |n: usize| RawValue::from_string(format!(r#"{{"a":[{}0]}}"#, r#"{"":0},"#.repeat(n))).unwrap();
    for (tool, most) in [("checked", MOST_CHECKED), ("plain", MOST_VALUES)] {
        assert!(gate.check(tool, many(most / 2 - 2)).is_ok(), "{tool}");
        let refused = gate.check(tool, many(most / 2)).unwrap_err();
        assert_eq!(refused.code, ErrorCode::ToolArguments);
        assert!(refused.message.contains(&most.to_string()), "{}", refused.message);
    }
}

#[test]
fn a_job_has_so_many_calls_and_so_many_bytes_and_hears_how_to_have_more() {
    let bounds = |tool_calls, bytes| Bounds {
        tool_calls,
        tool_argument_bytes: thermae_service::units::ByteSize(bytes),
        ..Bounds::default()
    };
    let gate = |bounds| Arc::new(Gate::new(&[spec("t")], bounds).unwrap().0);
    let refused = |gate: &Arc<Gate>, bytes| gate.comes(bytes).err().unwrap().message;
    let few = gate(bounds(2, 1000));
    assert!(few.comes(1).is_ok() && few.comes(1).is_ok());
    assert!(refused(&few, 1).contains("bounds.tool_calls"));
    let small = gate(bounds(100, 1000));
    assert!(small.comes(999).is_ok());
    assert!(refused(&small, 2).contains("bounds.tool_argument_bytes"));
    let wide = gate(bounds(u32::MAX, u64::MAX));
    let first = wide.comes(MOST_HELD);
    assert!(refused(&wide, 1).contains("on their way"));
    drop(first);
    let mut open: Vec<_> = (0..MOST_AT_ONCE).map(|_| wide.comes(1).ok().unwrap()).collect();
    assert!(refused(&wide, 1).contains("wait for answers"));
    open.iter_mut().for_each(Open::left);
    assert_eq!(wide.used().held, 0);
    open.pop();
    assert!(wide.comes(MOST_HELD).is_ok());
}
