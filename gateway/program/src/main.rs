//! `thermae-gateway`: serves a fleet that uses RabbitMQ to the holders of API keys, over HTTP. Each tenant has a
//! connection to RabbitMQ of its own, with its own credentials. `thermae-gateway key` makes, lists and revokes the
//! keys.
//!
//! ```text
//!  request ─▶ thermae_gateway ─┬─ identity (keyring) ─▶ store: SQLite or Postgres
//!                              └─ fleets (credentials) ─▶ one connection for each tenant
//! ```
//!
//! Exit status: 0 after an orderly end, 2 for wrong usage or configuration, 3 after any other error.

#![forbid(unsafe_code)]

mod args;
mod credentials;
mod key;
mod keyring;
mod serve;
mod store;

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Parser;
use thermae_service::program;

use crate::args::{Args, Command};

const NAME: &str = "thermae-gateway";

fn main() -> ExitCode {
    let Args { common, command } = Args::parse();
    match command {
        None => program::run(NAME, &["keys"], common.load(), serve::serve),
        Some(Command::Key(verb)) => key::run(&common, &verb),
    }
}

/// The time now, in milliseconds since 1970.
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
