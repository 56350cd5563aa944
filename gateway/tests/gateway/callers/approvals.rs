//! Calls that wait for approval: who may decide over HTTP, and from which gateway.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use thermae_gateway::Options;
use thermae_schemas::{Scope, Scopes};

use super::site::{Site, caller};
use crate::contract::sdk::{Sdk, WIDE};
use crate::door::connect_as;
use crate::serving::Serving;

/// A job that makes two calls, which need approval.
fn job(id: &str) -> Value {
    let code = "
for amount in [900, 7]:
    try:
        print(await transfer(amount=amount))
    except ToolError as error:
        print(error)
";
    let capabilities = json!([{ "pattern": "transfer", "approval": { "next": 3 } }]);
    let tools = json!([{ "name": "transfer" }]);
    json!({ "id": id, "code": code, "tools": tools, "capabilities": capabilities })
}

/// The path of a decision about the first call that waits for approval.
fn decision(run: &Value) -> Result<String> {
    let call = run["approvals"][0]["call"].as_str().with_context(|| format!("nothing waits: {run}"))?;
    Ok(format!("/v1/runs/r/calls/{call}/decision"))
}

pub(super) async fn who_submits_can_t_approve() -> Result<()> {
    let site = Site::new(Options::default()).await?;
    let agent = [Scope::Run, Scope::Read, Scope::Answer, Scope::Sessions, Scope::Artifacts];
    site.known.set("agent", Ok(caller("acme", "agent", agent)?));
    site.known.set("person", Ok(caller("acme", "person", [Scope::Approve])?));
    let run = site.ask("agent", "POST /v1/runs?wait=60s&until=call", &job("r")).await?;
    ensure!(run.status == 202, "{run:?}");
    let run = run.json()?;
    let asked = &run["approvals"][0];
    ensure!(run["calls"] == json!([]) && asked["arguments"] == json!({ "amount": 900 }), "{run}");
    ensure!(asked["pattern"] == "transfer" && asked["next"] == 3, "{run}");
    let (path, yes) = (decision(&run)?, json!({ "decision": "approve" }));
    let what = format!("POST {path}");
    let refused = site.ask("agent", &what, &yes).await?.problem(403, "missing_scope")?;
    ensure!(refused["scope"] == "approve", "{refused}");
    // An answer is no decision, and others see nothing of the run.
    let call = asked["call"].as_str().context("no id")?;
    let answer = format!("POST /v1/runs/r/calls/{call}");
    site.ask("agent", &answer, &json!({ "ok": 1 })).await?.problem(404, "unknown_call")?;
    site.ask("globex", &what, &yes).await?.problem(404, "unknown_run")?;
    for bad in [json!(null), json!({}), json!({ "decision": "yes" }), json!({ "decision": "deny", "calls": 2 })] {
        site.ask("person", &what, &bad).await?.problem(400, "bad_body")?;
    }
    site.ask("person", &what, &json!({ "decision": "approve", "calls": 4 })).await?.problem(422, "schema_violation")?;

    // Neither does an SDK decide with such a key.
    let mut sdk = Sdk::opened(connect_as(site.addr, "agent").await?).await?;
    sdk.send(json!({ "type": "decide", "id": 1, "job": "r", "call": call }), yes.to_string()).await?;
    let told = sdk.all_of(1).await?;
    ensure!(told[0].is("error") && told[0].code() == "missing_scope", "{told:?}");
    sdk.vanish().await?;
    site.known.set("agent and person", Ok(caller("acme", "both", Scopes::all().iter())?));
    let mut sdk = Sdk::opened(connect_as(site.addr, "agent and person").await?).await?;
    sdk.send(json!({ "type": "decide", "id": 1, "job": "r", "call": call }), yes.to_string()).await?;
    let told = sdk.all_of(1).await?;
    ensure!(told[0].is("done"), "{told:?}");
    sdk.vanish().await?;

    for _ in 0..2 {
        let told = site.ask("person", &what, &yes).await?;
        ensure!(told.status == 200 && told.json()?["verdict"]["decision"] == "approve", "{told:?}");
    }
    site.ask("person", &what, &json!({ "decision": "deny" })).await?.problem(409, "approval_decided")?;
    let waiting = site.get("agent", "/v1/runs/r?wait=60s&until=call").await?.json()?;
    let tool_call = waiting["calls"][0]["call"].as_str().with_context(|| format!("no call: {waiting}"))?;
    site.ask("agent", &format!("POST /v1/runs/r/calls/{tool_call}"), &json!({ "ok": "sent" })).await?;
    let waiting = loop {
        // The call that was answered goes before the one that waits for approval comes.
        let run = site.get("agent", "/v1/runs/r?wait=60s&until=call").await?.json()?;
        if decision(&run).is_ok() {
            break run;
        }
    };
    let no = json!({ "decision": "deny", "reason": "too small" });
    ensure!(site.ask("person", &format!("POST {}", decision(&waiting)?), &no).await?.status == 200);
    let run = site.get("agent", "/v1/runs/r?wait=60s").await?.json()?;
    let denied = "approval_denied: the call of \"transfer\" was denied: too small\n";
    ensure!(run["outcome"]["stdout"] == format!("sent\n{denied}") && run.get("approvals").is_none(), "{run}");
    site.end().await
}

