use std::io::Write;
use std::time::Duration;

use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use super::*;

fn tools(options: &[&str]) -> Arc<Tools> {
    let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
    Arc::new(Tools::gather(&options, None, None, &Trust::of_user()).unwrap())
}

async fn call(tools: &Tools, tool: &str, arguments: Value) -> Result<Value, ToolFailure> {
    let answer = tools.call(&job(), tool, to_raw_value(&arguments).unwrap()).await?;
    Ok(serde_json::from_str(answer.get()).unwrap())
}

fn job() -> JobId {
    JobId::new("j1").unwrap()
}

#[tokio::test]
async fn arguments_go_in_and_the_result_comes_out_as_json() {
    let tools = tools(&["echo=cat", "nothing=true", "who=printf '\"%s %s\"' $THERMAE_TOOL $THERMAE_JOB"]);
    let arguments = json!({ "text": "a\n'b' $HOME", "list": [1, null, true] });
    assert_eq!(call(&tools, "echo", arguments.clone()).await, Ok(arguments));
    let text = r#"{"z":1.50,"a":[100000000000000000001,1E2],"m":{}}"#;
    let answer = tools.call(&job(), "echo", RawValue::from_string(text.into()).unwrap()).await.unwrap();
    assert_eq!(answer.get(), text, "as it was written");
    assert_eq!(call(&tools, "nothing", json!({})).await, Ok(Value::Null));
    assert_eq!(call(&tools, "who", json!({})).await, Ok(json!("who j1")));
}

#[tokio::test]
async fn a_failing_command_tells_what_it_said_last() {
    let tools = tools(&["bad=echo 'no such region' >&2; exit 3", "text=echo hello"]);
    let error = call(&tools, "bad", json!({})).await.unwrap_err().message;
    assert_eq!(error, "the tool bad ended with status 3: no such region");
    let error = call(&tools, "text", json!({})).await.unwrap_err().message;
    assert!(error.contains("did not print JSON") && error.contains("hello"), "{error}");
    let tools = self::tools(&["large=printf 1e999", "half=printf '\"\\\\ud800\"'", "gone=/nonexistent/x"]);
    for tool in ["large", "half"] {
        assert!(call(&tools, tool, json!({})).await.unwrap_err().message.contains("did not print JSON"), "{tool}");
    }
    assert!(call(&tools, "gone", json!({})).await.unwrap_err().message.contains("status 127"));
    assert!(call(&tools, "unknown", json!({})).await.is_err());
}

#[tokio::test]
async fn large_arguments_results_and_complaints_do_not_block() {
    let tools = tools(&[
        "echo=cat",
        "deaf=printf 1; exec <&-",
        "loud=head -c 3000000 /dev/zero | tr '\\0' x >&2; printf 'the end' >&2; exit 1",
    ]);
    let large = json!({ "text": "x".repeat(3 << 20) });
    assert_eq!(call(&tools, "echo", large.clone()).await, Ok(large.clone()));
    assert_eq!(call(&tools, "deaf", large).await, Ok(json!(1)));
    let error = call(&tools, "loud", json!({})).await.unwrap_err().message;
    assert!(error.len() < 5000 && error.ends_with("the end"), "{}", error.len());
}

#[tokio::test]
async fn a_command_that_does_not_end_is_killed_with_its_children() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    // The pipe closes when the last process that has it open is gone.
    let mkfifo = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(mkfifo.success());
    let script = format!("sleep 600 > {p} & sleep 600 > {p}; wait", p = pipe.display());
    let (_, mut command) = Entry::shell(&script).into_tool("slow".to_owned(), Path::new(".")).unwrap();
    command.timeout = Duration::from_millis(300);
    let reader = std::thread::spawn(move || std::fs::read(pipe));
    let error = command.call(&job(), "slow", &to_raw_value(&json!({})).unwrap()).await.unwrap_err();
    assert!(error.message.contains("did not end within 0.3 s"), "{error:?}");
    assert_eq!(error.kind.as_deref(), Some("TimeoutError"));
    assert_eq!(reader.join().unwrap().unwrap(), b"");
}

#[tokio::test]
async fn several_calls_run_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let calls = 4;
    // None of them ends before all have begun.
    let meets = format!(
        "meets=cd {}; touch $$; until [ $(ls | wc -l) = {calls} ]; do sleep 0.01; done; echo 1",
        dir.path().display()
    );
    let tools = tools(&[&meets]);
    let answers = futures::future::join_all((0..calls).map(|_| call(&tools, "meets", json!({})))).await;
    assert!(answers.iter().all(|answer| *answer == Ok(json!(1))), "{answers:?}");
}

