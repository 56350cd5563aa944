//! `thermae doctor`: what this machine allows, found out by trying, and what to do about the rest.

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

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// As it should be.
    Ok,
    /// Something is missing that not everyone needs.
    Warn,
    /// Programs can't run.
    Fail,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    /// What was looked at.
    pub(crate) name: &'static str,
    /// How it ended.
    pub(crate) state: State,
    /// What was found.
    pub(crate) found: String,
    /// What that means; empty where all is well.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) means: &'static str,
    /// What to do about it; empty where there is nothing to do.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) fix: String,
    /// What `--fix` does about it.
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

    /// With what `--fix` does about it.
    fn remedied_by(self, remedy: Option<Remedy>) -> Self {
        Self { remedy, ..self }
    }
}

/// Runs the command.
///
/// # Errors
/// `--fix` without root, or a change that could not be made. What else is wrong is a check.
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

/// Does what `--fix` can do, and says so on standard error; `false`: there was nothing to do.
fn mend(checks: &[Check]) -> Result<bool, Failure> {
    let remedies: Vec<Remedy> = checks.iter().filter_map(|check| check.remedy).collect();
    if remedies.is_empty() {
        style::eprint("nothing found that --fix can mend\n\n");
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
        style::eprint(&format!("     it holds until the next boot; to keep it, {}\n", remedy.keep()));
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
            let head = if n == 0 { paint(HELP, "do:") } else { "   ".to_owned() };
            text.push_str(&format!("{indent}{head} {line}\n"));
        }
    }
    let count = |state| checks.iter().filter(|check| check.state == state).count();
    let (warnings, failures) = (count(State::Warn), count(State::Fail));
    let verdict = match (failures, warnings) {
        (0, 0) => paint(GOOD, "programs run here"),
        (0, n) => format!("{}, with {n} warning{}", paint(GOOD, "programs run here"), if n == 1 { "" } else { "s" }),
        _ => paint(ERROR, "programs can't run here: see what is marked fail"),
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
                      do: apt install docker.io
                          or another

        programs run here, with 1 warning
        ");
        let failed = Check::fail("python", "none", "Nothing can run.", "install it");
        assert!(render(&[failed]).contains("can't run here"));
    }
}
