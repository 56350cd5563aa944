//! The steps of a test run. Each has a name, a limit, a log, and a line of output that says how it went.

use std::{
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::Result;

use super::{
    Tally,
    libtest::Libtest,
    pytest::Pytest,
    python::{self, Package},
};
use crate::{
    deny, openapi, paths, services,
    supervise::{self, Finished},
    wheel::{self, Wheels},
};

/// A step that can be asked for by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Step {
    /// Check the formatting with `cargo fmt --check`.
    Fmt,
    /// Build all programs, optimised.
    Build,
    /// Run `cargo clippy` with warnings denied.
    Clippy,
    /// Run `cargo doc` with warnings denied.
    Doc,
    /// Check licences, bans and duplicates of the dependencies, and how many the first build has.
    Deny,
    /// Check files that other programs read: the containers' profiles, RabbitMQ's definitions, Grafana's dashboard.
    Profiles,
    /// Make the wheels of the Python package with the build as it is, and check them.
    Wheel,
    /// Check the form and the types of the Python package, and run its tests.
    Python,
    /// Try the gateway against its OpenAPI document, with few requests.
    Openapi,
    /// Run the unit, contract and end-to-end tests.
    Test,
    /// Run the contract suite on the newer RabbitMQ and Redis.
    Newer,
    /// Start the fleet of `compose.yaml`, and run a batch through it.
    Compose,
}

impl Step {
    fn name(self) -> &'static str {
        match self {
            Self::Fmt => "fmt",
            Self::Build => "build",
            Self::Clippy => "clippy",
            Self::Doc => "doc",
            Self::Deny => "deny",
            Self::Profiles => "profiles",
            Self::Wheel => "wheel",
            Self::Python => "python",
            Self::Openapi => "openapi",
            Self::Test => "test",
            Self::Newer => "newer",
            Self::Compose => "compose",
        }
    }
}

/// Runs steps and counts results.
#[derive(Debug)]
pub(crate) struct Runner {
    only: Vec<Step>,
    filter: Vec<String>,
    tally: Tally,
}

impl Runner {
    /// Without a step in `only`, all run. `filter` goes to `cargo test`.
    pub(crate) fn new(only: &[Step], filter: &[String]) -> Self {
        Self { only: only.to_vec(), filter: filter.to_vec(), tally: Tally::default() }
    }

    /// Whether a step is to run. After an interrupt, none is.
    pub(crate) fn wants(&self, step: Step) -> bool {
        !supervise::interrupted() && (self.only.is_empty() || self.only.contains(&step))
    }

    /// Whether anything has failed so far.
    pub(crate) fn failed(&self) -> bool {
        !self.tally.failures.is_empty()
    }

    /// The count over all steps.
    pub(crate) fn finish(self) -> Tally {
        self.tally
    }

    /// Counts a failure.
    pub(crate) fn fail(&mut self, name: &str, why: &str) {
        self.tally.check(name, Some(why));
    }

    /// Runs a cargo command that passes or fails as a whole. Gives false if it failed; a step that isn't wanted passes.
    pub(crate) fn cargo(&mut self, step: Step, args: &[&str], limit: Duration) -> bool {
        self.cargo_with(step, args, &[], limit)
    }

    /// Builds the documentation of every crate, with warnings denied.
    pub(crate) fn docs(&mut self, limit: Duration) {
        let args = ["doc", "--release", "--workspace", "--no-deps"];
        self.cargo_with(Step::Doc, &args, &[("RUSTDOCFLAGS", "-D warnings")], limit);
    }

    /// Checks the dependencies by `deny.toml`, with cargo-deny if it is installed, and how many the first build has.
    pub(crate) fn deny(&mut self) {
        if !self.wants(Step::Deny) {
            return;
        }
        if paths::find_program("cargo-deny").is_some() {
            self.cargo(Step::Deny, &["deny", "check", "bans", "licenses", "sources"], Duration::from_secs(600));
        } else {
            self.check("deny", deny::check);
        }
        self.check("crates of the first build", deny::first_build);
    }

    /// Checks files that other programs must be able to read.
    pub(crate) fn profiles(&mut self) {
        if self.wants(Step::Profiles) {
            self.check("seccomp profile", crate::images::profiles::seccomp);
            self.check("AppArmor profile", crate::images::profiles::apparmor);
            self.check("RabbitMQ's definitions", services::rabbitmq::check_definitions);
            self.check("Grafana's dashboard", super::dashboard::check);
        }
    }

