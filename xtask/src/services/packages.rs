//! Packages of the distribution that servers and tools come from. Missing ones are installed if that is possible.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
};

use anyhow::{Context, Result, bail};

use super::Service;
use crate::paths;

/// The server program of a service. Its package is installed if it is missing.
pub(crate) fn program(service: Service) -> Result<PathBuf> {
    match service {
        // The wrapper in /usr/sbin changes the user and reads the system's settings. This script doesn't.
        Service::Rabbitmq => {
            let script = Path::new("/usr/lib/rabbitmq/bin/rabbitmq-server");
            if !script.is_file() && paths::find_program("rabbitmq-server").is_none() {
                install(&["rabbitmq-server"])?;
            }
            if script.is_file() { Ok(script.to_path_buf()) } else { ensure("rabbitmq-server", "rabbitmq-server") }
        }
        Service::Redis => ensure("redis-server", "redis-server"),
        Service::Docker => {
            ensure("containerd", "containerd")?;
            ensure("docker", "docker.io")?;
            ensure("dockerd", "docker.io")
        }
        Service::Postgres => match postgres() {
            Some(found) => Ok(found),
            None => {
                install(&["postgresql"])?;
                postgres().context("package postgresql was installed but has no `postgres`")
            }
        },
    }
}

/// Postgres's server. Debian doesn't put it where programs are looked for.
fn postgres() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let found = versions.map(|version| version.path().join("bin/postgres")).filter(|program| program.is_file()).max();
    found.or_else(|| paths::find_program("postgres"))
}

/// Finds a program. Installs `package` if the program is missing.
pub(crate) fn ensure(program: &str, package: &str) -> Result<PathBuf> {
    if let Some(found) = paths::find_program(program) {
        return Ok(found);
    }
    install(&[package])?;
    paths::find_program(program).with_context(|| format!("package {package} was installed but has no `{program}`"))
}

/// Installs packages with apt. Their services don't start: tests start their own.
pub(crate) fn install(packages: &[&str]) -> Result<()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let names = packages.join(" ");
    if !rustix::process::geteuid().is_root() {
        bail!("missing: {names}. Install it (`sudo apt-get install {names}`), or run this as root");
    }
    if paths::find_program("apt-get").is_none() {
        bail!("missing: {names}, and this machine has no apt-get. Install it with the system's own package manager");
    }
    eprintln!("installing {names}");
    let _policy = NoServiceStart::set()?;
    let apt = |args: &[&str]| -> Result<bool> {
        let output = Command::new("apt-get")
            .args(["-o", "DPkg::Lock::Timeout=300", "-q", "-y"])
            .args(args)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .output()
            .context("start apt-get")?;
        if !output.status.success() {
            eprintln!("apt-get {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(output.status.success())
    };
    let mut args = vec!["install", "--no-install-recommends"];
    args.extend(packages);
    if apt(&args)? || (apt(&["update"])? && apt(&args)?) {
        return Ok(());
    }
    bail!("could not install {names} with apt-get (see above)")
}

/// A Python of this machine that has a module which distributions leave out. `package` is installed if none has it.
pub(crate) fn python_with(module: &str, package: &str) -> Result<PathBuf> {
    let has_module = |python: &Path| {
        let program = format!("import {module}");
        Command::new(python).args(["-c", &program]).output().is_ok_and(|output| output.status.success())
    };
    let usual = Path::new("/usr/bin/python3");
    let candidates = [paths::find_program("python3"), Some(usual.to_path_buf())];
    if let Some(python) = candidates.into_iter().flatten().find(|python| has_module(python)) {
        return Ok(python);
    }
    install(&[package])?;
    if has_module(usual) {
        Ok(usual.to_path_buf())
    } else {
        bail!("no python3 of this machine has the module {module}")
    }
}

/// Until it is dropped, packages don't start their services on installation (Debian's `policy-rc.d`).
struct NoServiceStart {
    made: bool,
}

const POLICY: &str = "/usr/sbin/policy-rc.d";

impl NoServiceStart {
    fn set() -> Result<Self> {
        if Path::new(POLICY).exists() {
            return Ok(Self { made: false });
        }
        fs::write(POLICY, "#!/bin/sh\nexit 101\n").with_context(|| format!("write {POLICY}"))?;
        fs::set_permissions(POLICY, fs::Permissions::from_mode(0o755))?;
        Ok(Self { made: true })
    }
}

impl Drop for NoServiceStart {
    fn drop(&mut self) {
        if self.made {
            let _ = fs::remove_file(POLICY);
        }
    }
}
