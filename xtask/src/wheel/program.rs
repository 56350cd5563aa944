//! Builds the program `thermae` so that it runs on most of today's Linux systems.

use std::{
    env::consts::ARCH,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail};

use crate::{cargo, paths, supervise, test, venv::Venv};

/// The oldest glibc that the program works with: that of Debian 10 and RHEL 8.
pub(super) const GLIBC: &str = "2.28";

/// Zig links against any glibc, and compiles the little C there is.
const COMPILER: [&str; 2] = ["cargo-zigbuild==0.24.1", "ziglang==0.17.1"];

/// Longer than a build from nothing takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(7200);

/// Builds the program with the release profile, without symbols.
pub(super) fn build() -> Result<PathBuf> {
    let compiler = Venv::with(paths::packaging().join("compiler"), &COMPILER)?;
    let triple = format!("{ARCH}-unknown-linux-gnu");
    // A folder of its own: Cargo takes the files of another linker for its own.
    let dir = paths::packaging().join("build");
    let fetched = cargo::command(&["fetch", "--locked", "--target", &triple]).status().context("start cargo")?;
    if !fetched.success() {
        bail!("the sources of the dependencies could not be fetched");
    }
    let mut command = compiler.command("cargo-zigbuild");
    cargo::forget_run(&mut command);
    command
        .args(["zigbuild", "--locked", "--release", "--package", "thermae", "--bin", "thermae"])
        .args(["--target", &format!("{triple}.{GLIBC}")])
        .arg("--target-dir")
        .arg(&dir)
        .current_dir(paths::root())
        .env("PATH", path_with(&compiler.programs())?)
        .env("CARGO_TERM_COLOR", "never")
        .env("CARGO_ENCODED_RUSTFLAGS", remaps()?.join("\x1f"))
        .env("CARGO_PROFILE_RELEASE_STRIP", "symbols")
        .env("CARGO_ZIGBUILD_CACHE_DIR", paths::packaging().join("cache"))
        .env("ZIG_GLOBAL_CACHE_DIR", paths::packaging().join("cache"));
    println!("== building thermae for glibc {GLIBC}");
    let finished = supervise::run(command, &test::log("wheel"), LIMIT, |line| println!("   {}", line.trim()))?;
    match finished.failure {
        None => Ok(dir.join(triple).join("release/thermae")),
        Some(why) => bail!("thermae could not be built: {why}; see {}", finished.log.display()),
    }
}

/// Rust's own folder stays in `PATH`.
fn path_with(first: &Path) -> Result<std::ffi::OsString> {
    let others = std::env::var_os("PATH").unwrap_or_default();
    Ok(std::env::join_paths(std::iter::once(first.to_path_buf()).chain(std::env::split_paths(&others)))?)
}

/// Flags that keep this machine's folders out of the program, where panics name source files.
fn remaps() -> Result<Vec<String>> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::home_dir().map(|dir| dir.join(".cargo"))).context("find Cargo's home")?;
    let registries = fs::read_dir(home.join("registry/src")).into_iter().flatten().flatten();
    let crates = registries.map(|folder| (folder.path(), "/crates"));
    let all = std::iter::once((paths::root(), "/thermae")).chain(crates);
    Ok(all.map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display())).collect())
}
