//! The gateway over real sockets, in front of embedded fleets. This program is also the runner of their sandboxes, so
//! it has a `main` of its own.

mod batches;
mod callers;
mod checkpoints;
mod connect;
#[path = "../../../bridge/tests/contract/mod.rs"]
mod contract;
mod door;
mod drain;
mod elsewhere;
mod events;
mod files;
mod floods;
mod guard;
mod http;
mod limits;
mod rest;
mod runs;
mod serving;
mod sessions;
mod tools;
mod uploads;
mod usage;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use libtest_mimic::{Arguments, Trial};

/// Longer than any test takes here, also on a busy machine. It is no bar: it ends a test that hangs.
const SOON: Duration = Duration::from_secs(600);

fn main() -> ExitCode {
    if let Some(status) = thermae_fleet::runner_entry() {
        return status;
    }
    if let Some(status) = floods::flooded() {
        return status;
    }
    let mut args = Arguments::from_args();
    // Each test has a fleet of its own.
    args.test_threads = Some(1);
    let files = [
        runs::tests(),
        batches::tests(),
        tools::tests(),
        elsewhere::tests(),
        events::tests(),
        sessions::tests(),
        checkpoints::tests(),
        files::tests(),
        uploads::tests(),
        usage::tests(),
        guard::tests(),
        limits::tests(),
        floods::tests(),
        callers::tests(),
        drain::tests(),
        contract::tests(),
        connect::tests(),
    ];
    libtest_mimic::run(&args, files.into_iter().flatten().collect()).exit_code()
}

fn test(name: &str, run: impl AsyncFnOnce() -> Result<()> + Send + 'static) -> Trial {
    Trial::test(name, move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime
            .block_on(async { tokio::time::timeout(SOON, run()).await })?
            .map_err(|error| format!("{error:#}").into())
    })
}