pub(super) async fn any_gateway_decides() -> Result<()> {
    let first = Serving::new().await?;
    let second = first.another().await?;
    let run = first.post("/v1/runs?wait=60s&until=call", &job("r")).await?.json()?;
    let path = decision(&run)?;
    let info = second.get("/v1/runs/r/info").await?.json()?;
    ensure!(info.get("calls").is_none() && info["approvals"][0]["call"] == run["approvals"][0]["call"], "{info}");
    let yes = json!({ "decision": "approve", "calls": 2 });
    ensure!(second.post(&path, &yes).await?.status == 200, "{path}");
    // Whoever follows the run is told that the call does not wait any more.
    let mut events = first.follow("GET", "/v1/runs/r/events", "", b"").await?;
    let mut kinds = Vec::new();
    while kinds.last().is_none_or(|kind| kind != "tool_call") {
        kinds.push(events.next().await?.context("no event")?.event);
    }
    kinds.sort();
    ensure!(kinds.contains(&"approval".to_owned()), "{kinds:?}");
    let missing = "/v1/runs/r/calls/none/decision";
    second.post(missing, &yes).await?.problem(410, "approval_over")?;
    second.post("/v1/runs/nobody/calls/none/decision", &yes).await?.problem(404, "unknown_run")?;
    // The yes counts for the next call, too, which another gateway that takes the run over answers.
    let taken = second.ask("POST", "/v1/runs/r/take-over", "", b"").await?.json()?;
    for answer in ["one", "two"] {
        let run = second.get("/v1/runs/r?wait=60s&until=call").await?.json()?;
        let call = run["calls"][0]["call"].as_str().with_context(|| format!("no call: {taken} {run}"))?;
        ensure!(second.post(&format!("/v1/runs/r/calls/{call}"), &json!({ "ok": answer })).await?.status == 204);
    }
    let run = second.get("/v1/runs/r?wait=60s").await?.json()?;
    ensure!(run["outcome"]["stdout"] == "one\ntwo\n", "{run}");
    second.post(&path, &yes).await?.problem(404, "unknown_call")?;
    second.leave().await?;
    first.end().await
}

/// A run that waits for approval is taken over: its question comes along, and an SDK without the scope can look.
pub(super) async fn a_run_that_waits_is_taken_over_with_its_question() -> Result<()> {
    let first = Serving::new().await?;
    let second = first.another().await?;
    let run = first.post("/v1/runs?wait=60s&until=call", &job("r")).await?.json()?;
    let taken = second.ask("POST", "/v1/runs/r/take-over", "", b"").await?.json()?;
    ensure!(taken["approvals"][0]["call"] == run["approvals"][0]["call"], "{taken}");
    let mut sdk = Sdk::opened(connect_as(second.addr, crate::serving::TOKEN).await?).await?;
    sdk.send(json!({ "type": "attach", "id": 1, "window": WIDE, "job": "r" }), "").await?;
    let told = sdk.next().await?;
    let event: Value = serde_json::from_slice(&told.payload)?;
    ensure!(event["event"] == "run" && event["approvals"][0]["pattern"] == "transfer", "{event}");
    let mut denied = Vec::new();
    while denied.len() < 2 {
        let info = second.get("/v1/runs/r/info").await?.json()?;
        if let Ok(path) = decision(&info)
            && !denied.contains(&path)
        {
            ensure!(first.post(&path, &json!({ "decision": "deny" })).await?.status == 200, "{info}");
            denied.push(path);
        }
    }
    let outcome = sdk.outcome(1).await?;
    ensure!(outcome.stdout.matches("approval_denied").count() == 2, "{outcome:?}");
    sdk.vanish().await?;
    second.leave().await?;
    first.end().await
}
