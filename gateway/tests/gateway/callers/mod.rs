//! Callers with keys: what each may do, and that no tenant sees anything of another.

mod approvals;
mod site;
mod tokens;

use std::num::NonZeroU32;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use serde_json::{Value, json};
use thermae_gateway::{Caller, Denied, Options};
use thermae_schemas::{Scope, Scopes};

use self::site::{Site, caller};
use crate::contract::sdk::{Sdk, WIDE};
use crate::door::connect_as;
use crate::http::{Connection, Events};
use crate::serving::head;
use crate::test;
use crate::uploads::TUS;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        test("each_operation_needs_its_scope", each_operation_needs_its_scope),
        test("who_may_not_read_learns_nothing_of_runs", who_may_not_read_learns_nothing_of_runs),
        test("every_refusal_has_its_code", every_refusal_has_its_code),
        test("tenants_see_nothing_of_each_other", tenants_see_nothing_of_each_other),
        test("a_tenant_without_a_fleet_disturbs_nobody", a_tenant_without_a_fleet_disturbs_nobody),
        test("idle_tenants_make_room", idle_tenants_make_room),
        test("a_key_and_a_tenant_have_bounds", a_key_and_a_tenant_have_bounds),
        test("a_revoked_key_loses_its_streams_and_waits", a_revoked_key_loses_its_streams_and_waits),
        test("an_sdk_is_bound_by_its_key", an_sdk_is_bound_by_its_key),
        test("tokens_are_minted_narrowed_and_shown", tokens::tokens_are_minted_narrowed_and_shown),
        test("what_would_be_no_token_is_refused", tokens::what_would_be_no_token_is_refused),
        test("a_gateway_without_keys_only_narrows", tokens::a_gateway_without_keys_only_narrows),
        test("batches_are_bound_by_their_key", batches_are_bound_by_their_key),
        test("who_submits_can_t_approve", approvals::who_submits_can_t_approve),
        test("any_gateway_decides", approvals::any_gateway_decides),
        test(
            "a_run_that_waits_is_taken_over_with_its_question",
            approvals::a_run_that_waits_is_taken_over_with_its_question,
        ),
    ]
}

/// A job that waits for a tool.
fn waits(id: &str) -> Value {
    json!({ "id": id, "code": "await hold()", "tools": [{ "name": "hold" }] })
}

async fn each_operation_needs_its_scope() -> Result<()> {
    let site = Site::new(Options::default()).await?;
    let document = site.get("", "/v1/openapi.json").await?.json()?;
    let (mut scoped, mut of_operators) = (0, 0);
    for (path, methods) in document["paths"].as_object().context("no paths")? {
        for (method, operation) in methods.as_object().context("no methods")? {
            let what = format!("{} {}", method.to_uppercase(), path.replace(['{', '}'], ""));
            let scopes = match &operation["security"] {
                Value::Array(none) if none.is_empty() => continue,
                Value::Null => {
                    of_operators += 1;
                    site.ask("acme", &what, &Value::Null).await?.problem(403, "missing_scope")?;
                    continue;
                }
                security => {
                    let named = security[0]["token"].as_array().into_iter().flatten();
                    named.map(|name| Ok(name.as_str().context("no scope")?.parse()?)).collect::<Result<Vec<Scope>>>()?
                }
            };
            ensure!(!scopes.is_empty(), "{what} needs no scope");
            for scope in &scopes {
                scoped += 1;
                let others = Scope::ALL.into_iter().filter(|other| other != scope);
                site.known.set("others", Ok(caller("acme", "others", others)?));
                let refused = site.ask("others", &what, &Value::Null).await?.problem(403, "missing_scope")?;
                ensure!(refused["scope"] == scope.as_str(), "{what}: {refused}");
            }
            site.known.set("it", Ok(caller("acme", "it", scopes)?));
            let answer = site.ask("it", &what, &Value::Null).await?;
            ensure!(!matches!(answer.status, 401 | 403 | 405), "{what}: {answer:?}");
        }
    }
    ensure!(scoped >= 16 && of_operators == 1, "{scoped} {of_operators}");
    ensure!(site.metric("thermae_gateway_refused_total", "scope") == f64::from(scoped + of_operators));
    site.end().await
}

