use proptest::prelude::*;
use serde_json::{Value, json};
use thermae_schemas::{Content, PROTOCOL};

use super::*;

fn says(body: &str) -> (ErrorCode, String) {
    let error = read(body.as_bytes(), PROTOCOL).unwrap_err();
    (error.code, error.message)
}

#[test]
fn the_place_of_the_fault_is_named() {
    for (body, code, place) in [
        (r#"{"id": "a", "code": "", "limits": {"wall": 1}}"#, ErrorCode::UnknownField, "/limits: "),
        (r#"{"id": "a", "code": "", "colour": "red"}"#, ErrorCode::UnknownField, "/: "),
        (r#"{"id": "a", "code": "", "limits": {"pids": 0}}"#, ErrorCode::SchemaViolation, "/limits/pids: "),
        (r#"{"id": "a b", "code": ""}"#, ErrorCode::SchemaViolation, "/id: "),
        (r#"{"id": "a", "code": "", "class": "urgent"}"#, ErrorCode::SchemaViolation, "/class: "),
        (r#"{"id": "a", "code": "", "tools": [{"name": ""}]}"#, ErrorCode::SchemaViolation, "/tools/0/name: "),
        (
            r#"{"id": "a", "code": "", "tools": [{"name": "a.b"}, {"name": "a-b"}]}"#,
            ErrorCode::SchemaViolation,
            "/tools/1/name: ",
        ),
        (r#"{"id": "a", "code": "", "files": [{"path": "a"}]}"#, ErrorCode::SchemaViolation, "/files/0: "),
        (
            r#"{"id": "a", "code": "", "files": [{"path": "a", "text": "", "base64": ""}]}"#,
            ErrorCode::SchemaViolation,
            "/files/0: ",
        ),
        (r#"{"id": "a", "code": "", "files": [{"path": "a", "url": "b"}]}"#, ErrorCode::UnknownField, "/files/0: "),
        (r#"{"id": "a", "code": "", "artifacts": {"inlined": true}}"#, ErrorCode::UnknownField, "/artifacts: "),
        (r#"{"id": "a", "code": "", "session": {"id": "s", "x": 1}}"#, ErrorCode::UnknownField, "/session: "),
        (
            r#"{"id": "a", "code": "", "session": {"id": "s", "idle_ms": 0}}"#,
            ErrorCode::SchemaViolation,
            "/session/idle_ms: ",
        ),
        (r#"{"code": ""}"#, ErrorCode::SchemaViolation, "/: "),
        (r#"[]"#, ErrorCode::SchemaViolation, "/: "),
    ] {
        let (got, message) = says(body);
        assert_eq!(got, code, "{body}: {message}");
        assert!(message.starts_with(place), "{body}: {message}");
    }
}

#[test]
fn an_object_is_never_a_list_of_its_fields() {
    for (path, body) in thermae_testkit::json::LISTS_FOR_OBJECTS {
        let (code, message) = says(body);
        if path == "/capabilities/0" {
            assert!(code == ErrorCode::BadCapability && message.starts_with("capabilities[0]: "), "{body}: {message}");
            continue;
        }
        assert_eq!(code, ErrorCode::SchemaViolation, "{body}: {message}");
        let place = if path.is_empty() { "/: " } else { path };
        assert!(message.starts_with(place), "{body}: {message}");
    }
}

#[test]
fn what_would_have_been_right_is_said_in_words() {
    for (body, says_so) in [
        (
            r#"{"id": "a", "code": "", "files": [{"path": "a", "text": "", "base64": ""}]}"#,
            r#"/files/0: has several fields where one alone is allowed: it has "base64", "path", "text""#,
        ),
        (r#"{"id": "a", "code": "", "class": "urgent"}"#, r#"/class: "urgent" is not one of "high", "normal", "low""#),
        (
            r#"{"id": "a", "code": "", "session": {"id": "s", "if_gone": 1}}"#,
            r#"/session/if_gone: 1 is not one of "fail", "new""#,
        ),
        (
            r#"{"id": "a"}"#,
            r#"/: "code" is missing; only a job with "argv", or one that closes its session, may omit it"#,
        ),
        (
            r#"{"id": "a", "session": {"id": "s"}}"#,
            r#"/: "code" is missing; only a job with "argv", or one that closes its session, may omit it"#,
        ),
    ] {
        assert_eq!(says(body), (ErrorCode::SchemaViolation, says_so.to_owned()), "{body}");
    }
    for body in [
        r#"{"id": "a", "code": "", "stream": ["everything"]}"#,
        r#"{"id": "a", "code": "", "files": [{"path": "a"}]}"#,
        r#"{"id": "a", "code": "", "session": 7}"#,
        r#"{"id": "a", "code": "", "tools": [{"name": "t", "raw": "yes"}]}"#,
    ] {
        let (_, message) = says(body);
        assert!(!message.contains("keyword") && !message.contains("schemas listed"), "{body}: {message}");
    }
}

#[test]
fn a_job_that_closes_its_session_needs_no_code() {
    let job = read(br#"{"id": "a", "session": {"id": "s", "close": true}}"#, PROTOCOL).unwrap();
    assert_eq!(job.code, "");
}

#[test]
fn a_job_asks_only_for_what_its_language_has() {
    let lane = Lane::parse("acme.normal.default").unwrap();
    let check = |fields: &str| {
        let body = format!(r#"{{"id": "a", {fields}}}"#);
        let message = Message { key: lane.to_string(), body: body.into(), ..Message::default() };
        super::check(&Options::default(), &FleetView::default(), &lane, &message)
    };
    for fields in [r#""language": "bash", "argv": ["ls"]"#, r#""language": "bash", "code": "ls""#] {
        assert!(check(fields).is_ok(), "{fields}");
    }
    for (fields, code) in [
        (r#""argv": ["ls"]"#, ErrorCode::SchemaViolation),
        (r#""language": "bash", "argv": ["ls"], "code": "ls""#, ErrorCode::SchemaViolation),
        (r#""language": "bash", "code": "ls", "tools": [{"name": "t"}]"#, ErrorCode::SchemaViolation),
        (r#""language": "cobol", "code": """#, ErrorCode::UnsupportedLanguage),
        (r#""language": "no name", "code": """#, ErrorCode::SchemaViolation),
    ] {
        assert_eq!(check(fields).unwrap_err().error.code, code, "{fields}");
    }
}

#[test]
fn the_class_is_that_of_the_key() {
    let lane = Lane::parse("acme.high.default").unwrap();
    let check = |class: &str| {
        let body = format!(r#"{{"id": "a", "code": "", "class": {class:?}}}"#);
        let message = Message { key: lane.to_string(), body: body.into(), ..Message::default() };
        super::check(&Options::default(), &FleetView::default(), &lane, &message)
    };
    assert!(check("high").is_ok());
    let error = check("normal").unwrap_err().error;
    assert_eq!(error.code, ErrorCode::SchemaViolation);
    assert_eq!(error.message, "/class: the job says \"normal\", its routing key \"high\"");
}

#[test]
fn no_tenant_has_a_name_of_the_fleets_own() {
    for name in ["pool", "worker", "control", "lanes", "rests", "workers", "epochs", "outcomes"] {
        let lane = Lane::parse(&format!("{name}.normal.default")).unwrap();
        let body = br#"{"id": "a", "code": ""}"#.to_vec();
        let message = Message { key: lane.to_string(), body: body.into(), ..Message::default() };
        let refused = super::check(&Options::default(), &FleetView::default(), &lane, &message).unwrap_err();
        assert_eq!(refused.error.code, ErrorCode::UnknownTenant, "{name}");
    }
}

#[test]
fn a_path_that_leads_out_or_stands_twice_is_a_bad_path() {
    for path in ["/etc/passwd", "../x", "a/../../x", "", "a\0b", "a//b", "."] {
        let (code, message) = says(&json!({"id": "a", "code": "", "files": [{"path": path, "text": ""}]}).to_string());
        assert_eq!(code, ErrorCode::BadPath, "{path:?}: {message}");
        assert!(message.starts_with("/files/0/path: "), "{message}");
    }
    let twice = json!({"id": "a", "code": "", "files": [{"path": "x", "text": ""}, {"path": "x", "base64": ""}]});
    let (code, message) = says(&twice.to_string());
    assert_eq!((code, &*message), (ErrorCode::BadPath, "/files/1/path: \"x\" is used twice"));
    let long = json!({"id": "a", "code": "", "files": [{"path": "é".repeat(100_000), "text": ""}]});
    assert!(says(&long.to_string()).1.len() < 520);
    let good = json!({"id": "a", "code": "", "files": [{"path": "a/b", "ref": "c".repeat(64), "executable": true}]});
    assert_eq!(read(good.to_string().as_bytes(), PROTOCOL).unwrap().files.len(), 1);
}

#[test]
fn base64_of_another_form_is_a_violation_of_its_field() {
    for bad in ["AAAA\nAAAA\n", "AP8", "-_-_", "?"] {
        let job = json!({"id": "a", "code": "", "files": [{"path": "x", "text": ""}, {"path": "y", "base64": bad}]});
        let (code, message) = says(&job.to_string());
        let wanted = format!("/files/1/base64: {}", Content::FORM);
        assert_eq!((code, message), (ErrorCode::SchemaViolation, wanted), "{bad:?}");
    }
}

#[test]
fn what_is_not_json_is_malformed_and_what_is_doubled_is_a_violation() {
    assert_eq!(says("{").0, ErrorCode::MalformedJson);
    assert_eq!(says("").0, ErrorCode::MalformedJson);
    assert_eq!(read(b"\xff\xfe", PROTOCOL).unwrap_err().code, ErrorCode::MalformedJson);
    assert_eq!(says(r#"{"id": "a", "id": "b", "code": ""}"#).0, ErrorCode::SchemaViolation);
    assert_eq!(says(r#"{"id": "a", "code": "", "max_attempts": 5000000000}"#).0, ErrorCode::SchemaViolation);
}

#[test]
fn another_protocol_is_named_whatever_else_is_strange() {
    for protocol in ["0", "2", "99", "5000000000"] {
        let body = format!(r#"{{"protocol": {protocol}, "task": "?"}}"#);
        assert_eq!(says(&body).0, ErrorCode::UnsupportedProtocol, "{body}");
    }
}

#[test]
fn malformed_capabilities_are_refused_with_their_place() {
    let job = |set: &str| format!(r#"{{"id": "a", "code": "", "capabilities": {set}}}"#);
    for (set, place) in [
        ("null", "capabilities: must be a list of capabilities, and is null"),
        (r#"[{"patern": "t"}]"#, "capabilities[0]: lacks \"pattern\""),
        (
            r#"[{"pattern": "t"}, {"pattern": "t", "constraints": {"currency": "USD"}}]"#,
            "capabilities[1].constraints: must be a list of constraints, and is an object",
        ),
        (
            r#"[{"pattern": "t", "constraints": [{"path": "n", "op": "!=3"}]}]"#,
            "capabilities[0].constraints[0].op: \"!=3\" is no operator",
        ),
        (r#"[{"pattern": "t", "max_calls": 1, "max_calls": 9}]"#, "the key \"max_calls\" stands twice"),
    ] {
        let (code, message) = says(&job(set));
        assert_eq!(code, ErrorCode::BadCapability, "{message}");
        assert!(message.contains(place), "{message}");
    }
    let good = r#"[{"pattern": "t", "constraints": [{"path": "n", "op": "<=", "value": 3}]}]"#;
    let read = read(job(good).as_bytes(), PROTOCOL).unwrap();
    assert_eq!(read.capabilities.unwrap().capabilities().len(), 1);
}

#[test]
fn inputs_have_names_that_the_code_can_use_and_no_tool_has() {
    for (inputs, place) in [
        (r#"{"class": {"value": 1}}"#, "/inputs: \"class\" is a keyword"),
        (r#"{"a b": {"value": 1}}"#, "/inputs: \"a b\" is not an identifier"),
        (r#"{"get_sales": {"value": 1}}"#, "/inputs: \"get_sales\" is also what the tool \"get-sales\" is called"),
        (r#"{"x": {"value": 1, "ref": "a"}}"#, "/inputs/x: "),
        (r#"{"x": 1}"#, "/inputs/x: "),
    ] {
        let body = format!(r#"{{"id": "a", "code": "", "tools": [{{"name": "get-sales"}}], "inputs": {inputs}}}"#);
        let (code, message) = says(&body);
        assert!(matches!(code, ErrorCode::SchemaViolation | ErrorCode::UnknownField), "{message}");
        assert!(message.starts_with(place), "{message}");
    }
}

#[test]
fn an_answer_is_short_whatever_it_quotes() {
    let (code, message) = says(&json!({"id": "a", "code": [("é").repeat(100_000)]}).to_string());
    assert_eq!(code, ErrorCode::SchemaViolation);
    assert!(message.len() < 520);
}

fn number() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!(null)),
        Just(json!(0)),
        Just(json!(1)),
        Just(json!(100)),
        Just(json!(101)),
        any::<u64>().prop_map(Value::from)
    ]
}

proptest! {
    // The quick check and the schema must agree on what a job is.
    #[test]
    fn the_fast_path_and_the_schema_agree(
        max_attempts in number(), start_within in prop_oneof![number(), Just(json!(86_400_000)), Just(json!(86_400_001))],
        limit in number(), which in 0usize..7, key in 0usize..131, tool in 0usize..131,
    ) {
        let name = ["wall_ms", "cpu_ms", "memory_bytes", "pids", "output_bytes", "tool_ms", "pause_ms"][which];
        let mut job = json!({"id": "a", "code": "", "limits": {name: limit}});
        if !max_attempts.is_null() { job["max_attempts"] = max_attempts; }
        if !start_within.is_null() { job["start_within_ms"] = start_within; }
        if key < 130 { job["idempotency_key"] = json!("é".repeat(key)); }
        if tool < 130 { job["tools"] = json!([{"name": "é".repeat(tool)}]); }
        let by_schema = jsonschema::validator_for(schemars::schema_for!(Job).as_value()).unwrap().is_valid(&job);
        let read = read(job.to_string().as_bytes(), PROTOCOL);
        // The schema lets numbers through that fit no type. Nothing else may differ.
        let fits = job["limits"]["pids"].as_u64().is_none_or(|n| u32::try_from(n).is_ok());
        prop_assert_eq!(read.is_ok(), by_schema && fits, "{:?} for {}", read, job);
    }
}

#[test]
fn tools_clash_by_the_rule_of_the_wire_contract() {
    for (first, one) in thermae_schemas::ALIAS_CASES.iter().filter(|(name, _)| !name.is_empty()) {
        for (second, other) in thermae_schemas::ALIAS_CASES.iter().filter(|(name, _)| !name.is_empty()) {
            let job = json!({"id": "a", "code": "", "tools": [{"name": first}, {"name": second}]}).to_string();
            match read(job.as_bytes(), PROTOCOL) {
                Ok(_) => assert_ne!(one, other, "{first:?} and {second:?}"),
                Err(error) => {
                    assert_eq!(one, other, "{first:?} and {second:?}: {}", error.message);
                    assert!(error.message.starts_with("/tools/1/name: "), "{}", error.message);
                }
            }
        }
    }
}
