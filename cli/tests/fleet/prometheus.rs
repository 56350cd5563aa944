//! A real Prometheus that scrapes the processes of a fleet every second.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use thermae_testkit::address;

use crate::fleet::get;

/// A running Prometheus. It is killed on drop.
pub(crate) struct Prometheus {
    child: Child,
    http: String,
    dir: TempDir,
}

impl Prometheus {
    /// Starts a Prometheus with these rules, and waits until it answers. Each target is a job's name and an address.
    pub(crate) fn start(rules: &Path, targets: &[(String, String)]) -> Result<Self> {
        let program = std::env::var("THERMAE_TEST_PROMETHEUS")
            .context("THERMAE_TEST_PROMETHEUS is not set: run these tests with `cargo xtask test`")?;
        let dir = tempfile::Builder::new().prefix("thermae-prometheus-").tempdir()?;
        let http = address::free()?.to_string();
        let scrapes: Vec<Value> = ["scheduler", "worker"]
            .into_iter()
            .map(|job| {
                let addresses: Vec<&String> = targets.iter().filter(|(j, _)| j == job).map(|(_, a)| a).collect();
                json!({ "job_name": job, "static_configs": [{ "targets": addresses }] })
            })
            .collect();
        // JSON is valid YAML.
        let config = json!({
            "global": { "scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s" },
            "rule_files": [rules],
            "scrape_configs": scrapes,
        });
        let file = dir.path().join("prometheus.yml");
        std::fs::write(&file, serde_json::to_vec_pretty(&config)?)?;
        let log = File::create(dir.path().join("log"))?;
        let child = Command::new(program)
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", dir.path().join("data").display()))
            .arg(format!("--web.listen-address={http}"))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        let mut prometheus = Self { child, http, dir };
        prometheus.await_ready()?;
        Ok(prometheus)
    }

    fn await_ready(&mut self) -> Result<()> {
        let begun = Instant::now();
        while get(&self.http, "/-/ready").ok().is_none_or(|(status, _)| status != 200) {
            if let Some(status) = self.child.try_wait()? {
                bail!("Prometheus ended with {status}:\n{}", self.logged());
            }
            ensure!(begun.elapsed() < Duration::from_secs(60), "Prometheus is not ready:\n{}", self.logged());
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    fn logged(&self) -> String {
        std::fs::read_to_string(self.log()).unwrap_or_default()
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    /// The values of an instant query, one for each series. NaN (a quantile of no values) is left out.
    pub(crate) fn query(&self, expr: &str) -> Result<Vec<f64>> {
        let answer = self.api(&format!("/api/v1/query?query={}", escape(expr)))?;
        let series = answer["result"].as_array().with_context(|| format!("{expr}: {answer}"))?;
        let values = series.iter().filter_map(|one| one["value"][1].as_str()?.parse().ok());
        Ok(values.filter(|value: &f64| !value.is_nan()).collect())
    }

    /// The values that a label of a metric has.
    pub(crate) fn label_values(&self, metric: &str, label: &str) -> Result<Vec<String>> {
        let answer = self.api(&format!("/api/v1/label/{label}/values?match[]={}", escape(metric)))?;
        Ok(serde_json::from_value(answer)?)
    }

    /// All loaded rules: name, health, last error.
    pub(crate) fn rules(&self) -> Result<Vec<(String, String, String)>> {
        let answer = self.api("/api/v1/rules")?;
        let groups = answer["groups"].as_array().context("no groups")?;
        let text = |rule: &Value, key: &str| rule[key].as_str().unwrap_or_default().to_owned();
        let rules = groups.iter().filter_map(|group| group["rules"].as_array()).flatten();
        Ok(rules.map(|rule| (text(rule, "name"), text(rule, "health"), text(rule, "lastError"))).collect())
    }

    fn api(&self, path: &str) -> Result<Value> {
        let (status, body) = get(&self.http, path)?;
        let mut answer: Value = serde_json::from_str(&body).with_context(|| format!("{status}: {body}"))?;
        ensure!(status == 200 && answer["status"] == "success", "{path}: {status}: {body}");
        Ok(answer["data"].take())
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // Prometheus has nothing that needs an orderly end.
        if let Err(error) = self.child.kill().and_then(|()| self.child.wait().map(drop)) {
            eprintln!("Prometheus could not be ended: {error}");
        }
    }
}

/// Percent-encodes all bytes except letters, digits and `-_.~`.
fn escape(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}
