//! `cargo xtask lanes`: many tenants on a real RabbitMQ; prints how long it takes to serve them all, and the memory of scheduler and broker.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::paths;

/// How many.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Options {
    /// Tenants; each has a submit queue of every class.
    #[arg(long, default_value_t = 1000)]
    tenants: usize,
}

/// Runs the scheduler's own test with that many.
pub(crate) fn run(options: &Options) -> Result<()> {
    let mut command = Command::new("cargo");
    command
        .args(["test", "--release", "--package", "thermae-scheduler", "--test", "real"])
        .args(["--", "--exact", "lanes::every_lane_of_many_tenants_is_served", "--nocapture"])
        .current_dir(paths::root())
        .env("THERMAE_TEST_XTASK", std::env::current_exe().context("this program has no path")?)
        .env("THERMAE_LANES_TENANTS", options.tenants.to_string());
    let status = command.status().context("run cargo")?;
    ensure!(status.success(), "not every lane was served");
    Ok(())
}