    /// Makes the wheels of the Python package with the release build of the program, and checks them.
    pub(crate) fn wheels(&mut self) {
        if !self.wants(Step::Wheel) {
            return;
        }
        let mut made = None;
        self.check("wheels", || {
            made = Some(Wheels::of_release()?);
            Ok(())
        });
        if let Some(wheels) = made {
            for (name, check) in wheel::CHECKS {
                self.check(name, || check(&wheels));
            }
        }
    }

    /// Checks the Python package, and counts each of its tests.
    pub(crate) fn python(&mut self, limit: Duration) {
        if !self.wants(Step::Python) {
            return;
        }
        let Some(package) = self.package() else { return };
        for (name, program, args) in python::CHECKS {
            self.check(name, || package.check(program, args));
        }
        self.pytest("python", package.tests(&[], &self.filter), limit);
        self.python_over_http("python-over-http", &package, &[], limit);
        let mut others = Vec::new();
        for (minor, python) in package.others() {
            let name = format!("python-3.{minor}");
            match python.map(|python| Package::tests_with(minor, &python, &self.filter)) {
                None => println!("== {name}: this machine has no Python 3.{minor}, so nothing is tested with it"),
                Some(Ok(tests)) => others.push((name, tests)),
                Some(Err(error)) => self.fail(&name, &format!("{error:#}")),
            }
        }
        // These tests mostly wait, so the versions share the machine.
        let ran: Vec<_> = std::thread::scope(|scope| {
            let run = |(name, tests): (String, Command)| scope.spawn(move || pytest(&name, tests, limit));
            let running: Vec<_> = others.into_iter().map(run).collect();
            running.into_iter().map(|step| step.join().expect("a step does not panic")).collect()
        });
        for (summed, failure) in ran {
            self.judge_pytest(summed, failure);
        }
    }

    /// Tries the gateway against its OpenAPI document.
    pub(crate) fn openapi(&mut self) {
        if self.wants(Step::Openapi) {
            self.check("openapi: the gateway, its document and planted faults", openapi::check_shortly);
        }
    }

