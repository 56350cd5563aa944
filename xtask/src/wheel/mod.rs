//! `cargo xtask wheel`: makes the wheels of the Python package in `sdk/python`, and checks them.
//!
//! There are two. One has the program `thermae`, and is for Linux. The other one is the package alone, for other
//! systems. Hatchling makes both from the same files; `sdk/python/hatch_build.py` adds the program.

mod check;
mod notices;
mod program;

use std::{
    env::consts::ARCH,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result, ensure};

pub(crate) use self::check::CHECKS;
use crate::{
    paths, supervise,
    venv::{Venv, succeed},
};

/// The tools that make and check wheels.
const TOOLS: [&str; 3] = ["hatchling==1.33.0", "auditwheel==6.8.2", "twine==7.0.0"];

/// What to do.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Make nothing. Only check the wheels in `target/wheels`, which may come from another machine.
    #[arg(long)]
    check: bool,
}

/// Makes the wheels in `target/wheels`, checks them, and says what they are.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    supervise::begin()?;
    let dir = paths::root().join("target/wheels");
    let wheels = if options.check {
        Wheels::find(&dir)?
    } else {
        Wheels::make(&dir, &program::build()?, &format!("manylinux_{}_{ARCH}", program::GLIBC.replace('.', "_")))?
    };
    for (name, check) in CHECKS {
        check(&wheels).with_context(|| format!("{name}: FAILED"))?;
        println!("== {name}: ok");
    }
    for wheel in [&wheels.program, &wheels.pure] {
        println!("{} ({:.2} MB, {})", wheel.display(), megabytes(wheel)?, tags(wheel)?);
    }
    Ok(ExitCode::SUCCESS)
}

/// The two wheels of one version.
#[derive(Debug)]
pub(crate) struct Wheels {
    /// The wheel with the program `thermae`.
    program: PathBuf,
    /// The wheel without it.
    pure: PathBuf,
    tools: Venv,
}

impl Wheels {
    /// Makes both wheels with the release build of the program as it is, which may need this machine's glibc.
    pub(crate) fn of_release() -> Result<Self> {
        let dir = paths::packaging().join("test");
        Self::make(&dir, &paths::release().join("thermae"), &format!("linux_{ARCH}"))
    }

    /// Makes both wheels in `dir`, and removes what was there. `platform` is the tag of the one with the program.
    fn make(dir: &Path, program: &Path, platform: &str) -> Result<Self> {
        ensure!(program.is_file(), "{} is missing: build it first", program.display());
        if dir.exists() {
            fs::remove_dir_all(dir).with_context(|| format!("remove {}", dir.display()))?;
        }
        let tools = tools()?;
        let notices = paths::packaging().join("THIRD-PARTY.txt");
        notices::write(&notices)?;
        eprintln!("making the wheels in {}", dir.display());
        for program in [Some(program), None] {
            let mut command = tools.command("hatchling");
            command.args(["build", "--target", "wheel", "--directory"]).arg(dir);
            command.current_dir(paths::root().join("sdk/python"));
            if let Some(program) = program {
                command.env("THERMAE_WHEEL_PROGRAM", program).env("THERMAE_WHEEL_NOTICES", &notices);
                command.env("THERMAE_WHEEL_PLATFORM", platform);
            }
            succeed(&mut command)?;
        }
        Self::find(dir)
    }

    /// The wheels in `dir`. It is an error if there are others, or if they aren't of this checkout's version.
    fn find(dir: &Path) -> Result<Self> {
        let names = fs::read_dir(dir).with_context(|| format!("{} has no wheels", dir.display()))?;
        let mut files = names.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
        files.sort();
        let [pure, program] = &files[..] else {
            anyhow::bail!("{} has {} files, and must have two wheels", dir.display(), files.len());
        };
        ensure!(tags(pure)? == "py3-none-any", "{} should be tagged py3-none-any", pure.display());
        ensure!(tags(program)?.contains("linux_"), "{} should be a wheel for Linux", program.display());
        Ok(Self { program: program.clone(), pure: pure.clone(), tools: tools()? })
    }
}

/// Makes the wheel without the program, and installs it in a folder, which it gives. What it depends on is not there.
pub(crate) fn pure_for_tests() -> Result<PathBuf> {
    let dir = paths::packaging().join("pure");
    if dir.exists() {
        fs::remove_dir_all(&dir).with_context(|| format!("remove {}", dir.display()))?;
    }
    let tools = tools()?;
    let mut command = tools.command("hatchling");
    command.args(["build", "--target", "wheel", "--directory"]).arg(&dir);
    succeed(command.current_dir(paths::root().join("sdk/python")))?;
    let wheel = dir.join(concat!("thermae-", env!("CARGO_PKG_VERSION"), "-py3-none-any.whl")).display().to_string();
    let installed = dir.join("installed");
    let target = installed.display().to_string();
    tools
        .run("pip", &["--disable-pip-version-check", "--quiet", "install", "--no-deps", "--target", &target, &wheel])?;
    Ok(installed)
}

fn tools() -> Result<Venv> {
    Venv::with(paths::packaging().join("tools"), &TOOLS)
}

/// The tags in a wheel's name. It is an error if it isn't a wheel of this checkout's version.
fn tags(wheel: &Path) -> Result<String> {
    let start = concat!("thermae-", env!("CARGO_PKG_VERSION"), "-");
    let name = wheel.file_name().unwrap_or_default().to_string_lossy();
    let tags = name.strip_prefix(start).and_then(|rest| rest.strip_suffix(".whl"));
    Ok(tags.with_context(|| format!("{name} should be {start}….whl"))?.to_owned())
}

fn megabytes(file: &Path) -> Result<f64> {
    let size = fs::metadata(file).with_context(|| format!("read {}", file.display()))?.len();
    Ok(size as f64 / 1e6)
}