async fn who_may_not_read_learns_nothing_of_runs() -> Result<()> {
    let site = Site::new(Options::default()).await?;
    site.known.set("runs", Ok(caller("acme", "runs", [Scope::Run])?));
    let job = json!({ "id": "r", "code": "print('secret')", "idempotency_key": "k" });
    let run = site.ask("acme", "POST /v1/runs?wait=60s", &job).await?.json()?;
    ensure!(run["outcome"]["stdout"] == "secret\n", "{run}");
    for what in ["POST /v1/runs?wait=60s", "POST /v1/runs/r/take-over", "DELETE /v1/runs/r"] {
        let told = site.ask("runs", what, &job).await?;
        ensure!(told.status == 200, "{what}: {told:?}");
        ensure!(
            told.json()? == json!({ "id": "r", "state": "ended", "calls": [], "last_event": 0 }),
            "{what}: {told:?}"
        );
    }
    // A job with a session is also a use of the session.
    let session = json!({ "code": "1", "session": { "id": "s" } });
    let refused = site.ask("runs", "POST /v1/runs", &session).await?.problem(403, "missing_scope")?;
    ensure!(refused["scope"] == "sessions", "{refused}");
    ensure!(site.ask("acme", "POST /v1/runs?wait=60s", &session).await?.status == 200);
    site.end().await
}

async fn every_refusal_has_its_code() -> Result<()> {
    let site = Site::new(Options::default()).await?;
    let rate = Duration::from_millis(61_001);
    for (denied, status, code, after) in [
        (Denied::Token, 401, "bad_token", None),
        (Denied::Malformed, 401, "key_malformed", None),
        (Denied::Unknown, 401, "key_unknown", None),
        (Denied::Revoked, 401, "key_revoked", None),
        (Denied::Expired, 401, "key_expired", None),
        (Denied::Rate(rate), 429, "rate_limited", Some("62")),
        (Denied::Unavailable, 503, "keys_unavailable", Some("1")),
    ] {
        site.known.set("no", Err(denied));
        for path in ["/v1/runs", "/v1/sessions/s/files/x", "/metrics"] {
            let answer = site.get("no", path).await?;
            answer.problem(status, code)?;
            ensure!(answer.header("retry-after") == after, "{answer:?}");
            ensure!((answer.header("www-authenticate") == Some("Bearer")) == (status == 401), "{answer:?}");
        }
    }
    ensure!(site.fleets.opened.load(Ordering::Relaxed) == 0, "nothing is opened for those who are refused");
    for (reason, count) in [("token", 3.0), ("key", 12.0), ("rate", 3.0), ("store", 3.0)] {
        ensure!(site.metric("thermae_gateway_refused_total", reason) == count, "{reason}");
    }
    // What is for everybody, and what isn't there, needs no key.
    for (path, status) in [("/healthz", 200), ("/v1/openapi.json", 200), ("/v1/nothing", 404)] {
        ensure!(site.get("no", path).await?.status == status, "{path}");
    }
    site.end().await
}

