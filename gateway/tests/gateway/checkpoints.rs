//! Checkpoints of sessions.

use std::path::Path;

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use serde_json::{Value, json};
use thermae_fleet::EmbeddedOptions;
use thermae_gateway::Options;

use crate::http::Answer;
use crate::serving::Serving;
use crate::test;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        test("a_session_goes_back_to_its_checkpoint", a_session_goes_back_to_its_checkpoint),
        test("a_session_of_bash_has_checkpoints", a_session_of_bash_has_checkpoints),
        test("what_is_not_there_is_not_stored_or_restored", what_is_not_there_is_not_stored_or_restored),
    ]
}

async fn stored(store: &Path) -> Result<Serving> {
    let store = Some(store.to_owned());
    let embedded = EmbeddedOptions { slots: Some(2), warm: Some(1), store, ..EmbeddedOptions::default() };
    Serving::in_front_of(embedded, Options::default()).await
}

async fn post(serving: &Serving, path: &str) -> Result<Answer> {
    serving.ask("POST", &format!("/v1/sessions/{path}"), "", b"").await
}

async fn put(serving: &Serving, path: &str, content: &str) -> Result<()> {
    let put = serving.ask("PUT", &format!("/v1/sessions/{path}"), "", content.as_bytes()).await?;
    ensure!(put.status == 200, "{put:?}");
    Ok(())
}

/// Checks the state of a session that has begun with so many files.
fn begun(answer: &Answer, files: u64) -> Result<Value> {
    let state = answer.json()?;
    ensure!(answer.status == 201 && state["fresh"] == true && state["alive"] == true, "{answer:?} {state}");
    ensure!(state["restored_files"] == files && state["checkpointed"] == true, "{state}");
    Ok(state)
}

async fn a_session_goes_back_to_its_checkpoint() -> Result<()> {
    let store = tempfile::tempdir()?;
    let serving = stored(store.path()).await?;
    serving.session("s").await?;
    put(&serving, "s/files/f", "one").await?;
    let kept = post(&serving, "s/checkpoint?ttl_ms=60000").await?;
    let state = kept.json()?;
    ensure!(kept.status == 200 && state["checkpointed"] == true && state["fresh"] == false, "{kept:?} {state}");
    ensure!(state["id"] == "s" && state["checkpoint_expires_at"].is_string(), "{state}");
    put(&serving, "s/files/f", "two").await?;
    let on = serving.run(json!({ "code": "print(x)", "session": { "id": "s" } })).await?;
    let session = &on["outcome"]["session"];
    ensure!(on["outcome"]["stdout"] == "1\n" && session.get("checkpointed").is_none(), "once is once: {on}");

    post(&serving, "s/restore").await?.problem(409, "session_lives")?;
    ensure!(serving.get("/v1/sessions/s/files/f").await?.body == b"two", "a refusal changes nothing");
    // It can go back as often as it likes.
    for content in ["three", "four"] {
        begun(&post(&serving, "s/restore?reset=true").await?, 1)?;
        ensure!(serving.get("/v1/sessions/s/files/f").await?.body == b"one");
        put(&serving, "s/files/f", content).await?;
    }
    let anew = serving.run(json!({ "code": "print(x)", "session": { "id": "s" } })).await?;
    ensure!(anew["outcome"]["error"]["code"] == "code_raised", "the variables are gone: {anew}");

    begun(&post(&serving, "copy/restore?from=s").await?, 1)?;
    ensure!(serving.get("/v1/sessions/copy/files/f").await?.body == b"one");
    let closed = serving.ask("DELETE", "/v1/sessions/s", "", b"").await?;
    ensure!(closed.status == 204, "{closed:?}");
    begun(&post(&serving, "s/restore").await?, 1)?;
    serving.end().await?;

    // Checkpoints outlive the fleet, until a job removes them.
    let serving = stored(store.path()).await?;
    begun(&post(&serving, "s/restore").await?, 1)?;
    let removing = json!({ "code": "", "session": { "id": "s", "reset": true, "close": true } });
    ensure!(serving.run(removing).await?["outcome"]["status"] == "succeeded");
    post(&serving, "s/restore").await?.problem(404, "checkpoint_missing")?;
    serving.end().await
}

async fn a_session_of_bash_has_checkpoints() -> Result<()> {
    let store = tempfile::tempdir()?;
    let serving = stored(store.path()).await?;
    let job = json!({ "code": "echo kept > f", "language": "bash", "session": { "id": "b" } });
    ensure!(serving.run(job).await?["outcome"]["status"] == "succeeded");
    ensure!(post(&serving, "b/checkpoint").await?.status == 200);
    begun(&post(&serving, "b/restore?reset=true&language=bash").await?, 1)?;
    let job = json!({ "code": "cat f", "language": "bash", "session": { "id": "b" } });
    ensure!(serving.run(job).await?["outcome"]["stdout"] == "kept\n");
    let closed = serving.ask("DELETE", "/v1/sessions/b", "", b"").await?;
    ensure!(closed.status == 204, "{closed:?}");
    serving.end().await
}

async fn what_is_not_there_is_not_stored_or_restored() -> Result<()> {
    let store = tempfile::tempdir()?;
    let serving = stored(store.path()).await?;
    post(&serving, "none/checkpoint").await?.problem(404, "session_lost")?;
    post(&serving, "none/restore").await?.problem(404, "checkpoint_missing")?;
    post(&serving, "none/restore?from=nobody").await?.problem(404, "checkpoint_missing")?;
    serving.get("/v1/sessions/none/files").await?.problem(404, "session_lost")?;
    serving.session("s").await?;
    post(&serving, "s/checkpoint?ttl_ms=0").await?.problem(400, "bad_parameter")?;
    post(&serving, "s/checkpoint?ttl_ms=9999999999999").await?.problem(422, "limit_too_high")?;
    for bad in ["from=a%20b", "language=a.b", "pool=a.b", "reset=maybe", "colour=1"] {
        post(&serving, &format!("s/restore?{bad}")).await?.problem(400, "bad_parameter")?;
    }
    serving.end().await?;
    let serving = Serving::new().await?;
    serving.session("s").await?;
    post(&serving, "s/checkpoint").await?.problem(409, "checkpoint_unsupported")?;
    post(&serving, "t/restore").await?.problem(409, "checkpoint_unsupported")?;
    serving.end().await
}
