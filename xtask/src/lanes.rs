//! `cargo xtask lanes`: many tenants on a real RabbitMQ; prints how long it takes to serve them all, and the memory of scheduler and broker.

use anyhow::{Context, Result, ensure};

use crate::cargo;

/// How many.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Options {
    /// Tenants; each has a submit queue of every class.
    #[arg(long, default_value_t = 1000)]
    tenants: usize,
}

/// Runs the scheduler's own test with that many.
pub(crate) fn run(options: &Options) -> Result<()> {
    // The whole workspace, so that dependencies have the same features and are not built again.
    let mut command = cargo::command(&["test", "--release", "--workspace", "--test", "real"]);
    command
        .args(["--", "--exact", "lanes::every_lane_of_many_tenants_is_served", "--nocapture"])
        .env("THERMAE_TEST_XTASK", std::env::current_exe().context("this program has no path")?)
        .env("THERMAE_LANES_TENANTS", options.tenants.to_string());
    let status = command.status().context("run cargo")?;
    ensure!(status.success(), "not every lane was served");
    Ok(())
}