async fn tenants_see_nothing_of_each_other() -> Result<()> {
    let site = Site::new(Options::default()).await?;
    let job = |text: &str| {
        let code = format!("print('{text}', await hold())");
        json!({ "id": "r", "code": code, "tools": [{ "name": "hold" }], "idempotency_key": "k" })
    };
    let acme = site.ask("acme", "POST /v1/runs?wait=60s&until=call", &job("of acme")).await?.json()?;
    let call = acme["calls"][0]["call"].as_str().context("no call")?;
    for what in ["GET /v1/runs/r", "GET /v1/runs/r/info", "GET /v1/runs/r/events", "DELETE /v1/runs/r"] {
        site.ask("globex", what, &Value::Null).await?.problem(404, "unknown_run")?;
    }
    site.ask("globex", "POST /v1/runs/r/take-over", &Value::Null).await?.problem(404, "unknown_run")?;
    site.ask("globex", "GET /v1/runs/r/artifacts/x", &Value::Null).await?.problem(404, "unknown_run")?;
    let answer = format!("POST /v1/runs/r/calls/{call}");
    site.ask("globex", &answer, &json!({ "ok": "stolen" })).await?.problem(404, "unknown_run")?;
    ensure!(site.get("globex", "/v1/runs").await?.json()?["runs"] == json!([]));
    // The same id and the same idempotency key name a run of its own.
    let globex = site.ask("globex", "POST /v1/runs?wait=60s&until=call", &job("of globex")).await?.json()?;
    let theirs = globex["calls"][0]["call"].as_str().context("no call")?;
    for (who, call) in [("globex", theirs), ("acme", call)] {
        let answered = site.ask(who, &format!("POST /v1/runs/r/calls/{call}"), &json!({ "ok": who })).await?;
        ensure!(answered.status == 204, "{answered:?}");
        let run = site.get(who, "/v1/runs/r?wait=60s").await?.json()?;
        ensure!(run["outcome"]["stdout"] == format!("of {who} {who}\n"), "{run}");
    }
    for who in ["acme", "globex"] {
        let used = site.get(who, "/v1/usage").await?.json()?;
        ensure!(used["total"]["runs"] == json!({ "succeeded": 1 }) && used["total"]["tool_calls"] == 1, "{used}");
    }
    ensure!(site.metric("thermae_gateway_tenants", "") == 2.0);
    // Runs of all tenants are counted together.
    while site.metric("thermae_gateway_runs", "ended") != 2.0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Sessions, too.
    let session = json!({ "code": "x = 1", "session": { "id": "s" } });
    ensure!(site.ask("acme", "POST /v1/runs?wait=60s", &session).await?.status == 200);
    ensure!(site.get("globex", "/v1/sessions").await?.json()?["sessions"] == json!([]));
    let shell = json!({ "shell": "ls" });
    site.ask("globex", "POST /v1/sessions/s/exec", &shell).await?.problem(404, "session_lost")?;
    let headers = format!("{TUS}Upload-Length: 3\r\n");
    let upload = site.ask_with("acme", "POST /v1/sessions/s/uploads/f", &headers, &Value::Null).await?;
    let at = upload.header("location").context("no upload")?;
    site.get("globex", at).await?.problem(404, "unknown_upload")?;
    site.ask_with("globex", &format!("DELETE {at}"), TUS, &Value::Null).await?.problem(404, "unknown_upload")?;
    ensure!(site.get("acme", at).await?.status == 200);
    site.end().await
}

