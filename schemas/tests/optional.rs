//! All fields of what a client sends are read by one rule: see `optional`. So an object is never a list of its fields. The test goes through every field of every
//! schema, so that a new field can't have a rule of its own.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use thermae_schemas::{
    Body, Cancel, Decision, InputFile, Job, Query, Request, RequestInput, ToolResult, generate, lacks_code,
};

/// Whether a field takes rights away, so that a job may do more without it.
fn is_never_null(of: &str, field: &str) -> bool {
    of == "Capability" || ["capabilities", "token"].contains(&field)
}

/// A message of a client: its schema, how it is read, and texts that together have all its types.
struct Kind {
    schema: Value,
    validator: jsonschema::Validator,
    reads: fn(&Value) -> Option<Value>,
}

fn read<T: Body>(message: &Value) -> Option<Value> {
    let read = T::parse(message.to_string().as_bytes()).ok()?;
    Some(serde_json::from_slice(&read.to_json().unwrap()).unwrap())
}

/// Types say less than schemas, so that those who take a message check the rest.
fn job(message: &Value) -> Option<Value> {
    let text = message.to_string();
    let job = Job::parse(text.as_bytes()).ok()?;
    let holds = !lacks_code(&job, text.as_bytes()) && job.files.iter().all(InputFile::has_one_content);
    holds.then(|| read::<Job>(message)).flatten()
}

fn request(message: &Value) -> Option<Value> {
    let request = Request::parse(message.to_string().as_bytes()).ok()?;
    request.trouble().is_none().then(|| read::<Request>(message)).flatten()
}

impl Kind {
    fn new(name: &str, reads: fn(&Value) -> Option<Value>) -> Self {
        let schema = generate::schemas().into_iter().find(|(known, _)| *known == name).unwrap().1.to_value();
        Self { validator: jsonschema::validator_for(&schema).unwrap(), schema, reads }
    }

    /// What is read from a message, on which the schema and the reader must agree.
    fn read(&self, message: &Value) -> Option<Value> {
        let read = (self.reads)(message);
        assert_eq!(self.validator.is_valid(message), read.is_some(), "the schema says otherwise: {message}");
        read
    }

    /// The schemas that hold at a place of a schema, without references. One of a choice is that whose fields `there`
    /// are.
    fn at<'a>(&'a self, schema: &'a Value, there: &Value, found: &mut Vec<(&'a str, &'a Map<String, Value>)>) {
        let mut name = "";
        let mut schema = schema;
        if let Some(reference) = schema["$ref"].as_str() {
            name = reference.rsplit_once('/').unwrap().1;
            schema = &self.schema["$defs"][name];
        }
        let Some(keywords) = schema.as_object() else { return };
        found.push((name, keywords));
        for choice in ["anyOf", "oneOf"] {
            for branch in keywords.get(choice).and_then(Value::as_array).into_iter().flatten() {
                let has = |key: &Value| there.get(key.as_str().unwrap()).is_some();
                let of_this = |(key, field): (&String, &Value)| {
                    field.get("const").is_none_or(|value| there.get(key) == Some(value))
                };
                let fits = branch["required"].as_array().is_none_or(|keys| keys.iter().all(has))
                    && branch["properties"].as_object().is_none_or(|fields| fields.iter().all(of_this));
                if fits {
                    self.at(branch, there, found);
                }
            }
        }
    }

    /// Tries every field of the object or list at this place of a message.
    fn walk(&self, schema: &Value, message: &Value, place: &str, seen: &mut BTreeSet<String>) -> usize {
        let there = message.pointer(place).unwrap();
        let (mut found, mut tried) = (Vec::new(), 0);
        self.at(schema, there, &mut found);
        for (name, keywords) in found {
            seen.insert(name.to_owned());
            if let (Some(_), Some(fields)) = (keywords.get("properties"), there.as_object()) {
                for list in [json!([]), fields.values().cloned().collect()] {
                    let mut message = message.clone();
                    *message.pointer_mut(place).unwrap() = list;
                    assert_eq!(self.read(&message), None, "{place} of {message}");
                }
                tried += 1;
            }
            if let (Some(items), Some(list)) = (keywords.get("items"), there.as_array()) {
                tried +=
                    (0..list.len()).map(|at| self.walk(items, message, &format!("{place}/{at}"), seen)).sum::<usize>();
            }
            let required = keywords.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
            for (field, of) in keywords.get("properties").and_then(Value::as_object).into_iter().flatten() {
                if of.get("description").is_none() && of.get("$ref").is_none() && of.get("type").is_none() {
                    continue;
                }
                let with = |value: Value| {
                    let mut message = message.clone();
                    message.pointer_mut(place).unwrap().as_object_mut().unwrap().insert(field.clone(), value);
                    message
                };
                if !required.contains(&json!(field)) && keywords.contains_key("type") {
                    let (null, says) = (self.read(&with(Value::Null)), format!("{place}/{field} of {message}"));
                    if is_never_null(name, field) {
                        assert_eq!(null, None, "{says}");
                    } else {
                        let mut without = message.clone();
                        without.pointer_mut(place).unwrap().as_object_mut().unwrap().remove(field);
                        // Without its content or its code, a message may not be one.
                        assert_eq!(null, self.read(&without), "{says}");
                    }
                    tried += 1;
                }
                let is =
                    |kind: &str| of["type"] == kind || of["type"].as_array().is_some_and(|t| t.contains(&json!(kind)));
                if is("integer") {
                    let whole = self.read(&with(json!(1)));
                    assert!(whole.is_some() && whole == self.read(&with(json!(1.0))), "{place}/{field} of {message}");
                    for no in [json!(1.5), json!("1"), json!(true)] {
                        assert_eq!(self.read(&with(no.clone())), None, "{place}/{field}: {no}");
                    }
                    // Not every schema says how large an integer may be.
                    assert_eq!((self.reads)(&with(json!(1e300))), None, "{place}/{field}");
                    tried += 1;
                }
                if there.get(field).is_some_and(|value| value.is_object() || value.is_array()) {
                    tried += self.walk(of, message, &format!("{place}/{field}"), seen);
                }
            }
        }
        tried
    }

    /// Tries every field of these messages, which together have all types of the schema.
    fn check(&self, messages: &[Value]) -> usize {
        let mut seen = BTreeSet::new();
        let mut tried = 0;
        for message in messages {
            assert!(self.read(message).is_some(), "{message}");
            tried += self.walk(&self.schema, message, "", &mut seen);
        }
        for (name, of) in self.schema["$defs"].as_object().into_iter().flatten() {
            assert!(seen.contains(name) || of.get("properties").is_none(), "no message has a {name}");
        }
        tried
    }
}

