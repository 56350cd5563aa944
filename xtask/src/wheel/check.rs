//! What must hold for the wheels.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{Wheels, megabytes, tags};
use crate::{
    paths,
    venv::{Venv, succeed},
};

/// The most that the wheel with the program may have, in megabytes.
const MOST: f64 = 30.0;

/// How many times a program is timed.
const STARTS: usize = 7;

/// A job, and what it prints.
const JOB: (&str, &str) = ("print(sum(range(101)))", "5050\n");

/// Runs the job that is its argument, as a user of the package would.
const USER: &str = "
import sys, thermae
try:
    with thermae.Sandbox() as sandbox:
        print(sandbox.run(sys.argv[1]).stdout, end='')
except thermae.EmbeddedUnavailable as error:
    print(type(error).__name__)
";

/// One check of both wheels.
type Check = fn(&Wheels) -> Result<()>;

/// All checks, with their names.
pub(crate) const CHECKS: [(&str, Check); 6] = [
    ("wheels: size", size),
    ("wheels: metadata and README", metadata),
    ("wheels: platform tag", platform),
    ("wheels: the one with the program", with_program),
    ("wheels: the first answer", first_answer),
    ("wheels: the one without", without_program),
];

fn size(wheels: &Wheels) -> Result<()> {
    let size = megabytes(&wheels.program)?;
    ensure!(size < MOST, "{} has {size:.1} MB, and may have {MOST}", wheels.program.display());
    Ok(())
}

fn metadata(wheels: &Wheels) -> Result<()> {
    let files = [&wheels.program, &wheels.pure].map(|file| file.display().to_string());
    wheels.tools.run("twine", &["--no-color", "check", "--strict", &files[0], &files[1]]).map(drop)
}

/// Compares the wheel's tag with the one that auditwheel finds.
fn platform(wheels: &Wheels) -> Result<()> {
    let shown = wheels.tools.run("auditwheel", &["show", "--json", &wheels.program.display().to_string()])?;
    let shown: Value = serde_json::from_str(&shown).context("read what auditwheel shows")?;
    let found = shown["overall_tag"].as_str().context("auditwheel shows no tag")?;
    let tags = tags(&wheels.program)?;
    let claimed = tags.strip_prefix("py3-none-").with_context(|| format!("{tags} should be for any Python 3"))?;
    ensure!(
        fits(claimed, found),
        "the wheel claims {claimed}, and auditwheel finds {found}: `auditwheel show` says why"
    );
    Ok(())
}

/// Whether a wheel that works on the platform `found` works on the platform `claimed`. A claim without a glibc is for
/// the machine that made the wheel.
fn fits(claimed: &str, found: &str) -> bool {
    match (glibc(claimed), glibc(found)) {
        (Some((claimed, on)), Some((found, with))) => found <= claimed && on == with,
        (None, Some((_, with))) => claimed == format!("linux_{with}"),
        (_, None) => false,
    }
}

/// The version of glibc and the architecture in a tag.
fn glibc(tag: &str) -> Option<((u32, u32), &str)> {
    let mut parts = tag.strip_prefix("manylinux_")?.splitn(3, '_');
    let version = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    Some((version, parts.next()?))
}

/// Installs the wheel, and runs the job on the embedded fleet, with the package and without.
fn with_program(wheels: &Wheels) -> Result<()> {
    let venv = installed(wheels, &wheels.program)?;
    let version = venv.run("thermae", &["--version"])?;
    ensure!(version == concat!("thermae ", env!("CARGO_PKG_VERSION"), "\n"), "thermae --version: {version}");
    let file = venv.programs().join("job.py");
    fs::write(&file, JOB.0)?;
    let printed = venv.run("thermae", &["run", &file.display().to_string()])?;
    ensure!(printed == JOB.1, "thermae run printed {printed:?} instead of {:?}", JOB.1);
    let printed = used(&venv)?;
    ensure!(printed == JOB.1, "the package's Sandbox printed {printed:?} instead of {:?}", JOB.1);
    Ok(())
}

