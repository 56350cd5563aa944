//! A gateway of the embedded fleet, and a proxy in front of it that plants faults.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::process::{ProcId, in_own_session, wait_until};
use crate::services::free_port;
use crate::{http, paths};

/// The token of the gateway.
pub(super) const TOKEN: &str = "a-token-of-the-checks";

/// How long the gateway may take until it is ready.
const READY: Duration = Duration::from_secs(60);

/// A process that serves at a URL. It is stopped on drop.
pub(super) struct Serving {
    process: Child,
    pub(super) url: String,
}

impl Serving {
    /// Starts `thermae serve`, and waits until it is ready.
    pub(super) fn gateway() -> Result<Self> {
        let address = format!("127.0.0.1:{}", free_port()?);
        let mut command = in_own_session(paths::release().join("thermae"));
        command.args(["serve", "--listen", &address]);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("THERMAE_")) {
            command.env_remove(name);
        }
        command.env("THERMAE_TOKEN", TOKEN);
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().context("start thermae serve")?;
        let serving = Self { process, url: format!("http://{address}") };
        let is_ready = || http::get(&address, "/readyz").is_ok_and(|(status, _)| status == 200);
        ensure!(wait_until(READY, is_ready), "thermae serve was not ready within {} s", READY.as_secs());
        Ok(serving)
    }

    /// Starts the proxy that plants faults.
    pub(super) fn planted(python: &mut Command, gateway: &Self) -> Result<Self> {
        let command = python.args(["-c", include_str!("planted.py"), &gateway.url]);
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("start the proxy")?;
        let stdout = process.stdout.take().context("the proxy has no output")?;
        let mut serving = Self { process, url: String::new() };
        BufReader::new(stdout).read_line(&mut serving.url)?;
        serving.url.truncate(serving.url.trim_end().len());
        ensure!(!serving.url.is_empty(), "the proxy did not start");
        Ok(serving)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(process) = ProcId::of(self.process.id() as i32) {
            process.stop(Duration::from_secs(20));
        }
        let _ = self.process.wait();
    }
}