#[test]
fn null_leaves_out_every_optional_field_of_a_job_and_integers_have_no_fraction() {
    let all = json!({
        "id": "a", "code": "1",
        "session": {"id": "s"}, "limits": {"wall_ms": 1}, "capabilities": [{"pattern": "t"}], "token": "t",
        "tools": [{"name": "t", "parameters": [{"name": "p"}]}],
        "files": [{"path": "a", "text": ""}, {"path": "b", "base64": "AA=="}, {"path": "c", "ref": "0".repeat(64)}],
        "inputs": {"x": {"value": null}}, "artifacts": {"inline": true},
    });
    let tried = Kind::new("job", job).check(&[all, json!({"id": "a", "argv": ["ls"], "language": "bash"})]);
    assert!(tried > 100, "{tried}");
}

#[test]
fn null_leaves_out_every_optional_field_of_other_messages_and_integers_have_no_fraction() {
    let of = |work: Value| {
        let mut request = json!({"id": "r", "session": "s", "input": ""});
        request.as_object_mut().unwrap().extend(work.as_object().unwrap().clone());
        request
    };
    let file = |op: Value| of(json!({"file": op}));
    let requests = [
        of(json!({"keepalive": {}})),
        of(json!({"exec": {"argv": ["ls"]}})),
        of(json!({"exec": {"shell": "ls", "env": {}}})),
        file(json!({"op": "stat", "path": "a"})),
        file(json!({"op": "list", "path": "a", "most": 2})),
        file(json!({"op": "read", "path": "a"})),
        file(json!({"op": "write", "path": "a", "mode": {"at": 2}})),
        file(json!({"op": "write", "path": "a", "mode": {"extend": 2}})),
        file(json!({"op": "make_dir", "path": "a"})),
        file(json!({"op": "remove", "path": "a"})),
        file(json!({"op": "glob", "path": "a", "pattern": "*", "most": 2})),
        file(json!({"op": "grep", "path": "a", "pattern": "*", "most": 2})),
    ];
    assert!(Kind::new("request", request).check(&requests) > 80);
    let say = [
        json!({"request": "r", "input": {"offset": 2}}),
        json!({"request": "r", "credit": 2}),
        json!({"request": "r", "signal": 2}),
        json!({"request": "r", "cancel": {}}),
    ];
    assert!(Kind::new("request_input", read::<RequestInput>).check(&say) > 10);
    let decision = json!({"id": "d", "run": "j", "call": "c", "verdict": {"decision": "approve"}});
    assert!(Kind::new("decision", read::<Decision>).check(&[decision]) > 5);
    let queries = [json!({"id": "q", "what": "sessions"}), json!({"id": "q", "what": {"run": {"job": "j"}}})];
    assert!(Kind::new("query", read::<Query>).check(&queries) > 5);
    assert!(Kind::new("cancel", read::<Cancel>).check(&[json!({"job": "j"})]) > 1);
    assert!(
        Kind::new("tool_result", read::<ToolResult>).check(&[
            json!({"call": "c", "ok": null}),
            json!({"call": "c", "error": {"type": "ValueError", "message": "m"}}),
        ]) > 1
    );
}
