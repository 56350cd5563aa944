//! Sessions: list, commands, close.

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use serde_json::json;

use crate::serving::Serving;
use crate::test;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        test("commands_run_in_a_session", commands_run_in_a_session),
        test("a_command_is_streamed", a_command_is_streamed),
        test("sessions_are_listed_and_closed", sessions_are_listed_and_closed),
    ]
}

async fn commands_run_in_a_session() -> Result<()> {
    let serving = Serving::new().await?;
    serving.session("s").await?;
    let path = "/v1/sessions/s/exec";
    let done = serving.post(path, &json!({ "shell": "cat; echo oops >&2; exit 3", "stdin": "hi\n" })).await?.json()?;
    ensure!(done["how"] == "exited" && done["code"] == 3 && done["truncated"] == false, "{done}");
    ensure!(done["stdout"] == "hi\n" && done["stderr"] == "oops\n" && done.get("stdout_base64").is_none(), "{done}");
    let exact = serving.post(path, &json!({ "argv": ["printf", "\\377"] })).await?.json()?;
    ensure!(exact["stdout_base64"] == "/w==", "{exact}");
    // More than a window goes through the command, in both directions.
    let large = "x".repeat(3 << 20);
    let counted = serving.post(path, &json!({ "argv": ["wc", "-c"], "stdin": large })).await?.json()?;
    ensure!(counted["stdout"] == format!("{}\n", large.len()), "{counted}");
    let cut = json!({ "shell": "cat", "stdin": large, "max_output_bytes": 1000 });
    let cut = serving.post(path, &cut).await?.json()?;
    let kept = cut["stdout"].as_str().map(str::len);
    ensure!(kept == Some(1000) && cut["truncated"] == true && cut["code"] == 0, "{kept:?}");
    let late = serving.post(path, &json!({ "shell": "sleep 60", "timeout_ms": 100 })).await?.json()?;
    ensure!(late["how"] == "timed_out", "{late}");

    for (body, code) in [
        (json!({}), "schema_violation"),
        (json!([["ls"], null]), "schema_violation"),
        (json!({ "argv": ["a"], "shell": "b" }), "schema_violation"),
        (json!({ "shell": "a", "colour": 1 }), "unknown_field"),
        (json!({ "shell": "a", "stdin": "x", "stdin_base64": "eA==" }), "schema_violation"),
        (json!({ "shell": "a", "max_output_bytes": 99_999_999 }), "schema_violation"),
    ] {
        serving.post(path, &body).await?.problem(422, code)?;
    }
    serving.post("/v1/sessions/none/exec", &json!({ "shell": "a" })).await?.problem(404, "session_lost")?;
    serving.post("/v1/sessions/a%20b/exec", &json!({ "shell": "a" })).await?.problem(400, "bad_parameter")?;
    serving.end().await
}

async fn a_command_is_streamed() -> Result<()> {
    let serving = Serving::new().await?;
    serving.session("s").await?;
    let headers = "Content-Type: application/json\r\n";
    let body = json!({ "shell": "read line; echo $line >&2; printf '\\377'", "stdin": "two\n" }).to_string();
    let told = serving.follow("POST", "/v1/sessions/s/exec", headers, body.as_bytes()).await?.rest().await?;
    let of = |kind: &str| told.iter().filter(|told| told.event == kind).map(|told| &told.data).collect::<Vec<_>>();
    ensure!(of("stderr") == [&json!({ "text": "two\n" })], "{told:?}");
    ensure!(of("stdout").contains(&&json!({ "base64": "/w==" })), "{told:?}");
    let last = told.last().map(|told| (told.event.as_str(), told.data["how"].clone(), told.data["code"].clone()));
    ensure!(last == Some(("done", json!("exited"), json!(0))), "{told:?}");

    // A client that goes away ends the command.
    let body = json!({ "shell": "echo $$; exec sleep 600" }).to_string();
    let mut events = serving.follow("POST", "/v1/sessions/s/exec", headers, body.as_bytes()).await?;
    let first = events.next().await?;
    let pid = first.as_ref().and_then(|told| told.data["text"].as_str()).unwrap_or_default().trim().to_owned();
    ensure!(!pid.is_empty(), "{first:?}");
    drop(events);
    let wait = format!("while kill -0 {pid} 2>/dev/null; do sleep 0.05; done; echo gone");
    let gone = serving.post("/v1/sessions/s/exec", &json!({ "shell": wait })).await?.json()?;
    ensure!(gone["stdout"] == "gone\n", "{gone}");
    let nobody = serving.follow("POST", "/v1/sessions/none/exec", headers, body.as_bytes()).await?.rest().await?;
    ensure!(nobody.len() == 1 && nobody[0].data["code"] == "session_lost", "{nobody:?}");
    serving.end().await
}

async fn sessions_are_listed_and_closed() -> Result<()> {
    let serving = Serving::new().await?;
    ensure!(serving.get("/v1/sessions").await?.json()? == json!({ "sessions": [] }));
    serving.session("a/b").await?;
    loop {
        let listed = serving.get("/v1/sessions").await?.json()?;
        if listed["sessions"][0]["id"] == "a/b" {
            break;
        }
    }
    let closed = serving.ask("DELETE", "/v1/sessions/a%2Fb", "", b"").await?;
    ensure!(closed.status == 204, "{closed:?}");
    serving.ask("DELETE", "/v1/sessions/a%2Fb?pool=default", "", b"").await?.problem(404, "session_lost")?;
    serving.ask("DELETE", "/v1/sessions/x?pool=a.b", "", b"").await?.problem(400, "bad_parameter")?;
    serving.end().await
}
