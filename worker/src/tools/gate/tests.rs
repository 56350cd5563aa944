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
        let (gate, told) = Gate::new(&[tool.clone(), spec("other")], Bounds::default()).unwrap();
        assert_eq!(told.len(), 2);
        let [note] = gate.notes() else { panic!("{:?}", gate.notes()) };
        assert!(note.starts_with("The tool \"odd\" can't be called: its input schema can't be used: "), "{note}");
        assert_eq!(check_tools(&[spec("other"), tool]).unwrap_err(), *note);
        let arguments = || serde_json::value::to_raw_value(&json!({})).unwrap();
        let refused = gate.check("odd", arguments()).unwrap_err();
        assert!(refused.message.contains("its input schema can't be used"), "{schema}: {refused:?}");
        assert!(gate.check("other", arguments()).is_ok());
    }
}

#[test]
fn many_tools_that_cant_be_used_give_a_few_notes() {
    let odd = |n: usize| {
        let mut tool = spec(&format!("odd_{n}"));
        tool.input_schema = Some((&json!({ "pattern": "(".repeat(1 << 16) })).into());
        tool
    };
    let (gate, _) = Gate::new(&(0..100).map(odd).collect::<Vec<_>>(), Bounds::default()).unwrap();
    assert_eq!(gate.notes().len(), MOST_NOTES);
    assert!(gate.notes().iter().all(|note| note.len() < 3000), "{:?}", gate.notes());
    assert!(gate.notes()[MOST_NOTES - 1].starts_with("85 more tools"), "{:?}", gate.notes());
    assert!(check_tools(&[spec("a.b"), spec("a-b")]).unwrap_err().contains("rename one"));
    assert_eq!(check_tools(&[spec("a"), spec("b")]), Ok(()));
}

