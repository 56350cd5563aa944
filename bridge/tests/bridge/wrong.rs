//! What an SDK can do wrong.

use std::sync::Arc;

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use serde_json::json;
use thermae_bridge::Direct;

use crate::contract::sdk::{Sdk, WIDE};
use crate::test;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        test(
            "a_fleet_that_can_not_be_opened_fails_what_waits_for_it",
            a_fleet_that_can_not_be_opened_fails_what_waits_for_it,
        ),
        test("a_machine_that_does_not_fit_is_told", a_machine_that_does_not_fit_is_told),
    ]
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
        (json!({ "embedded": { "ceiling": [] } }), "bad_option", "ceiling: "),
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
