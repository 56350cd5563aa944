//! The bridge in front of embedded fleets, as an SDK sees it. This program is also the runner of their sandboxes, so it
//! has a `main` of its own.

mod attach;
#[path = "../contract/mod.rs"]
mod contract;
mod door;
mod drain;
mod ends;
mod openers;
mod opening;
mod played;
mod sessions;
mod wrong;

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
    let mut args = Arguments::from_args();
    // Some tests count this process's children.
    args.test_threads = Some(1);
    let files = [
        contract::tests(),
        opening::tests(),
        attach::tests(),
        drain::tests(),
        ends::tests(),
        openers::tests(),
        sessions::tests(),
        wrong::tests(),
    ];
    let tests = files.into_iter().flatten().collect();
    libtest_mimic::run(&args, tests).exit_code()
}

fn test(name: &str, run: impl AsyncFnOnce() -> Result<()> + Send + 'static) -> Trial {
    Trial::test(name, move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime
            .block_on(async { tokio::time::timeout(SOON, run()).await })?
            .map_err(|error| format!("{error:#}").into())
    })
}
