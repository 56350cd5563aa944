//! `cargo xtask test`: everything that must hold, on a machine with nothing set up.
//!
//! It builds, starts its own servers, runs every step, stops everything, and ends with `N passed, N failed`.

mod compose;
mod dashboard;
mod interpreters;
mod libtest;
mod loopback;
mod newer;
mod parts;
mod programs;
mod pytest;
mod python;
mod readme;
mod steps;
mod tally;
pub(crate) mod watchdog;

use std::{
    fs::{File, TryLockError},
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use crate::{
    cpython,
    images::{self, engine::Engine},
    paths,
    services::{self, Service, set::Set},
    supervise,
};
use compose::Fleet;
pub(crate) use libtest::Libtest;
use newer::Newer;
use parts::Part;
use steps::Runner;
pub(crate) use steps::{Step, log};
pub(crate) use tally::Tally;
use watchdog::Watchdog;

/// Name of the set of servers for tests.
const SET: &str = "test";

/// Runs the steps `only`, or all if none is named. `filter` is for the test programs.
pub(crate) fn run(only: &[Step], filter: &[String]) -> Result<ExitCode> {
    let begun = Instant::now();
    let _alone = alone()?;
    supervise::begin()?;
    // An earlier run leaves its servers behind if it is killed.
    Set::open(SET)?.stop()?;
    let watchdog = Watchdog::before();
    let mut runner = Runner::new(only, filter);
    {
        let servers = Servers { set: Set::open(SET)? };
        all_steps(&mut runner, servers);
    }
    let left = watchdog.after()?;
    let mut tally = runner.finish();
    tally.check("nothing is left behind", (!left.is_empty()).then(|| left.join("; ")).as_deref());
    if supervise::interrupted() {
        tally.check("the run", Some("was interrupted"));
    }
    println!("took {} s", begun.elapsed().as_secs());
    tally.print();
    Ok(if tally.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Takes the lock of this tree's test run. Without it, a second run would take the first one's servers for leftovers
/// and stop them. The lock ends with the process.
fn alone() -> Result<File> {
    let path = paths::services(SET).join("lock");
    std::fs::create_dir_all(paths::services(SET))?;
    let file = File::create(&path).with_context(|| format!("create {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            bail!("another `cargo xtask test` runs in this tree; wait for it, or use a clone of your own")
        }
        Err(TryLockError::Error(error)) => Err(error).with_context(|| format!("lock {}", path.display())),
    }
}

/// A set whose servers are stopped on drop, even after a panic.
struct Servers {
    set: Set,
}

impl Drop for Servers {
    fn drop(&mut self) {
        if let Err(error) = self.set.stop() {
            eprintln!("error: the servers could not be stopped: {error:#}");
        }
    }
}

fn all_steps(runner: &mut Runner, mut servers: Servers) {
    runner.cargo(Step::Fmt, &["fmt", "--all", "--check", "--", "--color", "never"], Duration::from_secs(120));
    // All targets at once, so that what programs and tests share is built once, with the same features.
    let build = ["build", "--release", "--workspace", "--all-targets"];
    let built = runner.cargo(Step::Build, &build, Duration::from_secs(3600));
    let clippy = ["clippy", "--release", "--workspace", "--all-targets", "--", "-D", "warnings"];
    runner.cargo(Step::Clippy, &clippy, Duration::from_secs(1800));
    runner.docs(Duration::from_secs(900));
    runner.deny();
    runner.profiles();
    if !built || supervise::interrupted() {
        return;
    }
    runner.wheels();
    let mut parts = runner.python(Duration::from_secs(1800));
    parts.extend(runner.openapi(Duration::from_secs(1800)));
    if ![Step::Test, Step::Newer, Step::Compose].into_iter().any(|step| runner.wants(step)) {
        return runner.run(parts);
    }
    let ready = runner.check("servers and image", || {
        services::prometheus::program()?;
        cpython::ensure_distribution_tests()?;
        servers.set.start(&Service::ALL)?;
        let socket = servers.set.docker_socket()?;
        images::python::ensure(&Engine { socket }, &images::python::build_runner()?)
    });
    if ready {
        with_servers(runner, &servers.set, parts);
    } else {
        runner.run(parts);
    }
    if runner.failed() {
        print_logs(&servers.set);
    }
}

/// Runs the tests that need servers, and these parts beside them.
fn with_servers(runner: &mut Runner, set: &Set, parts: Vec<Part>) {
    runner.check("servers listen on loopback alone", || loopback::check(set));
    let mut newer = None;
    if runner.wants(Step::Newer) {
        runner.check("newer servers", || {
            newer = Some(Newer::up(&set.docker_socket()?)?);
            Ok(())
        });
    }
    match tests(runner, set, newer.as_ref()) {
        Ok(tests) => runner.run(parts.into_iter().chain(tests).collect()),
        Err(error) => {
            runner.fail("test programs", &format!("{error:#}"));
            runner.run(parts);
        }
    }
    drop(newer);
    if runner.wants(Step::Compose) {
        compose(runner, set);
    }
}

/// The test programs of the workspace, on these servers.
fn tests(runner: &Runner, set: &Set, newer: Option<&Newer>) -> Result<Vec<Part>> {
    let (mut parts, limit) = (Vec::new(), Duration::from_secs(1800));
    if !runner.wants(Step::Test) && newer.is_none() {
        return Ok(parts);
    }
    let (programs, environment) = (programs::all()?, set.environment()?);
    if runner.wants(Step::Test) {
        parts.extend(runner.tests(Step::Test, programs.iter(), &environment, limit));
        parts.push(runner.doc_tests(&environment, limit));
    }
    if let Some(newer) = newer {
        let contract = programs.iter().filter(|program| program.source == programs::CONTRACT);
        parts.extend(runner.tests(Step::Newer, contract, &newer.environment(&environment), limit));
    }
    Ok(parts)
}

/// Runs jobs on the fleet of `compose.yaml`, and what the README shows.
fn compose(runner: &mut Runner, set: &Set) {
    let mut fleet = None;
    runner.check("compose: everything comes up", || {
        let dir = set.dir().join("compose");
        fleet = Some(Fleet::up(&set.docker_socket()?, &dir, &steps::log("compose"))?);
        Ok(())
    });
    let Some(fleet) = fleet else { return };
    runner.check("compose: the file", || fleet.config());
    runner.check("compose: it listens on loopback alone", || loopback::check(set));
    runner.check("compose: a batch", || fleet.batch(&steps::log("compose-batch")));
    runner.check("compose: an artifact", || fleet.artifact(&steps::log("compose-artifact")));
    runner.check("compose: the gateway and its keys", || fleet.gateway(&steps::log("compose-gateway")));
    runner.check("compose: load", || fleet.load(&steps::log("compose-load")));
    runner.check("compose: Prometheus reaches all", || fleet.scraped());
    let mut gateway = Vec::new();
    runner.check("compose: an API key for the SDK", || {
        gateway.extend(fleet.over_http()?);
        Ok(())
    });
    runner.python_on_fleet(&fleet.variables(), &gateway, Duration::from_secs(600));
    readme(runner, &fleet);
}

/// Runs every command of the README, beside the fleet of `compose.yaml` that it describes.
fn readme(runner: &mut Runner, fleet: &Fleet) {
    let blocks = match readme::blocks() {
        Ok(blocks) => blocks,
        Err(error) => return runner.fail("README", &format!("{error:#}")),
    };
    for (number, block) in blocks.iter().enumerate() {
        let name = format!("README: {}", block.title);
        match &block.skip {
            Some(reason) => println!("== {name}: not run: {reason}"),
            None => {
                let log = steps::log(&format!("readme-{number}"));
                runner.check(&name, || block.run(fleet.environment(), &fleet.ports(), &log));
            }
        }
    }
}

/// Prints the end of each server's log, to help find the cause of a failure.
fn print_logs(set: &Set) {
    for (service, _) in set.services() {
        let log = set.dir().join(format!("logs/{}.log", service.name()));
        println!("--- the end of {}", log.display());
        println!("{}", services::tail(&log, 15));
    }
}
