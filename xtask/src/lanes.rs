//! `cargo xtask lanes`: serves many tenants on a real RabbitMQ. Prints the time until all are served, and the memory of
//! the scheduler and the broker.

use anyhow::{Context, Result, ensure};

use crate::cargo;

/// How many.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Options {
    /// Number of tenants. Each has three lanes, one for each class.
    #[arg(long, default_value_t = 1000)]
    tenants: usize,
}

/// Runs the scheduler's own test of lanes with that many tenants.
pub(crate) fn run(options: &Options) -> Result<()> {
    // Build the whole workspace, so that dependencies get the same features and aren't built again.
    let mut command = cargo::command(&["test", "--release", "--workspace", "--test", "real"]);
    command
        .args(["--", "--exact", "lanes::every_lane_of_many_tenants_is_served", "--nocapture"])
        .env("THERMAE_TEST_XTASK", std::env::current_exe().context("this program has no path")?)
        .env("THERMAE_LANES_TENANTS", options.tenants.to_string());
    let status = command.status().context("run cargo")?;
    ensure!(status.success(), "not every lane was served");
    Ok(())
}
