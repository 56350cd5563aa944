//! What an SDK can do wrong.

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use serde_json::{Value, json};
use thermae_schemas::{ErrorCode, Status};

use crate::contract::sdk::{Sdk, WIDE};
use crate::{door, test};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        test("what_is_no_frame_ends_the_connection", what_is_no_frame_ends_the_connection),
        test("a_wrong_request_fails_alone", a_wrong_request_fails_alone),
    ]
}

async fn what_is_no_frame_ends_the_connection() -> Result<()> {
    let ends = async |greets: bool, message: &[u8], code: &str| -> Result<()> {
        let (mut sdk, _) = door::silent(json!({ "slots": 1, "warm": 1 })).await?;
        if greets {
            sdk.hello().await?;
            ensure!(sdk.next().await?.is("hello"));
        }
        sdk.send_raw(message.to_vec()).await?;
        let told = sdk.next().await?;
        ensure!(told.is("error") && told.id().is_none() && told.code() == code, "{told:?}");
        ensure!(sdk.next_or_end().await?.is_none());
        sdk.vanish().await
    };
    let frame = |header: &str| [&(header.len() as u32).to_le_bytes(), header.as_bytes()].concat();
    ends(true, &[0xff; 8], "bad_frame").await?;
    ends(true, &frame("[]"), "bad_frame").await?;
    ends(true, &frame("\u{0}"), "bad_frame").await?;
    ends(true, &frame(r#"{"type":"run","window":1}"#), "bad_frame").await?;
    ends(true, &frame(r#"{"type":"hello","versions":[1]}"#), "bad_frame").await?;
    ends(false, &frame(r#"{"type":"open","id":1,"embedded":{}}"#), "bad_frame").await?;
    ends(false, &frame(r#"{"type":"hello","versions":[9]}"#), "unsupported_version").await?;

    // An id that is in flight can't be used again.
    let mut sdk = Sdk::embedded(json!({ "slots": 1, "warm": 1 })).await?;
    sdk.run(1, WIDE, json!({ "code": "import time\ntime.sleep(600)" })).await?;
    sdk.run(1, WIDE, json!({ "code": "" })).await?;
    let told = sdk.next().await?;
    ensure!(told.code() == "bad_frame" && told.id().is_none(), "{told:?}");
    sdk.vanish().await?;

    // A frame about a request that is in flight has no answer of its own.
    let mut sdk = Sdk::embedded(json!({ "slots": 1, "warm": 1 })).await?;
    sdk.run(1, WIDE, json!({ "code": "import time\ntime.sleep(600)" })).await?;
    sdk.send(json!({ "type": "signal", "id": 1, "signal": "TERM" }), "").await?;
    let told = sdk.next().await?;
    let says = told.header["message"].as_str().unwrap_or_default();
    ensure!(told.code() == "bad_frame" && told.id().is_none() && says.starts_with("signal: "), "{told:?}");
    sdk.vanish().await
}

async fn a_wrong_request_fails_alone() -> Result<()> {
    let (mut sdk, mut open) = door::silent(json!({ "slots": 1, "warm": 1 })).await?;
    open["type"] = json!("open");
    sdk.hello().await?;
    ensure!(sdk.next().await?.is("hello"));
    let refused = async |sdk: &mut Sdk, header: Value, payload: &'static str, code: &str| -> Result<()> {
        let id = header["id"].as_u64();
        sdk.send(header, payload).await?;
        let told = sdk.next().await?;
        ensure!(told.is("error") && told.id() == id && told.code() == code, "{told:?}");
        Ok(())
    };
    let run = |id: u64| json!({ "type": "run", "id": id, "window": 1 });
    refused(&mut sdk, run(1), r#"{"id":"a","code":""}"#, "not_open").await?;
    refused(&mut sdk, json!({ "type": "exec", "id": 2 }), "", "unsupported_request").await?;
    refused(&mut sdk, json!({ "type": "run", "id": 3 }), "", "bad_request").await?;
    sdk.send(json!({ "type": "noted" }), "").await?;
    open["id"] = json!(4);
    sdk.send(open.clone(), "").await?;
    ensure!(sdk.next().await?.is("opened"));
    open["id"] = json!(5);
    refused(&mut sdk, open, "", "already_open").await?;
    refused(&mut sdk, run(6), "{", "malformed_json").await?;
    refused(&mut sdk, run(7), r#"{"code":""}"#, "schema_violation").await?;
    // A job with an id has an outcome, as if the fleet had refused it.
    sdk.run(8, WIDE, json!({ "code": "", "colour": "red" })).await?;
    let outcome = sdk.outcome(8).await?;
    ensure!(outcome.status == Status::Rejected, "{outcome:?}");
    ensure!(
        outcome.error.is_some_and(|error| error.code == ErrorCode::UnknownField && error.message.contains("colour"))
    );
    sdk.run(9, WIDE, json!({ "code": "print(9)" })).await?;
    ensure!(sdk.outcome(9).await?.stdout == "9\n");
    sdk.vanish().await
}
