//! Runs a Python program on an embedded fleet, and lets it call a closure of this program:
//! `cargo run --release --package thermae-fleet --example closure_tool`.

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use thermae_fleet::{EmbeddedOptions, Fleet, Job, Tools, runner_entry};

const CODE: &str = "print('the prices are', [await price(item=item) for item in ('figs', 'olives', 'wine')])";

#[derive(serde::Deserialize)]
struct Asked {
    item: String,
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    // Sandboxes are made by starting this program again.
    runner_entry().map_or_else(run, Ok)
}

#[tokio::main]
async fn run() -> Result<ExitCode, Box<dyn Error>> {
    let fleet = Fleet::embedded(EmbeddedOptions { slots: Some(1), ..EmbeddedOptions::default() }).await?;
    let tools = Tools::new().with("price", |asked: Asked| async move { Ok(asked.item.len()) });
    let mut job = Job::python(CODE);
    job.tools = tools.specs();
    let outcome = fleet.run(job, Some(Arc::new(tools))).await?;
    print!("{}{}", outcome.stdout, outcome.stderr);
    fleet.close().await;
    Ok(ExitCode::SUCCESS)
}
