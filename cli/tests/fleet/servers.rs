//! Addresses of the shared servers, from variables that `cargo xtask test` sets, and sets of servers that a test may
//! break.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Addresses of one set of servers, and of the sandbox image.
#[derive(Debug, Clone)]
pub(crate) struct Servers {
    /// AMQP URL of the fleet's own user.
    pub(crate) amqp: String,
    /// AMQP URL of the tenant `acme`.
    pub(crate) acme: String,
    /// AMQP URL of the tenant `globex`.
    pub(crate) globex: String,
    /// URL of Redis.
    pub(crate) redis: String,
    /// Path of Docker's socket.
    pub(crate) docker: String,
    /// Image for the sandboxes.
    pub(crate) image: String,
    /// The same servers by TLS; only for [`OwnServers`].
    pub(crate) tls: Option<Encrypted>,
    /// OTLP endpoint that the fleet's processes send traces to; `None` for no traces.
    pub(crate) otlp: Option<String>,
}

/// Addresses of one set of servers by TLS. The servers ask for a client certificate.
#[derive(Debug, Clone, Default)]
pub(crate) struct Encrypted {
    /// AMQP URL of the fleet's own user.
    pub(crate) amqps: String,
    /// AMQP URL of the tenant `acme`.
    pub(crate) acme: String,
    /// URL of Redis, for the user `fleet`.
    pub(crate) rediss: String,
    /// File with the authority's certificate.
    pub(crate) ca: String,
    /// File with the client certificate.
    pub(crate) cert: String,
    /// File with the key of the client certificate.
    pub(crate) key: String,
}

fn var(name: &str) -> Result<String> {
    std::env::var(name).with_context(|| format!("{name} is not set: run these tests with `cargo xtask test`"))
}

impl Servers {
    /// The servers that the test run shares.
    pub(crate) fn shared() -> Result<Self> {
        Ok(Self {
            amqp: var("THERMAE_TEST_AMQP")?,
            acme: var("THERMAE_TEST_AMQP_TENANT")?,
            globex: var("THERMAE_TEST_AMQP_OTHER")?,
            redis: var("THERMAE_TEST_REDIS")?,
            docker: var("THERMAE_TEST_DOCKER")?,
            image: var("THERMAE_TEST_IMAGE")?,
            tls: None,
            otlp: None,
        })
    }

    /// AMQP URL of a user of these servers.
    pub(crate) fn as_user(&self, user: &str, password: &str) -> Result<String> {
        ensure!(self.acme.contains("acme:acme@"), "the tests' URLs have another form: {}", self.acme);
        Ok(self.acme.replacen("acme:acme@", &format!("{user}:{password}@"), 1))
    }
}

/// A RabbitMQ and a Redis for tests that break servers, beside the shared Docker. They are stopped on drop.
pub(crate) struct OwnServers {
    name: String,
    /// Addresses of these servers.
    pub(crate) servers: Servers,
}

impl OwnServers {
    /// Starts the servers of the set `name`.
    pub(crate) fn start(name: &str) -> Result<Self> {
        let mut own = Self { name: name.to_owned(), servers: Servers::shared()? };
        let lines = xtask(&["test-up", "--set", name, "--only", "rabbitmq,redis", "--print-env"])?;
        let tls = own.servers.tls.insert(Encrypted::default());
        for line in lines.lines() {
            let Some((key, value)) = line.strip_prefix("export ").and_then(|pair| pair.split_once('=')) else {
                continue;
            };
            let value = value.trim_matches('\'').to_owned();
            match key {
                "THERMAE_TEST_AMQP" => own.servers.amqp = value,
                "THERMAE_TEST_AMQP_TENANT" => own.servers.acme = value,
                "THERMAE_TEST_AMQP_OTHER" => own.servers.globex = value,
                "THERMAE_TEST_REDIS" => own.servers.redis = value,
                "THERMAE_TEST_AMQPS" => tls.amqps = value,
                "THERMAE_TEST_AMQPS_TENANT" => tls.acme = value,
                "THERMAE_TEST_REDISS" => tls.rediss = value,
                "THERMAE_TEST_CA" => tls.ca = value,
                "THERMAE_TEST_CLIENT_CERT" => tls.cert = value,
                "THERMAE_TEST_CLIENT_KEY" => tls.key = value,
                _ => {}
            }
        }
        Ok(own)
    }

    /// Stops, kills or starts one server. After `start`, it has its old ports and data.
    pub(crate) fn ctl(&self, server: &str, action: &str) -> Result<()> {
        xtask(&["test-ctl", "--set", &self.name, server, action]).map(drop)
    }
}

impl Drop for OwnServers {
    fn drop(&mut self) {
        if let Err(error) = xtask(&["test-down", "--set", &self.name]) {
            eprintln!("{error:#}");
        }
    }
}

fn xtask(args: &[&str]) -> Result<String> {
    let output = Command::new(var("THERMAE_TEST_XTASK")?).arg("services").args(args).output()?;
    ensure!(output.status.success(), "xtask services {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// Path of a program of this build. An absolute path stays as it is.
pub(crate) fn binary(name: &str) -> Result<PathBuf> {
    let file = PathBuf::from(var("THERMAE_TEST_BIN")?).join(name);
    ensure!(file.is_file(), "{} is not built: run these tests with `cargo xtask test`", file.display());
    Ok(file)
}
