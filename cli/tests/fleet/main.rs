//! End-to-end tests: the real programs on a real RabbitMQ, Redis and Docker. `cargo xtask test` starts the servers and
//! sets the variables that name them.
//!
//! Most tests share one fleet and run one after the other. Tests that stop or starve a server use a second set of
//! servers. The test harness is libtest-mimic, because libtest has no place for ending a fleet after the last test.

mod approvals;
mod approver;
mod authority;
mod bad_input;
mod batch;
mod checkpoints;
mod dashboards;
mod files;
mod fleet;
mod gateway;
mod jobs;
mod keys;
mod load;
mod once;
mod outages;
mod pages;
mod prometheus;
mod promise;
mod requests;
mod scenarios;
mod servers;
mod sessions;
mod tls;
mod tokens;
mod trace;
mod waits;
mod walls;

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Trial};

use crate::fleet::Fleet;
use crate::servers::OwnServers;

/// A test on the shared fleet.
type Test = fn(&Fleet) -> anyhow::Result<()>;
/// A test that starts its own fleet, on servers that it may break.
type HarmTest = fn(&OwnServers) -> anyhow::Result<()>;

fn main() -> ExitCode {
    let mut args = Arguments::from_args();
    // The tests share the machine's processors and one fleet, and some kill workers.
    args.test_threads = Some(1);
    let fleet = Arc::new(std::sync::OnceLock::new());
    let shared: Vec<(&'static str, Test)> = [
        jobs::TESTS,
        sessions::TESTS,
        files::TESTS,
        walls::TESTS,
        bad_input::TESTS,
        batch::TESTS,
        scenarios::TESTS,
        waits::TESTS,
        gateway::TESTS,
        keys::TESTS,
        pages::TESTS,
        tokens::TESTS,
        approvals::TESTS,
        dashboards::TESTS,
        // These kill all workers. For some seconds, new sessions may be placed on one that is not known to be dead.
        checkpoints::TESTS,
        requests::TESTS,
        approvals::KILLING,
    ]
    .concat();
    let mut trials: Vec<Trial> = shared
        .into_iter()
        .map(|(name, test)| {
            let fleet = Arc::clone(&fleet);
            Trial::test(name, move || {
                let fleet = fleet.get_or_init(|| Fleet::start("shared", 2).map_err(|error| format!("{error:#}")));
                let fleet = fleet.as_ref().map_err(|error| format!("the fleet did not start: {error}"))?;
                fleet.check(test(fleet))
            })
        })
        .collect();
    let own = Arc::new(std::sync::OnceLock::new());
    trials.extend(
        [promise::TESTS, once::TESTS, outages::TESTS, tokens::HARM, trace::TESTS, tls::TESTS].concat().into_iter().map(
            |(name, test)| {
                let own = Arc::clone(&own);
                Trial::test(name, move || {
                    let own = own.get_or_init(|| OwnServers::start("harm").map_err(|error| format!("{error:#}")));
                    let own = own.as_ref().map_err(|error| format!("the servers did not start: {error}"))?;
                    test(own).map_err(|error| format!("{error:#}").into())
                })
            },
        ),
    );
    let conclusion = libtest_mimic::run(&args, trials);
    // `exit_code` ends the process without running destructors.
    drop(fleet);
    drop(own);
    conclusion.exit_code()
}
