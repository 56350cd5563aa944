//! The gateway of `compose.yaml`, and its API keys.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::Fleet;
use crate::{http, services, supervise};

/// What the connection of an SDK needs.
const SDK: &str = "run,read,answer,sessions,artifacts";

/// An API key.
struct Key {
    id: String,
    text: String,
}

impl Fleet {
    /// Makes keys, runs a job with one, and makes the gateway's container anew. Then the keys must be what they were:
    /// one opens the gateway, and the other one is revoked.
    pub(crate) fn gateway(&self, log: &Path) -> Result<()> {
        let (kept, revoked) = (self.create_key("run,read")?, self.create_key("run,read")?);
        self.runs_with(&kept.text)?;
        self.refuses("", "unauthorized")?;
        self.refuses("thm_no-key", "key_malformed")?;
        self.refuses(&format!("thm_{}_{}", kept.id, "0".repeat(64)), "key_unknown")?;
        self.key(&["revoke", &revoked.id])?;
        self.make_gateway_anew(log)?;
        self.runs_with(&kept.text)?;
        self.refuses(&revoked.text, "key_revoked")
    }

    /// The variables that name the gateway and a key to the tests of the Python package.
    pub(crate) fn over_http(&self) -> Result<[(&'static str, String); 2]> {
        let url = format!("http://127.0.0.1:{}", self.gateway_port);
        Ok([("THERMAE_TEST_GATEWAY", url), ("THERMAE_TEST_API_KEY", self.create_key(SDK)?.text)])
    }

    /// Makes a key of the tenant `acme`.
    fn create_key(&self, scopes: &str) -> Result<Key> {
        let made = self.key(&["create", "--tenant", "acme", "--scope", scopes])?;
        let part = |name: &str| made[name].as_str().map(str::to_owned).with_context(|| format!("no {name}"));
        Ok(Key { id: part("id")?, text: part("key")? })
    }

    /// Runs `thermae-gateway key` in the gateway's container, as the README says. Gives what it told.
    fn key(&self, args: &[&str]) -> Result<Value> {
        let command = ["exec", "-T", "gateway", "thermae-gateway", "key"];
        let output = self.compose.run(&[&command[..], args, &["--json"]].concat())?;
        let (said, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), "{said}{error}");
        serde_json::from_str(&said).with_context(|| format!("{said}{error}"))
    }

    fn make_gateway_anew(&self, log: &Path) -> Result<()> {
        let args = ["up", "--detach", "--wait", "--no-build", "--no-deps", "--force-recreate", "gateway"];
        let up = supervise::run(self.compose.command(&args), log, Duration::from_secs(120), |_| {})?;
        match up.failure {
            Some(why) => bail!("{why}\n{}", services::tail(log, 20)),
            None => Ok(()),
        }
    }

    fn runs_with(&self, key: &str) -> Result<()> {
        let (status, body) = self.submit(key)?;
        let run: Value = serde_json::from_str(&body).with_context(|| format!("{status}: {body}"))?;
        ensure!(status == 200 && run["outcome"]["stdout"] == "42\n", "a wrong answer: {status}: {body}");
        Ok(())
    }

    fn refuses(&self, key: &str, code: &str) -> Result<()> {
        let (status, body) = self.submit(key)?;
        let problem: Value = serde_json::from_str(&body).with_context(|| format!("{status}: {body}"))?;
        ensure!(status == 401 && problem["code"] == code, "not {code}: {status}: {body}");
        Ok(())
    }

    fn submit(&self, key: &str) -> Result<(u16, String)> {
        let job = json!({ "code": "print(6 * 7)" }).to_string();
        http::post(&format!("127.0.0.1:{}", self.gateway_port), "/v1/runs?wait=30s", key, &job)
    }
}