    /// Runs the tests of the Python package that need a fleet, which these variables name. Then runs all that can do
    /// so over HTTP. `gateway` has more variables, which name the fleet's gateway.
    pub(crate) fn python_on_fleet(
        &mut self,
        fleet: &[(&'static str, String)],
        gateway: &[(&'static str, String)],
        limit: Duration,
    ) {
        if let Some(package) = self.package() {
            self.pytest("python-on-fleet", package.tests(fleet, &self.filter), limit);
            self.python_over_http("python-on-fleet-over-http", &package, &[fleet, gateway].concat(), limit);
        }
    }

    /// Runs the tests of the pure wheel through a gateway.
    fn python_over_http(&mut self, name: &str, package: &Package, fleet: &[(&'static str, String)], limit: Duration) {
        match wheel::pure_for_tests() {
            Ok(wheel) => self.pytest(name, package.tests_over_http(&wheel, fleet, &self.filter), limit),
            Err(error) => self.fail(name, &format!("{error:#}")),
        }
    }

    fn package(&mut self) -> Option<Package> {
        let mut ready = None;
        self.check("python: tools", || {
            ready = Some(Package::ready()?);
            Ok(())
        });
        ready
    }

    fn pytest(&mut self, name: &str, command: Command, limit: Duration) {
        let (summed, failure) = pytest(name, command, limit);
        self.judge_pytest(summed, failure);
    }

    fn judge_pytest(&mut self, summed: Tally, failure: Option<String>) {
        // It is an error for pytest, but not here, if the filter is for other tests.
        let other = !self.filter.is_empty() && summed.passed == 0 && summed.failures.is_empty();
        self.judge("pytest", summed, failure.filter(|_| !other));
    }

    /// Runs `cargo test` over the workspace, and counts each test.
    pub(crate) fn tests(&mut self, environment: &[(&'static str, String)], limit: Duration) {
        self.cargo_test(Step::Test, &[], environment, limit);
    }

    /// Runs only the contract suite, and counts each test.
    pub(crate) fn contract(&mut self, environment: &[(&'static str, String)], limit: Duration) {
        self.cargo_test(Step::Newer, &["--test", "contract"], environment, limit);
    }

    fn cargo_test(&mut self, step: Step, targets: &[&str], environment: &[(&'static str, String)], limit: Duration) {
        // Build the whole workspace, so that dependencies get the same features and aren't built again.
        let mut command = cargo(&["test", "--release", "--workspace", "--no-fail-fast"]);
        command.args(targets);
        if !self.filter.is_empty() {
            command.arg("--").args(&self.filter);
        }
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        // A snapshot that differs must fail, and must not be written to a file.
        command.env("INSTA_UPDATE", "no");
        let mut reader = Libtest::default();
        let ended = counted(step.name(), command, limit, |line| reader.line(line));
        self.judge("cargo test", reader.finish(), ended);
    }

    /// Adds the tests of a step. A step that failed or ran nothing, and that names no failed test, is a failure itself.
    fn judge(&mut self, name: &str, summed: Tally, failure: Option<String>) {
        let (named, ran) = (summed.failures.len(), summed.passed);
        self.tally.passed += summed.passed;
        self.tally.ignored += summed.ignored;
        self.tally.failures.extend(summed.failures);
        self.tally.words.extend(summed.words);
        match failure {
            Some(why) if named == 0 => self.fail(name, &why),
            None if ran == 0 && self.filter.is_empty() => self.fail(name, "ran no test"),
            _ => {}
        }
    }

    /// Runs one check in this process. Gives whether it passed.
    pub(crate) fn check(&mut self, name: &str, check: impl FnOnce() -> Result<()>) -> bool {
        let begun = Instant::now();
        let failure = check().err().map(|error| format!("{error:#}"));
        self.report(name, begun, failure)
    }

    fn cargo_with(&mut self, step: Step, args: &[&str], environment: &[(&str, &str)], limit: Duration) -> bool {
        if !self.wants(step) {
            return true;
        }
        let mut command = cargo(args);
        command.envs(environment.iter().copied());
        let begun = Instant::now();
        let failure = match supervise::run(command, &log(step.name()), limit, |_| {}) {
            Ok(Finished { failure: Some(why), log }) => {
                println!("{}", services::tail(&log, 60));
                Some(format!("{why}; see {}", log.display()))
            }
            Ok(_) => None,
            Err(error) => Some(format!("{error:#}")),
        };
        self.report(step.name(), begun, failure)
    }

    fn report(&mut self, name: &str, begun: Instant, failure: Option<String>) -> bool {
        let passed = failure.is_none();
        println!("== {name}: {} ({:.1} s)", if passed { "ok" } else { "FAILED" }, begun.elapsed().as_secs_f64());
        self.tally.check(name, failure.as_deref());
        passed
    }
}

/// Runs pytest. Gives what it summed up, and why it failed.
fn pytest(name: &str, command: Command, limit: Duration) -> (Tally, Option<String>) {
    let mut reader = Pytest::default();
    let ended = counted(name, command, limit, |line| reader.line(line));
    (reader.finish(), ended)
}

/// Runs test programs. Shows the lines that `on_line` gives. Gives why they failed.
fn counted(
    name: &str,
    command: Command,
    limit: Duration,
    mut on_line: impl FnMut(&str) -> Option<String>,
) -> Option<String> {
    let begun = Instant::now();
    println!("== {name}");
    let finished = supervise::run(command, &log(name), limit, |line| {
        if let Some(line) = on_line(line) {
            println!("   {line}");
        }
    });
    let failure = match finished {
        Ok(Finished { failure, log }) => failure.map(|why| format!("{why}; see {}", log.display())),
        Err(error) => Some(format!("{error:#}")),
    };
    println!("== {name} took {:.1} s", begun.elapsed().as_secs_f64());
    if failure.is_some() {
        println!("{}", services::tail(&log(name), 60));
    }
    failure
}

/// A cargo command in the workspace's root, without the caller's `THERMAE_` variables.
fn cargo(args: &[&str]) -> Command {
    let mut command = crate::cargo::command(args);
    command.env("CARGO_TERM_COLOR", "never");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("THERMAE_") {
            command.env_remove(name);
        }
    }
    command
}

/// The log file of a step.
pub(crate) fn log(name: &str) -> PathBuf {
    paths::root().join("target/test-logs").join(format!("{name}.log"))
}