/// Installs the wheel, and runs the README's first program in Python. Prints how long it takes from the start of its
/// process to its answer. Only the answer is judged.
fn first_answer(wheels: &Wheels) -> Result<()> {
    let venv = installed(wheels, &wheels.program)?;
    let readme = fs::read_to_string(paths::root().join("README.md"))?;
    let block = readme.split_once("```python\n").and_then(|(_, rest)| rest.split_once("```"));
    let file = venv.programs().join("first.py");
    fs::write(&file, block.context("README.md has no program in Python")?.0)?;
    let times = |arguments: &[&str]| -> Result<Vec<Duration>> {
        let mut times = (0..STARTS).map(|_| answered(&venv, arguments)).collect::<Result<Vec<_>>>()?;
        times.sort_unstable();
        Ok(times)
    };
    let first = times(&[&file.display().to_string()])?;
    let usual = times(&["-c", "import asyncio, subprocess; print(200)"])?[0];
    let (best, median, worst) = (first[0], first[STARTS / 2], first[STARTS - 1]);
    println!("   README's first program: best {best:.0?}, median {median:.0?}, worst {worst:.0?}");
    println!("   a program that only imports asyncio: {usual:.0?}");
    Ok(())
}

/// The time from the start of a program to its answer, 200.
fn answered(venv: &Venv, arguments: &[&str]) -> Result<Duration> {
    let mut command = venv.command("python");
    command.env("HOME", venv.programs()).arg("-I").args(arguments).stdout(Stdio::piped());
    let begun = Instant::now();
    let mut process = command.spawn().context("start Python")?;
    let mut line = String::new();
    if let Some(output) = process.stdout.take() {
        BufReader::new(output).read_line(&mut line)?;
    }
    let took = begun.elapsed();
    let status = process.wait()?;
    ensure!(status.success() && line == "200\n", "a program: {status}, it printed {line:?}");
    Ok(took)
}

/// Installs the wheel, which must say that it has no embedded fleet.
fn without_program(wheels: &Wheels) -> Result<()> {
    let venv = installed(wheels, &wheels.pure)?;
    ensure!(!venv.programs().join("thermae").exists(), "it has a program `thermae`");
    let printed = used(&venv)?;
    ensure!(printed == "EmbeddedUnavailable\n", "it should raise EmbeddedUnavailable, and printed {printed:?}");
    Ok(())
}

/// What the user's program prints. It can't find a `thermae` of the system or of the caller.
fn used(venv: &Venv) -> Result<String> {
    let mut command = venv.command("python");
    succeed(command.env("PATH", venv.programs()).env("HOME", venv.programs()).args(["-I", "-c", USER, JOB.0]))
}

/// A new environment with the wheel. Its dependencies are downloaded before; the installation needs no network.
fn installed(wheels: &Wheels, wheel: &Path) -> Result<Venv> {
    let venv = Venv::empty(paths::packaging().join("installed"))?;
    let [wheel, python, dependencies] =
        [wheel, &venv.programs().join("python"), &paths::packaging().join("dependencies")]
            .map(|path| path.display().to_string());
    let pip = |args: &[&str]| wheels.tools.run("pip", &[&["--disable-pip-version-check", "--quiet"], args].concat());
    pip(&["download", "--dest", &dependencies, &wheel])?;
    pip(&["--python", &python, "install", "--no-index", "--find-links", &dependencies, &wheel])?;
    Ok(venv)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wheel_may_need_less_than_it_claims_and_never_more() {
        let claimed = "manylinux_2_28_x86_64";
        for found in ["manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux_2_5_x86_64"] {
            assert!(fits(claimed, found), "{found}");
        }
        for found in ["manylinux_2_34_x86_64", "manylinux_3_1_x86_64", "manylinux_2_28_aarch64", "linux_x86_64", ""] {
            assert!(!fits(claimed, found), "{found}");
        }
        assert!(fits("linux_x86_64", "manylinux_2_34_x86_64"));
        assert!(!fits("linux_x86_64", "linux_x86_64"));
        assert!(!fits("linux_x86_64", "manylinux_2_34_aarch64"));
        assert!(!fits("any", "manylinux_2_28_x86_64"));
    }
}
