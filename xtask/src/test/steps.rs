//! The steps of a test run. Each has a name, a limit, a log, and a line of output that says how it went.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::Result;

use super::{
    Tally,
    libtest::Libtest,
    parts::{self, Part, Reader},
    programs::Program,
    pytest::Pytest,
    python::{self, Package},
};
use crate::{
    deny, paths, services,
    supervise::{self, Finished},
    wheel::{self, Wheels},
};

/// A step that can be asked for by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
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

    /// The checks of the Python package, and its tests with each version of Python.
    pub(crate) fn python(&mut self, limit: Duration) -> Vec<Part> {
        if !self.wants(Step::Python) {
            return Vec::new();
        }
        let Some(package) = self.package() else { return Vec::new() };
        let mut parts = vec![self.pytest(Step::Python, "python", package.tests(&[], &self.filter), limit)];
        parts.extend(self.python_over_http(Step::Python, "python-over-http", &package, &[], limit));
        for (minor, python) in package.others() {
            let (step, name, reader) = (Step::Python, format!("python-3.{minor}"), self.pytest_reader());
            let Some(python) = python else {
                println!("== {name}: this machine has no Python 3.{minor}, so nothing is tested with it");
                continue;
            };
            let filter = self.filter.clone();
            let command = Box::new(move || Package::tests_with(minor, &python, &filter));
            parts.push(Part { step, name, command, limit, reader });
        }
        parts.extend(python::CHECKS.map(|(name, program, arguments)| {
            let command = package.check(program, arguments);
            Part::new(Step::Python, name, command, limit, Reader::Whole)
        }));
        parts
    }

    /// Tries the gateway against its OpenAPI document.
    pub(crate) fn openapi(&self, limit: Duration) -> Option<Part> {
        let mut command = Command::new(paths::this_program().unwrap_or_else(|| paths::release().join("xtask")));
        command.args(["openapi", "--quick"]);
        let part = Part::new(Step::Openapi, "openapi", command, limit, Reader::Whole);
        self.wants(Step::Openapi).then_some(part)
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
            let tests = package.tests(fleet, &self.filter);
            self.run(vec![self.pytest(Step::Compose, "python-on-fleet", tests, limit)]);
            let fleet = [fleet, gateway].concat();
            let over = self.python_over_http(Step::Compose, "python-on-fleet-over-http", &package, &fleet, limit);
            self.run(over.into_iter().collect());
        }
    }

    /// The tests of the pure wheel through a gateway.
    fn python_over_http(
        &mut self,
        step: Step,
        name: &str,
        package: &Package,
        fleet: &[(&'static str, String)],
        limit: Duration,
    ) -> Option<Part> {
        match wheel::pure_for_tests() {
            Ok(wheel) => Some(self.pytest(step, name, package.tests_over_http(&wheel, fleet, &self.filter), limit)),
            Err(error) => {
                self.fail(name, &format!("{error:#}"));
                None
            }
        }
    }

    fn pytest(&self, step: Step, name: &str, command: Command, limit: Duration) -> Part {
        Part::new(step, name, command, limit, self.pytest_reader())
    }

    fn pytest_reader(&self) -> Reader {
        Reader::Pytest { reader: Pytest::default(), some: !self.filter.is_empty() }
    }

    fn package(&mut self) -> Option<Package> {
        let mut ready = None;
        self.check("python: tools", || {
            ready = Some(Package::ready()?);
            Ok(())
        });
        ready
    }

    /// A part for each of these programs.
    pub(crate) fn tests<'a>(
        &self,
        step: Step,
        programs: impl Iterator<Item = &'a Program>,
        environment: &[(&'static str, String)],
        limit: Duration,
    ) -> Vec<Part> {
        let part = |program: &Program| {
            let mut command = program.command(&self.filter);
            for_tests(&mut command, environment);
            let (name, reader) = (format!("{}/{}", step.name(), program.source), Libtest::of(&program.source));
            Part::new(step, &name, command, limit, Reader::Libtest(reader))
        };
        programs.map(part).collect()
    }

    /// The examples in the documentation of the workspace's crates.
    pub(crate) fn doc_tests(&self, environment: &[(&'static str, String)], limit: Duration) -> Part {
        let mut command = cargo(&["test", "--release", "--workspace", "--doc", "--no-fail-fast", "--"]);
        command.args(&self.filter);
        for_tests(&mut command, environment);
        Part::new(Step::Test, "test/doc", command, limit, Reader::Libtest(Libtest::default()))
    }

    /// Runs parts side by side, and counts each of their tests. A step that ran nothing is a failure.
    pub(crate) fn run(&mut self, parts: Vec<Part>) {
        let mut ran: BTreeMap<Step, bool> = parts.iter().map(|part| (part.step, false)).collect();
        for (step, tally) in parts::side_by_side(parts) {
            *ran.entry(step).or_default() |= tally.passed > 0 || !tally.failures.is_empty();
            self.tally.add(tally);
        }
        ran.retain(|_, ran| !*ran && self.filter.is_empty() && !supervise::interrupted());
        ran.into_keys().for_each(|step| self.fail(step.name(), "ran no test"));
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

/// Gives a test program these variables.
fn for_tests(command: &mut Command, environment: &[(&'static str, String)]) {
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    // A snapshot that differs must fail, and must not be written to a file.
    command.env("INSTA_UPDATE", "no");
}

/// A cargo command in the workspace's root, without the caller's `THERMAE_` variables.
pub(super) fn cargo(args: &[&str]) -> Command {
    let mut command = crate::cargo::command(args);
    command.env("CARGO_TERM_COLOR", "never");
    forget_caller(&mut command);
    command
}

/// Removes the caller's `THERMAE_` variables from a command.
pub(super) fn forget_caller(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("THERMAE_") {
            command.env_remove(name);
        }
    }
}

/// The log file of a step.
pub(crate) fn log(name: &str) -> PathBuf {
    paths::root().join("target/test-logs").join(format!("{name}.log"))
}
