//! A fleet with TLS on all connections, and credentials in files.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use thermae_testkit::address;

use crate::HarmTest;
use crate::fleet::Process;
use crate::servers::{Encrypted, OwnServers, binary};

pub(crate) const TESTS: &[(&str, HarmTest)] = &[("tls::a_fleet_by_tls_runs_programs_sessions_and_batches", runs)];

/// The URL without its password, and the password.
fn split(url: &str) -> Result<(String, String)> {
    let (user, host) = url.split_once('@').context("a URL with a user")?;
    let (user, password) = user.rsplit_once(':').context("a URL with a password")?;
    Ok((format!("{user}@{host}"), password.to_owned()))
}

fn address() -> Result<String> {
    Ok(address::free()?.to_string())
}

fn file(dir: &Path, name: &str, text: &str) -> Result<String> {
    let path = dir.join(name);
    std::fs::write(&path, format!("{text}\n"))?;
    Ok(path.display().to_string())
}

/// Variables that make a program trust the servers, and the servers trust the program.
fn trust(tls: &Encrypted) -> Vec<(String, String)> {
    [("CA", &tls.ca), ("CERT", &tls.cert), ("KEY", &tls.key)]
        .map(|(name, file)| (format!("THERMAE_TLS_{name}"), file.clone()))
        .to_vec()
}

/// A scheduler whose configuration names files with passwords.
fn scheduler(tls: &Encrypted, dir: &Path) -> Result<Process> {
    let ((amqp, amqp_password), (redis, redis_password)) = (split(&tls.amqps)?, split(&tls.rediss)?);
    let http = address()?;
    let config = format!(
        "amqp = {amqp:?}\namqp_password_file = {:?}\nredis = {redis:?}\nredis_password_file = {:?}\nredis_prefix = \"by-tls\"\nlisten = {http:?}\ntls_ca = {:?}\ntls_cert = {:?}\ntls_key = {:?}\n",
        file(dir, "amqp-password", &amqp_password)?,
        file(dir, "redis-password", &redis_password)?,
        tls.ca,
        tls.cert,
        tls.key
    );
    Process::with("thermae-scheduler", "scheduler".to_owned(), http, dir, &config, None)
}

/// A worker whose environment names files with whole URLs.
fn worker(tls: &Encrypted, dir: &Path) -> Result<Process> {
    let http = address()?;
    let config = format!(
        "redis_prefix = \"by-tls\"\nlisten = {http:?}\n[pools.default]\nbackend = \"native\"\nslots = 2\nwarm = 1\n"
    );
    let mut environment = trust(tls);
    environment.push(("THERMAE_AMQP_FILE".to_owned(), file(dir, "amqp-url", &tls.amqps)?));
    environment.push(("THERMAE_REDIS_FILE".to_owned(), file(dir, "redis-url", &tls.rediss)?));
    environment.push(("THERMAE_ARTIFACTS__SIGNING_KEY_FILE".to_owned(), file(dir, "signing-key", "of this test")?));
    Process::with("thermae-worker", "worker".to_owned(), http, dir, &config, environment)
}

fn runs(own: &OwnServers) -> Result<()> {
    let tls = own.servers.tls.as_ref().context("servers by TLS")?;
    let dir = tempfile::Builder::new().prefix("thermae-e2e-").tempdir()?;
    let mut fleet = [scheduler(tls, dir.path())?, worker(tls, dir.path())?];
    fleet.iter_mut().try_for_each(Process::await_ready)?;
    let url = file(dir.path(), "acme-url", &tls.acme)?;
    let thermae = |args: &[&str]| -> Result<Output> {
        let mut command = Command::new(binary("thermae")?);
        command.args(args).env("THERMAE_AMQP_FILE", &url).envs(trust(tls)).current_dir(root());
        command.output().context("start thermae")
    };
    let printed = |args: &[&str]| -> Result<String> {
        let output = thermae(args)?;
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "{args:?}: {words}\n{}", logs(&fleet));
        ensure!(!words.contains("warning"), "{args:?}: {words}");
        Ok(String::from_utf8(output.stdout)?)
    };

    // The quick start, and a program with a tool.
    let plain = printed(&["run", "examples/quickstart.py"])?;
    let by_tool = printed(&["run", "examples/sales/report.py", "--tools-file", "examples/sales/thermae.toml"])?;
    ensure!(!plain.trim().is_empty() && plain == by_tool, "{plain}{by_tool}");

    // A session.
    let program = |text: &str| file(dir.path(), "program.py", text);
    let mut session = vec!["run", "", "--session", "by-tls"];
    let first = program("visitors = 41")?;
    session[1] = &first;
    printed(&session)?;
    program("print(visitors + 1)")?;
    ensure!(printed(&session)? == "42\n");

    // A batch.
    let out = dir.path().join("results.jsonl").display().to_string();
    printed(&["batch", "examples/batch.jsonl", "--out", &out])?;
    let (jobs, results) =
        (std::fs::read_to_string(root().join("examples/batch.jsonl"))?, std::fs::read_to_string(&out)?);
    ensure!(results.lines().count() == jobs.lines().filter(|line| !line.trim().is_empty()).count(), "{results}");
    ensure!(results.lines().all(|line| line.contains("\"succeeded\"")), "{results}");

    // Without the authority's certificate, the client sends nothing, and says what to do.
    let untrusted = Command::new(binary("thermae")?)
        .args(["run", "examples/quickstart.py"])
        .env("THERMAE_AMQP_FILE", &url)
        .current_dir(root())
        .output()?;
    let words = String::from_utf8_lossy(&untrusted.stderr);
    ensure!(!untrusted.status.success() && words.contains("broker_denied"), "{words}");
    fleet.iter_mut().try_for_each(Process::drain)
}

fn logs(fleet: &[Process]) -> String {
    fleet.iter().map(|process| format!("--- {}\n{}\n", process.name, process.logged())).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