async fn a_tenant_without_a_fleet_disturbs_nobody() -> Result<()> {
    let site = Site::new(Options::default()).await?;
    let asked = (0..8).map(|_| site.get("initech", "/v1/runs"));
    for answer in futures::future::join_all(asked).await {
        answer?.problem(503, "tenant_unavailable")?;
    }
    ensure!(site.fleets.opened.load(Ordering::Relaxed) == 1, "requests share one try");
    ensure!(site.get("acme", "/v1/runs").await?.status == 200);
    // After a while, it is tried again.
    while site.fleets.opened.load(Ordering::Relaxed) < 3 {
        site.get("initech", "/v1/runs").await?.problem(503, "tenant_unavailable")?;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    site.end().await
}

async fn idle_tenants_make_room() -> Result<()> {
    let keep = Duration::from_millis(100);
    let site = Site::new(Options { tenants: 1, keep, ..Options::default() }).await?;
    ensure!(site.get("acme", "/v1/runs").await?.status == 200);
    ensure!(site.ask("globex", "POST /v1/runs", &waits("r")).await?.status == 202, "acme makes room");
    let refused = site.get("acme", "/v1/runs").await?;
    refused.problem(503, "too_many_tenants")?;
    ensure!(refused.header("retry-after") == Some("1"), "{refused:?}");
    ensure!(site.metric("thermae_gateway_refused_total", "tenants") == 1.0);
    ensure!(site.ask("globex", "DELETE /v1/runs/r?wait=60s", &Value::Null).await?.status == 200);
    // Once the run is forgotten, its tenant makes room.
    while site.get("acme", "/v1/runs").await?.status != 200 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    ensure!(site.metric("thermae_gateway_tenants", "") == 1.0);
    site.end().await?;
    // One that is idle for long is closed although nobody needs its place.
    let site = Site::new(Options { tenant_idle: keep, keep, ..Options::default() }).await?;
    ensure!(site.get("acme", "/v1/runs").await?.status == 200);
    while site.metric("thermae_gateway_tenants", "") > 0.0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    ensure!(site.get("acme", "/v1/runs").await?.status == 200);
    ensure!(site.fleets.opened.load(Ordering::Relaxed) == 2);
    site.end().await
}

async fn a_key_and_a_tenant_have_bounds() -> Result<()> {
    let bounds = Options { runs: 4, requests: 4, tenant_share: 50, ..Options::default() };
    let site = Site::new(bounds).await?;
    let mut one = caller("acme", "one", Scopes::all().iter())?;
    one.runs_at_once = NonZeroU32::new(1);
    site.known.set("one", Ok(one));
    ensure!(site.ask("one", "POST /v1/runs", &waits("r")).await?.status == 202);
    let refused = site.ask("one", "POST /v1/runs", &waits("s")).await?.problem(429, "too_many_runs")?;
    ensure!(refused["detail"].as_str().is_some_and(|text| text.contains("API key")), "{refused}");
    ensure!(site.ask("acme", "POST /v1/runs", &waits("s")).await?.status == 202);
    let refused = site.ask("acme", "POST /v1/runs", &waits("t")).await?.problem(429, "too_many_runs")?;
    ensure!(refused["detail"].as_str().is_some_and(|text| text.contains("tenant")), "{refused}");
    ensure!(site.ask("globex", "POST /v1/runs", &waits("r")).await?.status == 202, "others have their part");
    // Two requests of a tenant, and no third one.
    let mut streams = Vec::new();
    for _ in 0..2 {
        streams.push(follow(&site, "acme", "s").await?);
    }
    site.get("acme", "/v1/runs").await?.problem(429, "too_many_requests")?;
    ensure!(site.get("globex", "/v1/runs").await?.status == 200);
    drop(streams);
    while site.get("acme", "/v1/runs").await?.status != 200 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // A run that has ended takes no place.
    ensure!(site.ask("one", "DELETE /v1/runs/r?wait=60s", &Value::Null).await?.status == 200);
    ensure!(site.ask("one", "POST /v1/runs", &waits("u")).await?.status == 202);
    site.end().await
}

/// Follows the events of a run up to its first one.
async fn follow(site: &Site, secret: &str, run: &str) -> Result<Events> {
    let mut connection = Connection::open(site.addr).await?;
    let headers = format!("Authorization: Bearer {secret}\r\n");
    connection.send(head("GET", &format!("/v1/runs/{run}/events"), &headers, 0)).await?;
    let answer = connection.head().await?;
    ensure!(answer.status == 200, "{answer:?}");
    let mut events = Events::new(connection);
    events.next().await?.context("no event")?;
    Ok(events)
}

async fn a_revoked_key_loses_its_streams_and_waits() -> Result<()> {
    let site = Site::new(Options { recheck: Duration::from_millis(50), ..Options::default() }).await?;
    ensure!(site.ask("acme", "POST /v1/runs?wait=60s&until=call", &waits("r")).await?.status == 202);
    site.known.set("guest", Ok(caller("acme", "guest", [Scope::Read])?));
    let (mut lost, mut kept) = (follow(&site, "guest", "r").await?, follow(&site, "acme", "r").await?);
    let wait = site.get("guest", "/v1/runs/r?wait=60s");
    let revoke = async {
        while site.known.shown("guest") < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        site.known.set("guest", Err(Denied::Revoked));
        lost.next().await
    };
    let (waited, ended) = tokio::join!(wait, revoke);
    waited?.problem(401, "key_revoked")?;
    ensure!(ended.is_err(), "the stream is cut off: {ended:?}");
    ensure!(site.ask("acme", "DELETE /v1/runs/r?wait=60s", &Value::Null).await?.status == 200);
    let rest = kept.rest().await?;
    ensure!(rest.last().is_some_and(|told| told.event == "result"), "{rest:?}");
    site.end().await
}

async fn an_sdk_is_bound_by_its_key() -> Result<()> {
    let site = Site::new(Options { recheck: Duration::from_millis(50), ..Options::default() }).await?;
    let guest = caller("globex", "guest", Scopes::all().iter())?;
    site.known.set("guest", Ok(Caller { runs_at_once: NonZeroU32::new(2), ..guest }));
    let mut sdk = Sdk::opened(connect_as(site.addr, "guest").await?).await?;
    sdk.run(1, WIDE, json!({ "id": "s", "code": "print('of the SDK')" })).await?;
    ensure!(sdk.outcome(1).await?.stdout == "of the SDK\n");
    // It is a run of the key's tenant.
    ensure!(site.get("globex", "/v1/runs/s/info").await?.json()?["state"] == "ended");
    site.get("acme", "/v1/runs/s/info").await?.problem(404, "unknown_run")?;
    // The connection has all the runs that the key may have.
    site.ask("guest", "POST /v1/runs", &json!({ "code": "" })).await?.problem(429, "too_many_runs")?;
    let second = connect_as(site.addr, "guest").await.err().context("a second connection")?;
    ensure!(second.to_string().contains("429"), "{second}");
    site.known.set("guest", Err(Denied::Revoked));
    while sdk.next_or_end().await?.is_some() {}
    site.known.set("guest", Ok(caller("globex", "guest", Scopes::all().iter())?));
    while site.metric("thermae_gateway_sdks", "") > 0.0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    ensure!(site.ask("guest", "POST /v1/runs?wait=60s", &json!({ "code": "" })).await?.status == 200);
    drop(sdk);
    site.end().await
}

async fn batches_are_bound_by_their_key() -> Result<()> {
    let site = Site::new(Options::default()).await?;
    let guest = caller("acme", "guest", [Scope::Run])?;
    site.known.set("guest", Ok(Caller { runs_at_once: NonZeroU32::new(2), ..guest }));
    let batch = |jobs: usize| json!({ "id": format!("b{jobs}"), "jobs": vec![json!({ "code": "" }); jobs] });
    site.ask("guest", "POST /v1/batches", &batch(3)).await?.problem(429, "too_many_runs")?;
    let told = site.ask("guest", "POST /v1/batches?wait=60s", &batch(2)).await?;
    ensure!(told.status == 200 && told.json()?["ended"] == json!({}), "who may not read: {told:?}");
    let whole = site.get("acme", "/v1/batches/b2").await?.json()?;
    ensure!(whole["ended"] == json!({ "succeeded": 2 }), "{whole}");
    for path in ["/v1/batches/b2", "/v1/batches/b2/results"] {
        site.get("globex", path).await?.problem(404, "unknown_batch")?;
    }
    let sessions = json!({ "jobs": [{ "code": "", "session": { "id": "s" } }] });
    site.ask("guest", "POST /v1/batches", &sessions).await?.problem(403, "missing_scope")?;
    site.end().await
}
