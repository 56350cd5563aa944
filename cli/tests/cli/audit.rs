//! Tests of the audit log.

use serde_json::Value;

use crate::thermae::Thermae;

const CODE: &str = "
print(await add(a=1, b=2))
try:
    await add(a='x', pin=4711)
except ToolError:
    print('refused')
";

const TOOLS: &str = r#"
[tools.add]
command = "python3 -c 'import json, sys; call = json.load(sys.stdin); print(call[\"a\"] + call[\"b\"])'"
[tools.add.input_schema]
type = "object"
properties = { a = { type = "integer" }, b = {}, pin = {} }
"#;

#[test]
fn calls_are_written_down_and_a_change_is_noticed() {
    let thermae = Thermae::with("main.py", CODE);
    thermae.file("tools.toml", TOOLS);
    let run = ["run", "main.py", "--tools-file", "tools.toml", "--audit", "calls.jsonl"];
    let first = thermae.call(&run);
    assert_eq!((first.status, first.stdout.as_str()), (0, "3\nrefused\n"), "{first:?}");
    let lines: Vec<Value> =
        thermae.read("calls.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told: Vec<_> = lines.iter().map(|line| (line["event"].as_str().unwrap(), &line["result"])).collect();
    let (none, ok, bad) = (Value::Null, Value::from("ok"), Value::from("tool_arguments"));
    assert_eq!(told, [("opened", &none), ("call", &none), ("end", &ok), ("end", &bad)]);
    assert!(lines[1]["arguments"]["b"] == 2 && lines[1]["tenant"] == "local", "{lines:?}");

    // The next run goes on with the same file.
    thermae.call(&[&run[..], &["--audit-redact", "**/PIN"]].concat());
    let text = thermae.read("calls.jsonl");
    assert!(text.lines().count() == 8 && text.matches("4711").count() <= 1, "{text}");
    let whole = thermae.call(&["audit", "calls.jsonl", "--json"]);
    let told: Value = serde_json::from_str(&whole.stdout).unwrap();
    assert!(whole.status == 0 && told["unbroken"] == true && told["lines"] == 8, "{whole:?}");
    assert_eq!(told["tokens"], serde_json::json!({}), "the runs have none");

    thermae.file("changed.jsonl", &text.replace("\"b\":2", "\"b\":3"));
    let changed = thermae.call(&["audit", "changed.jsonl"]);
    assert!(changed.status == 1 && changed.stdout.starts_with("broken: line 3 does not follow line 2"), "{changed:?}");
    let cut: Vec<_> = text.lines().take(6).collect();
    thermae.file("cut.jsonl", &(cut.join("\n") + "\n"));
    assert_eq!(thermae.call(&["audit", "cut.jsonl"]).status, 0);
    let last = told["last"].as_str().unwrap();
    let known = thermae.call(&["audit", "cut.jsonl", "--last", last]);
    assert!(known.status == 1 && known.stdout.contains("the digest of the last line is"), "{known:?}");
    assert_eq!(thermae.call(&["audit", "calls.jsonl", "--last", last, "--after", &"0".repeat(64)]).status, 0);
}

#[test]
fn a_log_that_can_not_be_used_is_told() {
    let thermae = Thermae::with("main.py", "print(1)");
    let nowhere = thermae.call(&["run", "main.py", "--audit", "nowhere/calls.jsonl"]);
    assert!(nowhere.status == 3 && nowhere.stderr.contains("nowhere/calls.jsonl"), "{nowhere:?}");
    let pattern = thermae.call(&["run", "main.py", "--audit", "calls.jsonl", "--audit-redact", "a*"]);
    assert!(pattern.status == 3 && pattern.stderr.contains("audit.redact"), "{pattern:?}");
    assert_eq!(thermae.call(&["audit", "nowhere.jsonl"]).status, 2);
    assert_eq!(thermae.call(&["audit", "main.py"]).status, 1);
}

#[test]
fn a_call_that_can_not_be_written_is_not_made() {
    let code = "
await hide()
try:
    await touch()
except ToolError as error:
    print(str(error)[:12])
";
    let thermae = Thermae::with("main.py", code);
    let tools = "[tools.hide]\ncommand = \"mv calls.jsonl aside && mkdir calls.jsonl && echo 1\"\n\
                 [tools.touch]\ncommand = \"touch made && echo 1\"\n";
    thermae.file("tools.toml", tools);
    let run = thermae.call(&["run", "main.py", "--tools-file", "tools.toml", "--audit", "calls.jsonl"]);
    assert_eq!((run.status, run.stdout.as_str()), (0, "audit_failed\n"), "{run:?}");
    assert!(!thermae.path().join("made").exists());
    assert!(thermae.read("aside").contains("\"tool\":\"hide\""));
}
