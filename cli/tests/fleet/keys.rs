//! `thermae-gateway` in front of the real fleet, for two tenants with keys and RabbitMQ users of their own.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use thermae_testkit::address;

use crate::Test;
use crate::fleet::{Fleet, Process, ask};
use crate::servers::{Servers, binary};

pub(crate) const TESTS: &[(&str, Test)] = &[("keys::two_tenants_share_a_gateway_and_nothing_else", two_tenants)];

/// Longer than any answer takes.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(90);

/// A process of `thermae-gateway`, with its store of keys and the credentials of tenants.
pub(crate) struct Gateway {
    process: Process,
    address: String,
    dir: TempDir,
}

impl Gateway {
    /// Starts a gateway that acts for the tenant `acme` with this URL. The tenant `initech` has credentials that
    /// RabbitMQ refuses.
    pub(crate) fn start(servers: &Servers, acme: &str) -> Result<Self> {
        let free = || anyhow::Ok(address::free()?.to_string());
        let (dir, address, health) = (tempfile::tempdir()?, free()?, free()?);
        let tenants = dir.path().join("tenants");
        std::fs::create_dir(&tenants)?;
        let wrong = servers.as_user("initech", "wrong")?;
        for (name, url) in [("acme", acme), ("globex", &servers.globex), ("initech", &wrong)] {
            std::fs::write(tenants.join(name), url)?;
        }
        let file = dir.path().join("gateway.toml");
        let (listen, keys) = (format!("listen = {health:?}"), dir.path().join("keys.db"));
        let own = format!("listen = {address:?}\nkeys = \"sqlite:{}\"\ntenants_folder = {tenants:?}", keys.display());
        std::fs::write(&file, format!("{listen}\n[gateway]\n{own}\n"))?;
        let mut command = Command::new(binary("thermae-gateway")?);
        command.arg("--config").arg(&file);
        let mut process = Process::of(command, "gateway".to_owned(), health, dir.path())?;
        process.await_ready()?;
        Ok(Self { process, address, dir })
    }

    /// Runs `thermae key` on the gateway's store, and gives what it prints.
    pub(crate) fn key(&self, args: &[&str]) -> Result<String> {
        let mut command = Command::new(binary("thermae")?);
        command.arg("key").args(args).env("THERMAE_CONFIG", self.dir.path().join("gateway.toml"));
        let output = command.output()?;
        ensure!(output.status.success(), "{args:?}: {output:?}");
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }

    /// Sends a request that shows this key, and gives the JSON of its answer.
    pub(crate) fn ask(&self, key: &str, what: &str, body: &Value) -> Result<(u16, Value)> {
        let headers = format!("Authorization: Bearer {key}\r\nContent-Type: application/json\r\n");
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (status, told) = ask(&self.address, what, &headers, &body, ANSWER_TIMEOUT)?;
        Ok((status, if told.is_empty() { Value::Null } else { serde_json::from_str(&told)? }))
    }

    pub(crate) fn get(&self, key: &str, path: &str) -> Result<(u16, Value)> {
        self.ask(key, &format!("GET {path}"), &Value::Null)
    }

    /// Checks that a request with this key is refused so.
    pub(crate) fn refuses(&self, key: &str, what: &str, status: u16, code: &str) -> Result<()> {
        let (found, told) = self.ask(key, what, &Value::Null)?;
        ensure!((found, &told["code"]) == (status, &json!(code)), "{what}: not {status} {code}: {found} {told}");
        Ok(())
    }