#[test]
fn a_trusted_file_beside_the_program_is_used_and_the_command_line_wins() {
    let (dir, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let trust = Trust::below(state.path());
    let mut file = std::fs::File::create(dir.path().join(FILE)).unwrap();
    file.write_all(
        br#"
        [tools.get_sales]
        command = ["python3", "sales.py"]
        description = "Sales of a region"
        input_schema = { type = "object", properties = { region = {}, quarter = {} }, required = ["region"] }
        max_calls = 5
        timeout = "2s"
        [tools.echo]
        command = "cat"
        "#,
    )
    .unwrap();
    let gather = || Tools::gather(&["echo=tac".to_owned()], None, Some(dir.path()), &trust).unwrap();
    assert_eq!(gather().entries.keys().collect::<Vec<_>>(), ["echo"], "nobody has trusted it");
    let path = dir.path().join(FILE);
    trust.add(&path, &std::fs::read(&path).unwrap()).unwrap();
    let tools = gather();
    let sales = &tools.entries["get_sales"];
    assert_eq!(
        (sales.0.max_calls, sales.1.timeout, sales.1.dir.as_path()),
        (Some(5), Duration::from_secs(2), dir.path())
    );
    let schema = r#"{"type":"object","properties":{"region":{},"quarter":{}},"required":["region"]}"#;
    assert_eq!(sales.0.input_schema.as_ref().unwrap().raw().get(), schema, "in the order of the file");
    assert_eq!(tools.entries["echo"].1.words[2], "tac");
    file.write_all(b"\n# changed\n").unwrap();
    assert_eq!(gather().entries.keys().collect::<Vec<_>>(), ["echo"], "it is not what was trusted");
}

#[test]
fn nonsense_is_refused_with_its_place() {
    let trust = Trust::of_user();
    let message = |options: &[&str]| {
        let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
        Tools::gather(&options, None, None, &trust).unwrap_err().message
    };
    assert!(message(&["get_sales"]).contains("NAME=COMMAND"));
    assert!(message(&["=cat"]).contains("NAME=COMMAND"));
    assert!(message(&["a.b=cat", "a-b=cat"]).contains("both a_b"));
    assert!(message(&["class=cat", "class_=cat"]).contains("both class_"));
    assert!(message(&["2x=cat", "_2x=cat"]).contains("both _2x"));

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(FILE);
    for (text, part) in [
        ("[tools.a]\ncommand = []", "empty command"),
        ("[tools.a]\ncommand = 'x'\ncomand = 'y'", "tools.a.comand"),
        ("[tools.a]\ncommand = 3", "tools.a.command"),
        ("[tools.a]\ntimeout = '1s'", "missing"),
        ("[tools.a]\ncommand = 'x'\ninput_schema = { maximum = inf }", "the number inf"),
        ("[tols.a]", "tols"),
        ("[tools", "can't be used"),
    ] {
        std::fs::write(&path, text).unwrap();
        let message = Tools::gather(&[], Some(&path), None, &trust).unwrap_err().message;
        assert!(message.contains(part), "{text}: {message}");
    }
}

#[test]
fn folders_of_programs_that_commands_name_are_folders_that_programs_run_from() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("tools")).unwrap();
    std::fs::write(dir.path().join("tools/sales.py"), "").unwrap();
    let path = dir.path().join("mine.toml");
    std::fs::write(&path, "[tools.a]\ncommand = ['python3', 'tools/sales.py']\n").unwrap();
    let tools = Tools::gather(&[], Some(&path), None, &Trust::of_user()).unwrap();
    let folders = tools.folders(Some(Path::new("")));
    assert_eq!(folders, [dir.path().to_owned(), dir.path().join("tools"), Path::new(".").to_owned()]);
    let shell = format!("a=cd / && python3 {}/tools/sales.py --all", dir.path().display());
    let tools = tools_of(&shell);
    assert!(tools.folders(None).contains(&dir.path().join("tools")));
}

fn tools_of(option: &str) -> Tools {
    Tools::gather(&[option.to_owned()], None, None, &Trust::of_user()).unwrap()
}

#[test]
fn names_that_differ_in_the_code_do_not_clash() {
    let trust = Trust::of_user();
    for (first, one) in thermae_schemas::ALIAS_CASES.iter().filter(|(name, _)| !name.is_empty()) {
        for (second, other) in thermae_schemas::ALIAS_CASES.iter().filter(|(name, _)| !name.is_empty() && name != first)
        {
            let options = [format!("{first}=cat"), format!("{second}=cat")];
            assert_eq!(Tools::gather(&options, None, None, &trust).is_err(), one == other, "{first:?} and {second:?}");
        }
    }
}

#[test]
fn a_tool_is_never_a_list_of_its_keys() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tools.toml");
    std::fs::write(&file, "[tools]\nlook = [\"echo\", \"hi\"]\n").unwrap();
    let failure = Tools::gather(&[], Some(&file), None, &Trust::of_user()).unwrap_err();
    assert_eq!(failure.code, "bad_tools_file");
    assert!(failure.message.contains("tools.look") && failure.message.contains("a table"), "{}", failure.message);
}

#[test]
fn a_file_that_can_not_be_read_is_not_called_bad_toml() {
    let dir = tempfile::tempdir().unwrap();
    let failure = Tools::gather(&[], Some(&dir.path().join("no.toml")), None, &Trust::of_user()).unwrap_err();
    assert_eq!(failure.code, "bad_tools_file");
    assert!(failure.message.contains("can't read") && failure.message.contains("No such file"), "{}", failure.message);
    let failure = Tools::gather(&[], Some(dir.path()), None, &Trust::of_user()).unwrap_err();
    assert!(failure.message.contains("not a regular file"), "{}", failure.message);
}
