//! What the gateway costs: prints over HTTP, in turns with the same prints on the fleet behind it.
//!
//! With a real fleet, both sides are clients of it. Otherwise each side has an embedded fleet of its own.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE};
use serde::Deserialize;
use thermae_schemas::{Job, Outcome};
use thermae_testkit::address;

use crate::cases::Case;
use crate::report::Row;
use crate::target;
use crate::turns::{self, Side, Size};

/// How much is measured, and with what.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Path of the program `thermae`; by default, the one beside this program.
    #[arg(long)]
    pub program: Option<PathBuf>,
    /// How many prints.
    #[command(flatten)]
    pub size: Size,
}

/// How long the gateway may take until it is ready.
const READY: Duration = Duration::from_secs(60);

const TOKEN: &str = "token-of-the-load-generator";

/// Measures `print` through a gateway (the row `gateway`), in turns with a client of the fleet in this process
/// (`beside_gateway`).
///
/// # Errors
/// There is no fleet, the gateway can't be started, or an answer is wrong.
pub async fn measure(target: &target::Options, options: &Options) -> Result<Vec<Row>> {
    let here = target.open().await?;
    here.ready().await;
    let gateway = Gateway::start(target, options).await?;
    let mut sides = ["beside_gateway", "gateway"].map(Side::new);
    for (prints, at_once, counts) in options.size.turns() {
        let turns = [
            turns::prints(&here.client, prints, at_once).await?,
            turns::run(prints, at_once, || once(gateway.http.clone(), gateway.url.clone())).await?,
        ];
        for (side, turn) in sides.iter_mut().zip(turns).filter(|_| counts) {
            side.add(prints, &turn)?;
        }
    }
    drop(gateway);
    here.close().await;
    Ok(sides.iter().map(Side::row).collect())
}

/// One print.
async fn once(http: reqwest::Client, url: String) -> Result<Duration> {
    #[derive(Deserialize)]
    struct Run {
        outcome: Option<Outcome>,
    }
    let Job { code, .. } = Case::Print.job("");
    let job = serde_json::json!({ "code": code }).to_string();
    let begun = Instant::now();
    let asked = http.post(format!("{url}/v1/runs?wait=60s")).header(CONTENT_TYPE, "application/json");
    let answer = asked.header(AUTHORIZATION, format!("Bearer {TOKEN}")).body(job).send().await?;
    let (status, text) = (answer.status(), answer.bytes().await?);
    let took = begun.elapsed();
    ensure!(status.is_success(), "the gateway says {status}: {}", String::from_utf8_lossy(&text));
    let run: Run = serde_json::from_slice(&text)?;
    let outcome = run.outcome.context("the run has not ended")?;
    Case::Print.check(&outcome).map_or_else(|wrong| bail!(wrong), |_| Ok(took))
}

/// A process of `thermae serve`. It is killed on drop.
struct Gateway {
    process: Child,
    http: reqwest::Client,
    url: String,
}

impl Gateway {
    async fn start(target: &target::Options, options: &Options) -> Result<Self> {
        let beside = || anyhow::Ok(std::env::current_exe()?.with_file_name("thermae"));
        let program = options.program.clone().map_or_else(beside, Ok)?;
        let listen = address::free()?.to_string();
        let mut command = Command::new(program);
        command.args(["serve", "--listen", &listen]).env("THERMAE_TOKEN", TOKEN).env_remove("THERMAE_AMQP");
        if let Some(url) = &target.amqp {
            command.env("THERMAE_AMQP", url);
        }
        if let Some(tenant) = &target.tenant {
            command.env("THERMAE_TENANT", tenant);
        }
        if let Some(python) = &target.python {
            command.env("THERMAE_PYTHON", python);
        }
        // The HTTP client wants a provider of TLS even without TLS. An error says that there is one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::new();
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let mut gateway = Self { process, http, url: format!("http://{listen}") };
        let begun = Instant::now();
        while !gateway.is_ready().await {
            if let Some(status) = gateway.process.try_wait()? {
                bail!("the gateway ended with {status}");
            }
            ensure!(begun.elapsed() < READY, "the gateway was not ready within {READY:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(gateway)
    }

    async fn is_ready(&self) -> bool {
        self.http.get(format!("{}/readyz", self.url)).send().await.is_ok_and(|answer| answer.status().is_success())
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