    /// Waits until a request with this key is refused so.
    fn await_refusal(&self, key: &str, code: &str) -> Result<()> {
        let begun = Instant::now();
        loop {
            let (_, told) = self.get(key, "/v1/runs")?;
            if told["code"] == code {
                return Ok(());
            }
            ensure!(begun.elapsed() < ANSWER_TIMEOUT, "not refused ({code}): {told}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

fn two_tenants(fleet: &Fleet) -> Result<()> {
    let gateway = Gateway::start(&fleet.servers, &fleet.servers.acme)?;
    let all = "run,read,answer,sessions,artifacts";
    let key = |tenant: &str, scopes: &str| gateway.key(&["create", "--tenant", tenant, "--scope", scopes]);
    let (acme, globex, initech) = (key("acme", all)?, key("globex", all)?, key("initech", all)?);
    let id = format!("k-{}", uuid::Uuid::new_v4());
    let job = |whose: &str| {
        let code = format!("print('{whose}', await hold())");
        json!({ "id": id, "code": code, "tools": [{ "name": "hold" }], "idempotency_key": id })
    };

    // A run of acme waits for its tool. Whoever else knows its id and its call gets nowhere.
    let (status, run) = gateway.ask(&acme, "POST /v1/runs?wait=60s&until=call", &job("acme"))?;
    let call = run["calls"][0]["call"].as_str().with_context(|| format!("{status} {run}"))?;
    for what in ["GET /v1/runs/ID", "GET /v1/runs/ID/info", "POST /v1/runs/ID/take-over", "DELETE /v1/runs/ID"] {
        gateway.refuses(&globex, &what.replace("ID", &id), 404, "unknown_run")?;
    }
    let answer = format!("POST /v1/runs/{id}/calls/{call}");
    let (status, told) = gateway.ask(&globex, &answer, &json!({ "ok": "stolen" }))?;
    ensure!((status, &told["code"]) == (404, &json!("unknown_run")), "{told}");
    ensure!(gateway.get(&globex, "/v1/runs")?.1["runs"] == json!([]), "globex has no runs");

    // A tenant whose credentials don't work is told so, and nobody else notices.
    for _ in 0..3 {
        gateway.refuses(&initech, "GET /v1/runs", 502, "broker_denied")?;
    }
    ensure!(!gateway.process.logged().contains("initech:wrong"), "the log has a password");

    // The same id and idempotency key name another run of globex.
    let (_, theirs) = gateway.ask(&globex, "POST /v1/runs?wait=60s&until=call", &job("globex"))?;
    let other = theirs["calls"][0]["call"].as_str().with_context(|| theirs.to_string())?;
    for (whose, key, call) in [("globex", &globex, other), ("acme", &acme, call)] {
        let (status, told) = gateway.ask(key, &format!("POST /v1/runs/{id}/calls/{call}"), &json!({ "ok": whose }))?;
        ensure!(status == 204, "{whose}: {told}");
        let (_, run) = gateway.get(key, &format!("/v1/runs/{id}?wait=60s"))?;
        ensure!(run["outcome"]["stdout"] == format!("{whose} {whose}\n"), "{run}");
    }

    // Sessions of one tenant are not there for the other.
    let session = json!({ "code": "n = 41", "session": { "id": id } });
    let (status, told) = gateway.ask(&acme, "POST /v1/runs?wait=60s", &session)?;
    ensure!(status == 200 && told["outcome"]["status"] == "succeeded", "{told}");
    let (status, told) = gateway.ask(&globex, &format!("POST /v1/sessions/{id}/exec"), &json!({ "shell": "ls" }))?;
    ensure!((status, &told["code"]) == (404, &json!("session_lost")), "{told}");
    let (_, told) = gateway.ask(&acme, &format!("POST /v1/sessions/{id}/exec"), &json!({ "shell": "echo mine" }))?;
    ensure!(told["stdout"] == "mine\n", "{told}");
    ensure!(gateway.ask(&acme, &format!("DELETE /v1/sessions/{id}"), &Value::Null)?.0 == 204);

    // Keys that are unknown, lack a scope, have expired or are revoked.
    let narrow = key("acme", "read")?;
    gateway.refuses(&narrow, "POST /v1/runs", 403, "missing_scope")?;
    gateway.refuses(&narrow, "GET /v1/sessions", 403, "missing_scope")?;
    gateway.refuses(&format!("thm_{}_{}", "0".repeat(16), "0".repeat(64)), "GET /v1/runs", 401, "key_unknown")?;
    gateway.refuses("no key", "GET /v1/runs", 401, "key_malformed")?;
    let short = gateway.key(&["create", "--tenant", "acme", "--scope", "read", "--expires", "1s"])?;
    gateway.await_refusal(&short, "key_expired")?;
    gateway.key(&["revoke", &acme[4..20]])?;
    gateway.await_refusal(&acme, "key_revoked")?;
    ensure!(gateway.get(&globex, "/v1/runs")?.0 == 200, "globex goes on");
    Ok(())
}
