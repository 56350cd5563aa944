//! Flow control.

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use serde_json::json;
use thermae_schemas::{EventBody, Status};

use crate::contract::sdk::{Sdk, WIDE};
use crate::test;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        test("a_run_without_credit_holds_up_no_other", a_run_without_credit_holds_up_no_other),
        test("a_call_without_credit_or_room_fails_in_the_code", a_call_without_credit_or_room_fails_in_the_code),
    ]
}

async fn a_run_without_credit_holds_up_no_other() -> Result<()> {
    let mut sdk = Sdk::embedded(json!({ "slots": 2, "warm": 2 })).await?;
    let flood = "for n in range(300):\n    print(str(n) * 1000, flush=True)";
    let limits = json!({ "output_bytes": 8 << 20 });
    sdk.run(1, 10_000, json!({ "code": flood, "stream": ["output"], "limits": limits })).await?;
    // The first run's window is soon used up. While nobody takes its bytes, others run and end.
    let mut slow = 0;
    let mut events = Vec::new();
    for id in 2..30 {
        sdk.run(id, WIDE, json!({ "code": "print('quick')" })).await?;
        let outcome = loop {
            let told = sdk.next().await?;
            if told.id() != Some(1) {
                break told.outcome()?;
            }
            slow += told.payload.len();
            events.push(told);
        };
        ensure!(outcome.stdout == "quick\n", "{outcome:?}");
        ensure!(sdk.next().await?.is("done"));
    }
    ensure!(slow > 0, "the slow run sent nothing");
    // One frame may exceed the window.
    let largest = events.iter().map(|told| told.payload.len()).max().unwrap_or(0);
    ensure!(slow <= 10_000 + largest, "{slow} bytes came without credit");
    // Credit brings what waits, and then the whole result.
    let result = loop {
        sdk.send(json!({ "type": "credit", "id": 1, "bytes": 10_000_000 }), "").await?;
        let told = sdk.next().await?;
        if matches!(told.event()?.body, EventBody::Result(_)) {
            break told;
        }
        events.push(told);
    };
    ensure!(sdk.next().await?.is("done"));
    let outcome = result.outcome()?;
    let expected: String = (0..300).map(|n| n.to_string().repeat(1000) + "\n").collect();
    ensure!(outcome.stdout == expected, "{} bytes", outcome.stdout.len());
    let mut last = None;
    for told in events {
        let EventBody::Stdout { seq, .. } = told.event()?.body else { anyhow::bail!("{told:?}") };
        ensure!(last.is_none_or(|last| seq > last), "{seq} after {last:?}");
        last = Some(seq);
    }
    sdk.vanish().await
}

async fn a_call_without_credit_or_room_fails_in_the_code() -> Result<()> {
    let mut sdk = Sdk::embedded(json!({ "slots": 1, "warm": 1 })).await?;
    let code = "
import asyncio
async def ask(n):
    try:
        await tool(text='x' * n)
    except ToolError as error:
        return str(error)
print(await asyncio.gather(*(ask(1000) for _ in range(3))))
";
    // One call takes all credit. The others may not wait, because they are larger than the window.
    sdk.run(1, 500, json!({ "code": code, "tools": [{ "name": "tool" }] })).await?;
    let call = sdk.next().await?;
    let EventBody::ToolCall(call) = call.event()?.body else { anyhow::bail!("{call:?}") };
    sdk.send(json!({ "type": "tool_result", "id": 1, "call": call.call }), r#"{"ok":1}"#).await?;
    // The fleet has one slot, so the first job has ended when the second ends. Only its result waits for credit.
    sdk.run(2, WIDE, json!({ "code": "" })).await?;
    sdk.outcome(2).await?;
    sdk.send(json!({ "type": "credit", "id": 1, "bytes": 10_000 }), "").await?;
    let outcome = sdk.outcome(1).await?;
    ensure!(outcome.status == Status::Succeeded, "{outcome:?}");
    ensure!(outcome.stdout.matches("takes no more calls").count() == 2, "{outcome:?}");
    sdk.vanish().await
}
