//! The checks of the Python package in `sdk/python`: its form, its types and its tests, with tools of fixed versions.
//! The tests of its documentation and its examples are among them.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;

use super::interpreters;
use crate::{paths, venv::Venv};

/// What the package's tests need, other than those of its documentation.
const FOR_TESTS: [&str; 7] = [
    "pydantic==2.14.4",
    "websockets==17.4",
    "pydantic-ai-slim==2.68.0",
    "pytest==9.2.0",
    "pytest-timeout==2.4.0",
    "jsonschema==4.26.0",
    "gunicorn==27.0.1",
];

/// What the package needs, and what checks it.
const PACKAGES: [&str; 16] = [
    "pydantic==2.14.4",
    "websockets==17.4",
    "pydantic-ai-slim==2.68.0",
    "pytest==9.2.0",
    "pytest-timeout==2.4.0",
    "jsonschema==4.26.0",
    "mypy==2.4.1",
    "basedpyright==1.40.2",
    "ruff==0.17.6",
    "mkdocs==1.6.1",
    "mkdocs-material==9.8.2",
    "mkdocstrings-python==2.0.11",
    "nbclient==0.11.0",
    "ipykernel==7.4.0",
    "openapi-spec-validator==0.9.0",
    "gunicorn==27.0.1",
];

/// The settings of ruff, for files outside of the package, too.
const SETTINGS: &str = "--config=pyproject.toml";

/// The hooks of the site of the documentation.
const HOOKS: &str = "../../docs/hooks";

/// The examples in Python.
const EXAMPLES: &str = "../../examples/python";

/// The package's checks other than its tests: the name of each, its program and its arguments.
pub(super) const CHECKS: [(&str, &str, &[&str]); 6] = [
    ("python-format", "ruff", &["format", "--check", "--quiet", SETTINGS, ".", HOOKS, EXAMPLES]),
    ("python-lint", "ruff", &["check", "--quiet", SETTINGS, ".", HOOKS, EXAMPLES]),
    ("python-mypy", "mypy", &["--no-error-summary"]),
    ("python-pyright", "basedpyright", &[]),
    ("python-pyright-macos", "basedpyright", &["--pythonplatform", "Darwin"]),
    ("python-pyright-windows", "basedpyright", &["--pythonplatform", "Windows"]),
];

/// The package's source, and the tools that check it.
#[derive(Debug)]
pub(super) struct Package {
    tools: Venv,
}

impl Package {
    /// Installs the tools below `target`, unless they are there.
    pub(super) fn ready() -> Result<Self> {
        Ok(Self { tools: Venv::with(paths::target().join("python-tools"), &PACKAGES)? })
    }

    /// The command of one of the [`CHECKS`].
    pub(super) fn check(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Self::command_of(&self.tools, program);
        command.args(args);
        command
    }

    /// The command that runs the tests, those with the release build of `thermae` among them. With the variables that
    /// name a fleet, those that need a fleet; without any, all others. With a filter, only those whose names have one
    /// of its words.
    pub(super) fn tests(&self, fleet: &[(&'static str, String)], filter: &[String]) -> Command {
        let mut command = Self::pytest(&self.tools, filter);
        command.args(["-m", if fleet.is_empty() { "not fleet" } else { "fleet" }, "tests"]);
        command.envs(fleet.iter().map(|(name, value)| (name, value)));
        command
    }

    /// The command that runs the tests of the pure wheel, which is installed in a folder, through a gateway: the one
    /// that the variables name, or else one in front of an embedded fleet. It tells which tests are left out, and why.
    pub(super) fn tests_over_http(&self, wheel: &Path, fleet: &[(&'static str, String)], filter: &[String]) -> Command {
        let mut command = Self::pytest(&self.tools, filter);
        command.args(["-o", "pythonpath=tests scripts", "tests/e2e"]).env("PYTHONPATH", wheel);
        if fleet.is_empty() {
            // They need no fleet: once is enough.
            command.arg("tests/unit");
        }
        command.env("THERMAE_TEST_OVER", "http").envs(fleet.iter().map(|(name, value)| (name, value)));
        command
    }

    /// The versions of Python that the package is for, other than the one of the tools, each with its interpreter if
    /// this machine has it.
    pub(super) fn others(&self) -> impl Iterator<Item = (u32, Option<PathBuf>)> {
        let own = interpreters::minor(&self.tools.programs().join("python"));
        let others = interpreters::VERSIONS.filter(move |minor| Some(*minor) != own);
        others.map(|minor| (minor, interpreters::find(minor)))
    }

    /// The command that runs the tests with another interpreter, other than those of the documentation and those that
    /// need a fleet.
    pub(super) fn tests_with(minor: u32, python: &Path, filter: &[String]) -> Result<Command> {
        let tools = Venv::of(paths::target().join(format!("python-3.{minor}")), Some(python), &FOR_TESTS)?;
        let mut command = Self::pytest(&tools, filter);
        command.args(["-m", "not fleet", "tests/unit", "tests/e2e"]);
        Ok(command)
    }

    fn pytest(tools: &Venv, filter: &[String]) -> Command {
        let mut command = Self::command_of(tools, "python");
        command.args(["-m", "pytest", "-p", "no:cacheprovider", "--tb=short", "-k", &filter.join(" or ")]);
        command.env("THERMAE_BIN", paths::release().join("thermae"));
        command
    }

    fn command_of(tools: &Venv, program: &str) -> Command {
        let mut command = tools.command(program);
        command.current_dir(paths::root().join("sdk/python"));
        // Nothing is written beside the source.
        command.env("PYTHONDONTWRITEBYTECODE", "1").env("RUFF_NO_CACHE", "true");
        command.env("MYPY_CACHE_DIR", paths::target().join("mypy-cache"));
        command
    }
}
