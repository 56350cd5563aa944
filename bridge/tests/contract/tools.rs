//! Tool calls.

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::contract::sdk::{Sdk, WIDE};
use crate::test;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        test("calls_of_one_gather_go_out_at_once", calls_of_one_gather_go_out_at_once),
        test("answers_reach_the_code_unchanged", answers_reach_the_code_unchanged),
        test("a_call_that_nobody_answers_ends_in_time", a_call_that_nobody_answers_ends_in_time),
    ]
}

/// The next tool call: its wire form.
async fn called(sdk: &mut Sdk) -> Result<Value> {
    let told = sdk.next().await?;
    let wire: Value = serde_json::from_slice(&told.payload)?;
    ensure!(wire["event"] == "tool_call", "{told:?}");
    Ok(wire)
}

async fn answer(sdk: &mut Sdk, call: &Value, payload: &str) -> Result<()> {
    sdk.send(json!({ "type": "tool_result", "id": 1, "call": call["call"] }), payload.to_owned()).await
}

async fn calls_of_one_gather_go_out_at_once() -> Result<()> {
    let mut sdk = Sdk::embedded(json!({ "slots": 1, "warm": 1 })).await?;
    let code = "import asyncio\nprint(await asyncio.gather(*(double(n=n) for n in range(10))))";
    sdk.run(1, WIDE, json!({ "code": code, "tools": [{ "name": "double" }] })).await?;
    let mut calls = Vec::new();
    for _ in 0..10 {
        calls.push(called(&mut sdk).await?);
    }
    for call in calls.iter().rev() {
        let doubled = 2 * call["arguments"]["n"].as_i64().unwrap_or(-1);
        answer(&mut sdk, call, &format!(r#"{{"ok":{doubled}}}"#)).await?;
    }
    let outcome = sdk.outcome(1).await?;
    ensure!(outcome.stdout == "[0, 2, 4, 6, 8, 10, 12, 14, 16, 18]\n", "{outcome:?}");
    ensure!(outcome.usage.tool_calls == 10, "{outcome:?}");
    // Late and foreign answers change nothing.
    answer(&mut sdk, &calls[0], r#"{"ok":0}"#).await?;
    sdk.send(json!({ "type": "tool_result", "id": 99, "call": "x" }), r#"{"ok":0}"#).await?;
    sdk.run(2, WIDE, json!({ "code": "print(2)" })).await?;
    ensure!(sdk.outcome(2).await?.stdout == "2\n");
    sdk.vanish().await
}

async fn answers_reach_the_code_unchanged() -> Result<()> {
    let mut sdk = Sdk::embedded(json!({ "slots": 1, "warm": 1 })).await?;
    let code = "
for _ in range(5):
    try:
        print(repr(await ask(n=2**70)))
    except ToolError as error:
        print('error', error)
";
    sdk.run(1, WIDE, json!({ "code": code, "tools": [{ "name": "ask" }] })).await?;
    let answers = [
        r#"{"ok": 1180591620717411303424}"#,
        r#"{"ok":null}"#,
        r#"{"ok":{"é":[0.1,true]}}"#,
        r#"{"error":"ValueError: no such city"}"#,
        r#"{"oops":1}"#,
    ];
    for text in answers {
        let told = sdk.next().await?;
        ensure!(String::from_utf8_lossy(&told.payload).contains("1180591620717411303424"), "{told:?}");
        let call: Value = serde_json::from_slice(&told.payload)?;
        answer(&mut sdk, &call, text).await?;
    }
    let outcome = sdk.outcome(1).await?;
    let lines: Vec<_> = outcome.stdout.lines().collect();
    ensure!(lines[..3] == ["1180591620717411303424", "None", "{'é': [0.1, True]}"], "{outcome:?}");
    ensure!(lines[3].contains("ValueError: no such city") && lines[4].contains("neither `ok`"), "{outcome:?}");
    sdk.vanish().await
}

async fn a_call_that_nobody_answers_ends_in_time() -> Result<()> {
    let mut sdk = Sdk::embedded(json!({ "slots": 1, "warm": 1 })).await?;
    let code = "try:\n    await ask()\nexcept ToolError as error:\n    print('error', error)";
    let limits = json!({ "tool_ms": 200 });
    sdk.run(1, WIDE, json!({ "code": code, "tools": [{ "name": "ask" }], "limits": limits })).await?;
    let call = called(&mut sdk).await?;
    ensure!(call["within_ms"] == 200, "{call}");
    let outcome = sdk.outcome(1).await?;
    ensure!(outcome.stdout.starts_with("error"), "{outcome:?}");
    sdk.vanish().await
}
