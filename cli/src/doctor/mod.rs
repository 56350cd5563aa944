//! `thermae doctor`: tries out what this machine allows, and says how to fix what it doesn't allow.

mod cgroups;
mod docker;
mod host;
mod namespaces;
mod program;
mod python;
mod remedy;

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::args::DoctorArgs;
use crate::failure::{Exit, Failure};
use crate::style::{self, BOLD, DIM, ERROR, GOOD, HELP, WARNING, paint};
pub(crate) use namespaces::{PROBE, probe};
use remedy::Remedy;

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// Nothing is wrong.
    Ok,
    /// Something is missing, but only some users need it.
    Warn,
    /// Programs can't run.
    Fail,
}

/// One check with its result. `--json` prints it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    /// What was checked.
    pub(crate) name: &'static str,
    /// How it ended.
    pub(crate) state: State,
    /// What was found.
    pub(crate) found: String,
    /// What the finding means; empty if nothing is wrong.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) means: &'static str,
    /// How to fix it; empty if there is nothing to fix.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) fix: String,
    /// What `--fix` does about it; `None` if it does nothing.
    #[serde(skip)]
    pub(crate) remedy: Option<Remedy>,
}

impl Check {
    pub(crate) fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, state: State::Ok, found: found.into(), means: "", fix: String::new(), remedy: None }
    }

    pub(crate) fn warn(
        name: &'static str,
        found: impl Into<String>,
        means: &'static str,
        fix: impl Into<String>,
    ) -> Self {
        Self { name, state: State::Warn, found: found.into(), means, fix: fix.into(), remedy: None }
    }

    pub(crate) fn fail(
        name: &'static str,
        found: impl Into<String>,
        means: &'static str,
        fix: impl Into<String>,
    ) -> Self {
        Self { name, state: State::Fail, found: found.into(), means, fix: fix.into(), remedy: None }
    }

    /// Adds what `--fix` does about the finding.
    fn remedied_by(self, remedy: Option<Remedy>) -> Self {
        Self { remedy, ..self }
    }
}

/// Runs all checks and prints their results. With `--fix`, first makes the changes that fix findings, and checks again.
///
/// # Errors
/// `--fix` needs root to change something, or a change failed. Everything else that is wrong shows as a failed check.
pub(crate) async fn doctor(args: &DoctorArgs, interrupt: &CancellationToken) -> Result<Exit, Failure> {
    let mut checks = look(args, interrupt).await;
    if args.fix && mend(&checks)? {
        checks = look(args, interrupt).await;
    }
    let failed = checks.iter().any(|check| check.state == State::Fail);
    if args.json {
        let body = serde_json::json!({ "ok": !failed, "version": env!("CARGO_PKG_VERSION"), "checks": checks });
        style::print(format!("{body}\n").as_bytes());
    } else {
        style::print_styled(&render(&checks));
    }
    Ok(if failed { Exit::Code } else { Exit::Success })
}

/// Makes the changes that `--fix` can make, and prints them to standard error. Returns `false` if there were none.
fn mend(checks: &[Check]) -> Result<bool, Failure> {
    let remedies: Vec<Remedy> = checks.iter().filter_map(|check| check.remedy).collect();
    if remedies.is_empty() {
        style::eprint("--fix found nothing to change\n\n");
        return Ok(false);
    }
    if !rustix::process::geteuid().is_root() {
        return Err(Failure::usage("usage", "--fix changes settings of the machine, which only root may do")
            .help("sudo thermae doctor --fix"));
    }
    for remedy in remedies {
        style::eprint(&format!("{} {}\n", paint(HELP, "fix:"), remedy.command()));
        remedy.apply().map_err(|why| {
            Failure::usage("fix_failed", format!("`{}` failed: {why}", remedy.command()))
                .help("run the command by hand, or ask whoever runs this machine")
        })?;
        style::eprint(&format!("     this lasts until the next boot; to keep it, {}\n", remedy.keep()));
    }
    style::eprint("\n");
    Ok(true)
}

async fn look(args: &DoctorArgs, interrupt: &CancellationToken) -> Vec<Check> {
    let mut checks = vec![host::kernel(), namespaces::check(), host::apparmor(), host::proc_masks()];
    checks.push(cgroups::check());
    checks.extend([host::memory(), host::processors(), host::open_files()]);
    let python = args.python.clone().filter(|path| !path.as_os_str().is_empty());
    let (socket, of_program) = (args.docker.clone(), python.clone());
    let blocking = tokio::task::spawn_blocking(move || {
        let mut checks = python::checks(python.as_deref());
        checks.push(docker::check(&socket));
        checks
    });
    checks.extend(blocking.await.unwrap_or_default());
    checks.push(program::check(of_program, interrupt).await);
    checks
}

fn render(checks: &[Check]) -> String {
    let width = checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for check in checks {
        let mark = match check.state {
            State::Ok => paint(GOOD, "ok  "),
            State::Warn => paint(WARNING, "warn"),
            State::Fail => paint(ERROR, "fail"),
        };
        let name = format!("{:width$}", check.name);
        text.push_str(&format!("{mark}  {}  {}\n", paint(BOLD, name), check.found));
        let indent = " ".repeat(width + 8);
        if !check.means.is_empty() {
            text.push_str(&format!("{indent}{}\n", paint(DIM, check.means)));
        }
        for (n, line) in check.fix.lines().enumerate() {
            let head = if n == 0 { paint(HELP, "fix:") } else { "    ".to_owned() };
            text.push_str(&format!("{indent}{head} {line}\n"));
        }
    }
    let count = |state| checks.iter().filter(|check| check.state == state).count();
    let (warnings, failures) = (count(State::Warn), count(State::Fail));
    let verdict = match (failures, warnings) {
        (0, 0) => paint(GOOD, "programs can run here"),
        (0, n) => {
            format!("{}, with {n} warning{}", paint(GOOD, "programs can run here"), if n == 1 { "" } else { "s" })
        }
        _ => paint(ERROR, "programs can't run here: see the checks marked fail"),
    };
    text.push_str(&format!("\n{verdict}\n"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_check_says_what_it_means_and_what_to_do() {
        let checks = [
            Check::ok("kernel", "Linux 6.1"),
            Check::warn("docker", "no engine", "Only Docker pools need it.", "apt install docker.io\nor another"),
        ];
        let plain = anstream::adapter::strip_str(&render(&checks)).to_string();
        insta::assert_snapshot!(plain, @r"
        ok    kernel  Linux 6.1
        warn  docker  no engine
                      Only Docker pools need it.
                      fix: apt install docker.io
                           or another

        programs can run here, with 1 warning
        ");
        let failed = Check::fail("python", "none", "Nothing can run.", "install it");
        assert!(render(&[failed]).contains("can't run here"));
    }
}
