//! Commands in live sessions whose input and output wait for credit.

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::contract::sdk::{Sdk, Told, WIDE};
use crate::test;

pub(crate) fn tests() -> Vec<Trial> {
    vec![test("input_and_output_wait_for_credit", input_and_output_wait_for_credit)]
}

fn end(told: &Told) -> Result<Value> {
    ensure!(told.is("done"), "{told:?}");
    Ok(serde_json::from_slice(&told.payload)?)
}

async fn input_and_output_wait_for_credit() -> Result<()> {
    let mut sdk = Sdk::embedded(json!({ "slots": 1, "warm": 1 })).await?;
    sdk.run(1, WIDE, json!({ "code": "open('made', 'w').write('here')", "session": { "id": "s" } })).await?;
    sdk.outcome(1).await?;
    // Much more than a window goes through the command, in both directions.
    let (window, piece, pieces) = (64 << 10, 32 << 10, 96_u64);
    let command = json!({ "session": "s", "exec": { "shell": "cat made - >&2" }, "more_input": true });
    sdk.send(json!({ "type": "request", "id": 2, "window": window }), command.to_string()).await?;
    let (mut allowed, mut sent, mut got) = (u64::from(window as u32), 0, Vec::new());
    let done = loop {
        while sent < pieces && (sent + 1) * piece <= allowed {
            sent += 1;
            let header = json!({ "type": "input", "id": 2, "end": sent == pieces });
            sdk.send(header, vec![sent as u8; piece as usize]).await?;
        }
        let told = sdk.next().await?;
        if told.is("credit") {
            allowed += told.header["bytes"].as_u64().context("no bytes")?;
        } else if told.is("output") {
            ensure!(told.header["stream"] == "stderr", "{told:?}");
            got.extend_from_slice(&told.payload);
            sdk.send(json!({ "type": "credit", "id": 2, "bytes": told.payload.len() }), "").await?;
        } else {
            break told;
        }
    };
    ensure!(end(&done)?["how"] == "exited", "{done:?}");
    let mut expected = b"here".to_vec();
    (1..=pieces).for_each(|n| expected.extend(vec![n as u8; piece as usize]));
    ensure!(got == expected, "{} bytes came", got.len());

    let sleep = json!({ "session": "s", "exec": { "argv": ["sleep", "1000"] } });
    sdk.send(json!({ "type": "request", "id": 3, "window": 1 }), sleep.to_string()).await?;
    sdk.send(json!({ "type": "cancel", "id": 3 }), "").await?;
    ensure!(end(&sdk.next().await?)?["how"] == "cancelled");
    let nowhere = json!({ "session": "none", "keepalive": {} });
    sdk.send(json!({ "type": "request", "id": 4, "window": 1 }), nowhere.to_string()).await?;
    ensure!(end(&sdk.next().await?)?["error"]["code"] == "session_lost");
    sdk.vanish().await
}