#[test]
fn the_patterns_of_a_jobs_tools_take_so_much_memory_and_no_more() {
    let tools = |number: usize, pattern: &str| {
        let tool = |n: usize| {
            let properties: serde_json::Map<_, _> =
                (0..5).map(|at| (format!("p{at}"), json!({ "pattern": format!("{pattern}{n}_{at}") }))).collect();
            ToolSpec { input_schema: Some((&json!({ "properties": properties })).into()), ..spec(&format!("t{n}")) }
        };
        (0..number).map(tool).collect::<Vec<_>>()
    };
    for (number, pattern) in [(100, "^[a-zA-Z0-9_.-]{1,64}"), (100, r"^\d{4}-\d{2}-\d{2}(T.*)?"), (2, r"^\p{L}{1,100}")]
    {
        assert_eq!(check_tools(&tools(number, pattern)), Ok(()), "{pattern}");
    }
    for (number, pattern) in [
        (4, r"^\p{L}{100}"),
        (4, r"^(\p{Lu}\p{Ll}{9}){9}(?=x)"),
        (20, r"^[^\p{L}]{20}"),
        (20, r"(.{1,20}){,9}|(.{30}){40,}"),
        (1, "((a{1,1000}){1,1000}){1,1000}"),
        (1, "a{99999999999999999999999}"),
        (2000, r"^\p{L}{9}"),
    ] {
        let (gate, _) = Gate::new(&tools(number, pattern), Bounds::default()).unwrap();
        let [note, ..] = gate.notes() else { panic!("{pattern} fits") };
        assert!(note.contains("its patterns repeat too much: they would take "), "{note}");
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
fn a_schema_judges_numbers_exactly() {
    // Each schema has an argument that it allows, and one that it refuses. As floats, both are the same.
    for (schema, good, bad) in [
        (r#"{"const": 18446744073709551617}"#, "18446744073709551617", "18446744073709551616"),
        (
            r#"{"const": [{"a": 18446744073709551617}]}"#,
            r#"[{"a":18446744073709551617.0}]"#,
            r#"[{"a":18446744073709551618}]"#,
        ),
        (
            r#"{"enum": [0.5, 18446744073709551617, 18446744073709551619]}"#,
            "18446744073709551619",
            "18446744073709551618",
        ),
        (r#"{"const": 2}"#, "2.0", "2.00000000000000000001"),
        (r#"{"const": 0.1}"#, "0.10", "0.1000000000000000055511151231257827"),
        (r#"{"enum": [1, 2]}"#, "2.0", "2.00000000000000000001"),
        (r#"{"maximum": 18446744073709551616}"#, "18446744073709551616", "18446744073709551617"),
        (r#"{"maximum": 1e30}"#, "1000000000000000000000000000000", "1000000000000000000000000000001"),
        (r#"{"maximum": 100}"#, "100", "100.0000000000000000001"),
        (r#"{"minimum": -9223372036854775809}"#, "-9223372036854775809", "-9223372036854775810"),
        (r#"{"exclusiveMaximum": 18446744073709551618}"#, "18446744073709551617", "18446744073709551618"),
        (r#"{"exclusiveMinimum": 18446744073709551616}"#, "18446744073709551617", "18446744073709551616.0"),
        (r#"{"multipleOf": 2}"#, "36893488147419103234", "36893488147419103233"),
        (r#"{"multipleOf": 18446744073709551617}"#, "36893488147419103234", "36893488147419103233"),
        (r#"{"multipleOf": 0.01}"#, "4.35", "4.355"),
        (r#"{"type": "integer"}"#, "184467440737095516170e-1", "18446744073709551617.5"),
        (
            r#"{"uniqueItems": true}"#,
            "[18446744073709551616,18446744073709551617]",
            "[18446744073709551616,1.8446744073709551616e19]",
        ),
        (r#"{"not": {"const": 18446744073709551617}}"#, "18446744073709551616", "18446744073709551617"),
        (
            r#"{"items": {"anyOf": [{"const": 1e20}, {"minimum": 1e21}]}}"#,
            "[100000000000000000000]",
            "[100000000000000000001]",
        ),
    ] {
        let mut tool = spec("t");
        let text = format!(r#"{{"properties": {{"n": {schema}}}}}"#);
        tool.input_schema = Some(JsonText::new(text).unwrap());
        let (gate, _) = Gate::new(&[tool], Bounds::default()).unwrap();
        let check = |n: &str| gate.check("t", RawValue::from_string(format!(r#"{{"n": {n}}}"#)).unwrap());
        assert_eq!(check(good).unwrap().get(), format!(r#"{{"n": {good}}}"#), "{schema}");
        let refused = check(bad).expect_err(schema);
        assert_eq!(refused.code, ErrorCode::ToolArguments, "{schema}");
    }
}

#[test]
fn errors_have_numbers_as_they_were_written() {
    let refused = |schema: &str, n: &str| {
        let mut tool = spec("t");
        tool.input_schema = Some(JsonText::new(format!(r#"{{"properties": {{"n": {schema}}}}}"#)).unwrap());
        let (gate, _) = Gate::new(&[tool], Bounds::default()).unwrap();
        gate.check("t", RawValue::from_string(format!(r#"{{"n": {n}}}"#)).unwrap()).unwrap_err().message
    };
    for (schema, n, why) in [
        (r#"{"type": "string"}"#, "18446744073709551617", "18446744073709551617 is not a string"),
        (r#"{"maximum": 1e2}"#, "100.50", "100.50 is greater than the maximum of 1e2"),
        (r#"{"exclusiveMinimum": 0}"#, "0.0", "0.0 is less than or equal to the minimum of 0"),
        (r#"{"multipleOf": 3}"#, "36893488147419103234", "36893488147419103234 is not a multiple of 3"),
        (r#"{"const": 18446744073709551617}"#, "1", "1 is not 18446744073709551617"),
    ] {
        let message = refused(schema, n);
        assert!(message.ends_with(&format!("do not match its input schema at n: {why}")), "{message}");
    }
}

#[test]
fn draft_4_says_beside_a_bound_whether_it_is_strict() {
    let mut tool = spec("t");
    let schema = r#"{"$schema": "http://json-schema.org/draft-04/schema#", "properties": {"n": {"maximum": 5, "exclusiveMaximum": true, "minimum": 0, "exclusiveMinimum": false}}}"#;
    tool.input_schema = Some(JsonText::new(schema.into()).unwrap());
    let (gate, _) = Gate::new(&[tool], Bounds::default()).unwrap();
    for (n, fits) in [(5, false), (4, true), (0, true), (-1, false)] {
        assert_eq!(gate.check("t", raw(&json!({"n": n}))).is_ok(), fits, "{n}");
    }
}

#[test]
fn a_schema_that_rounds_many_numbers_to_one_is_read_soon() {
    let numbers: Vec<_> = (0..20_000).map(|n| format!("1844674407370955161{n:05}")).collect();
    let mut tool = spec("t");
    let schema = format!(r#"{{"properties": {{"n": {{"enum": [{}]}}}}}}"#, numbers.join(","));
    tool.input_schema = Some(JsonText::new(schema).unwrap());
    let (gate, _) = Gate::new(&[tool], Bounds::default()).unwrap();
    let check = |n: &str| gate.check("t", RawValue::from_string(format!(r#"{{"n": {n}}}"#)).unwrap());
    assert!(check("184467440737095516119999").is_ok() && check("184467440737095516120000").is_err());
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
