//! Tool calls.

use anyhow::{Result, ensure};
use futures::FutureExt;
use serde_json::json;

use super::face::Face;
use super::{Case, case};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case("calls_of_one_gather_go_out_at_once", 1, |face| calls_of_one_gather_go_out_at_once(face).boxed()),
        case("answers_reach_the_code_unchanged", 1, |face| answers_reach_the_code_unchanged(face).boxed()),
        case("a_tool_that_can_not_be_read_is_noted_and_its_calls_fail", 1, |face| {
            a_tool_that_can_not_be_read_is_noted_and_its_calls_fail(face).boxed()
        }),
        case("an_answer_that_is_none_is_no_result", 1, |face| an_answer_that_is_none_is_no_result(face).boxed()),
        case("a_call_that_nobody_answers_ends_in_time", 1, |face| {
            a_call_that_nobody_answers_ends_in_time(face).boxed()
        }),
    ]
}

async fn calls_of_one_gather_go_out_at_once(mut face: Box<dyn Face>) -> Result<()> {
    let code = "import asyncio\nprint(await asyncio.gather(*(double(n=n) for n in range(10))))";
    let job = json!({ "id": "j", "code": code, "tools": [{ "name": "double" }] });
    face.submit(&job).await?.map_err(anyhow::Error::msg)?;
    let mut calls = Vec::new();
    for _ in 0..10 {
        calls.push(face.call("j").await?);
    }
    for call in calls.iter().rev() {
        let doubled = 2 * call["arguments"]["n"].as_i64().unwrap_or(-1);
        face.answer("j", call, &format!(r#"{{"ok":{doubled}}}"#)).await?.map_err(anyhow::Error::msg)?;
    }
    let outcome = face.outcome("j").await?;
    ensure!(outcome.stdout == "[0, 2, 4, 6, 8, 10, 12, 14, 16, 18]\n", "{outcome:?}");
    ensure!(outcome.usage.tool_calls == 10, "{outcome:?}");
    // Late and unknown answers change nothing. HTTP says so, and frames don't.
    let late = face.answer("j", &calls[0], r#"{"ok":77}"#).await?.err();
    ensure!(late.as_ref().is_none_or(|code| code == "call_answered" || code == "call_over"), "{late:?}");
    let unknown = face.answer("j", &json!({ "call": "x" }), r#"{"ok":0}"#).await?.err();
    ensure!(unknown.as_ref().is_none_or(|code| code == "unknown_call"), "{unknown:?}");
    ensure!(face.run(&json!({ "id": "k", "code": "print(2)" })).await?.stdout == "2\n");
    face.end().await
}

async fn a_tool_that_can_not_be_read_is_noted_and_its_calls_fail(mut face: Box<dyn Face>) -> Result<()> {
    let code = "
try:
    print(await odd(x='a'))
except ToolError as error:
    print('error', error)
print(await good(x='a'))
";
    let schema = |pattern: &str| json!({ "properties": { "x": { "pattern": pattern } } });
    let tools = json!([
        { "name": "odd", "input_schema": schema(r"^a\Z") }, { "name": "good", "input_schema": schema("^a$") },
    ]);
    face.submit(&json!({ "id": "j", "code": code, "tools": tools })).await?.map_err(anyhow::Error::msg)?;
    let call = face.call("j").await?;
    ensure!(call["tool"] == "good", "{call}");
    face.answer("j", &call, r#"{"ok":1}"#).await?.map_err(anyhow::Error::msg)?;
    let outcome = face.outcome("j").await?;
    let (error, rest) = outcome.stdout.split_once('\n').unwrap_or_default();
    ensure!(error.starts_with("error tool_arguments") && error.contains(r"\Z is no escape"), "{outcome:?}");
    ensure!(rest == "1\n" && outcome.usage.tool_calls == 1, "{outcome:?}");
    let [note] = outcome.notes.as_slice() else { anyhow::bail!("{outcome:?}") };
    ensure!(note.starts_with("The tool \"odd\" can't be called") && note.contains(r"\Z is no escape"), "{note}");
    // Nobody need call it.
    let uncalled = face.run(&json!({ "id": "k", "code": "", "tools": tools })).await?;
    ensure!(uncalled.notes == outcome.notes, "{uncalled:?}");
    face.end().await
}

async fn answers_reach_the_code_unchanged(mut face: Box<dyn Face>) -> Result<()> {
    let code = "
for _ in range(4):
    try:
        print(repr(await ask(n=2**70)))
    except ToolError as error:
        print('error', error)
";
    let job = json!({ "id": "j", "code": code, "tools": [{ "name": "ask" }] });
    face.submit(&job).await?.map_err(anyhow::Error::msg)?;
    for text in [
        r#"{"ok": 1180591620717411303424}"#,
        r#"{"ok":null}"#,
        r#"{"ok":{"é":[0.1,true]}}"#,
        r#"{"error":"ValueError: no such city"}"#,
    ] {
        let event = face.next("j").await?.map_err(anyhow::Error::msg)?;
        ensure!(String::from_utf8_lossy(&event).contains("1180591620717411303424"), "{event:?}");
        face.answer("j", &serde_json::from_slice(&event)?, text).await?.map_err(anyhow::Error::msg)?;
    }
    let outcome = face.outcome("j").await?;
    let lines: Vec<_> = outcome.stdout.lines().collect();
    ensure!(lines[..3] == ["1180591620717411303424", "None", "{'é': [0.1, True]}"], "{outcome:?}");
    ensure!(lines[3].contains("ValueError: no such city"), "{outcome:?}");
    face.end().await
}

async fn an_answer_that_is_none_is_no_result(mut face: Box<dyn Face>) -> Result<()> {
    let code = "try:\n    print(await ask())\nexcept ToolError as error:\n    print(error)";
    let job = json!({ "id": "j", "code": code, "tools": [{ "name": "ask" }] });
    face.submit(&job).await?.map_err(anyhow::Error::msg)?;
    let call = face.call("j").await?;
    // A frame has no answer of its own, so the call fails. A request is refused, and the call goes on to wait.
    let expected = match face.answer("j", &call, r#"{"oops":1}"#).await? {
        Ok(()) => "neither `ok`",
        Err(code) => {
            ensure!(code == "bad_body", "{code}");
            face.answer("j", &call, r#"{"ok":"then this"}"#).await?.map_err(anyhow::Error::msg)?;
            "then this"
        }
    };
    let outcome = face.outcome("j").await?;
    ensure!(outcome.stdout.contains(expected), "{outcome:?}");
    face.end().await
}

async fn a_call_that_nobody_answers_ends_in_time(mut face: Box<dyn Face>) -> Result<()> {
    let code = "try:\n    await ask()\nexcept ToolError as error:\n    print('error', error)";
    let limits = json!({ "tool_ms": 3000 });
    let job = json!({ "id": "j", "code": code, "tools": [{ "name": "ask" }], "limits": limits });
    face.submit(&job).await?.map_err(anyhow::Error::msg)?;
    let call = face.call("j").await?;
    ensure!(call["within_ms"] == 3000, "{call}");
    let outcome = face.outcome("j").await?;
    ensure!(outcome.stdout.starts_with("error"), "{outcome:?}");
    face.end().await
}
