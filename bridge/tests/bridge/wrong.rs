//! What an SDK can do wrong.

use std::sync::Arc;

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use serde_json::{Value, json};
use thermae_bridge::Direct;
use thermae_schemas::{ErrorCode, Status};

use crate::sdk::{Sdk, WIDE};
use crate::test;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        test("what_is_no_frame_ends_the_connection", what_is_no_frame_ends_the_connection),
        test("a_wrong_request_fails_alone", a_wrong_request_fails_alone),
        test(
            "a_fleet_that_can_not_be_opened_fails_what_waits_for_it",
            a_fleet_that_can_not_be_opened_fails_what_waits_for_it,
        ),
        test("a_machine_that_does_not_fit_is_told", a_machine_that_does_not_fit_is_told),
    ]
}

async fn what_is_no_frame_ends_the_connection() -> Result<()> {
    let ends = async |greets: bool, bytes: &[u8], code: &str| -> Result<()> {
        let mut sdk = Sdk::silent(Arc::new(Direct::default()));
        if greets {
            sdk.hello().await?;
            ensure!(sdk.next().await?.is("hello"));
        }
        sdk.send_raw(bytes).await?;
        let told = sdk.next().await?;
        ensure!(told.is("error") && told.id().is_none() && told.code() == code, "{told:?}");
        ensure!(sdk.next_or_end().await?.is_none());
        Ok(sdk.serving.await?)
    };
    let frame = |header: &str| {
        let lengths = [header.len() as u32 + 4, header.len() as u32].map(u32::to_le_bytes).concat();
        [lengths.as_slice(), header.as_bytes()].concat()
    };
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
    let mut sdk = Sdk::silent(Arc::new(Direct::default()));
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
    sdk.send(json!({ "type": "open", "id": 4, "embedded": { "slots": 1, "warm": 1 } }), "").await?;
    ensure!(sdk.next().await?.is("opened"));
    refused(&mut sdk, json!({ "type": "open", "id": 5, "embedded": {} }), "", "already_open").await?;
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

async fn a_fleet_that_can_not_be_opened_fails_what_waits_for_it() -> Result<()> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let silent = format!("amqp://acme:hunter2@{}", listener.local_addr()?);
    for (open, code, says) in [
        (json!({ "embedded": { "slotz": 1 } }), "bad_option", "`slotz`"),
        (json!({ "embedded": { "slots": 0 } }), "bad_option", "slots: must be 1 to 4096"),
        (json!({ "embedded": { "python": "/nonexistent/python3" } }), "embedded_unavailable", "/nonexistent/python3"),
        (json!({ "embedded": {}, "url": silent }), "bad_request", "both"),
        (json!({}), "bad_request", "either"),
        (json!({ "url": "http://acme:hunter2@x" }), "bad_url", "not of the form"),
        (json!({ "embedded": [] }), "bad_option", "embedded: "),
        (json!({ "url": 3 }), "bad_option", "url: "),
        (json!({ "url": silent, "connect_timeout": "200ms" }), "broker_unreachable", "127.0.0.1"),
    ] {
        let mut sdk = Sdk::silent(Arc::new(Direct::default()));
        sdk.hello().await?;
        let mut header = json!({ "type": "open", "id": 1 });
        header
            .as_object_mut()
            .into_iter()
            .for_each(|header| header.extend(open.as_object().cloned().unwrap_or_default()));
        sdk.send(header, "").await?;
        sdk.run(2, WIDE, json!({ "code": "" })).await?;
        ensure!(sdk.next().await?.is("hello"));
        let told = [sdk.next().await?, sdk.next().await?];
        ensure!(
            told.iter().any(|told| told.id() == Some(1)) && told.iter().any(|told| told.id() == Some(2)),
            "{told:?}"
        );
        for told in told {
            let text = told.header.to_string();
            ensure!(told.code() == code && text.contains(says) && !text.contains("hunter2"), "{open}: {told:?}");
        }
        sdk.vanish().await?;
    }
    Ok(())
}

async fn a_machine_that_does_not_fit_is_told() -> Result<()> {
    let mut sdk = Sdk::embedded(json!({ "slots": 1, "warm": 1, "python": "/bin/ls" })).await?;
    for id in 1..3 {
        sdk.run(id, WIDE, json!({ "code": "" })).await?;
        let all = sdk.all_of(id).await?;
        let told = &all[0];
        ensure!(told.code() == "embedded_unavailable" && told.header.to_string().contains("/bin/ls"), "{told:?}");
    }
    sdk.vanish().await
}
