//! The Python sandbox image, made without an image registry from Debian's Python, wheels of the pinned packages and the
//! static runner. `images/python/Dockerfile` describes the same image for people who have a registry.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use super::{PYTHON, engine::Engine, fingerprint, rootfs};
use crate::{cargo, paths, services::packages};

/// The Debian release whose Python is in the image.
const RELEASE: &str = "bookworm";
/// Part of the cache's key; raise it when the recipe below makes something else.
const RECIPE: &str = "4";
const REQUIREMENTS: &str = "images/python/requirements.txt";
const LABEL: &str = "thermae.made-of";

/// Makes the image unless the engine already has it, made from the present recipe and runner.
pub(crate) fn ensure(engine: &Engine, runner: &Path) -> Result<()> {
    ensure_as(PYTHON, engine, runner)
}

/// As [`ensure`], under another name. Images of several runners share all but the runner.
pub(crate) fn ensure_as(image: &str, engine: &Engine, runner: &Path) -> Result<()> {
    let runner_bytes = fs::read(runner).with_context(|| format!("read {}", runner.display()))?;
    let key = fingerprint(&[base_key()?.as_bytes(), &runner_bytes]);
    if engine.label(image, LABEL).as_deref() == Some(&key) {
        return Ok(());
    }
    let changes = [
        "WORKDIR /workspace".to_owned(),
        "USER 1000:1000".to_owned(),
        "ENTRYPOINT [\"/usr/local/bin/thermae-runner\"]".to_owned(),
        "CMD []".to_owned(),
        "LABEL thermae.python=/usr/bin/python3".to_owned(),
        format!("LABEL {LABEL}={key}"),
    ];
    engine.add_files(&base(engine)?, &[(runner, "/usr/local/bin/thermae-runner")], image, &changes)
}

/// The name of the base image, which has everything but the runner. It is made if the engine lacks it.
pub(crate) fn base(engine: &Engine) -> Result<String> {
    let key = base_key()?;
    let base = format!("thermae/python-base:{key}");
    if engine.label(&base, LABEL).as_deref() != Some(&key) {
        let path = "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8";
        engine.import(&base_tar(&key)?, &base, &[path.to_owned(), format!("LABEL {LABEL}={key}")])?;
    }
    Ok(base)
}

fn base_key() -> Result<String> {
    let requirements = fs::read(paths::root().join(REQUIREMENTS)).context("read the list of packages")?;
    Ok(fingerprint(&[RELEASE.as_bytes(), RECIPE.as_bytes(), &requirements]))
}

/// Builds the static runner of this checkout, which works in any image.
pub(crate) fn build_runner() -> Result<PathBuf> {
    build_runner_in(&paths::root())
}

/// Builds the static runner of the checkout at `root`.
pub(crate) fn build_runner_in(root: &Path) -> Result<PathBuf> {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let status = cargo::command(&[])
        .args(["build", "--release", "--package", "thermae-runner", "--bin", "thermae-runner", "--target", &target])
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        .current_dir(root)
        .status()
        .context("start cargo")?;
    if !status.success() {
        bail!("the static runner could not be built");
    }
    Ok(paths::target_in(root).join(target).join("release/thermae-runner"))
}

/// The packed root file system. It is made unless the cache has it.
fn base_tar(key: &str) -> Result<PathBuf> {
    let folder = paths::images();
    let tar = folder.join(format!("python-{key}.tar"));
    if tar.is_file() {
        return Ok(tar);
    }
    fs::create_dir_all(&folder)?;
    eprintln!("making the Python image's root file system");
    let root = folder.join(format!("python-{key}.root"));
    rootfs::debian(RELEASE, &["python3", "python-is-python3"], &root)?;
    let version = rootfs::chroot(&root, &["python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"])?;
    let site = format!("usr/local/lib/python{version}/dist-packages");
    install_wheels(&version, &root.join(&site))?;
    remove_tests(&root.join(&site))?;
    // Compile now: the containers' root is read-only, so Python can't do it there.
    rootfs::chroot(
        &root,
        &["python3", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", &format!("/{site}")],
    )?;
    rootfs::append(&root, "etc/passwd", "sandbox:x:1000:1000:sandbox:/workspace:/usr/sbin/nologin\n")?;
    rootfs::append(&root, "etc/group", "sandbox:x:1000:\n")?;
    for name in ["workspace", "session"] {
        let dir = root.join(name);
        fs::create_dir_all(&dir)?;
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755))?;
        std::os::unix::fs::chown(&dir, Some(1000), Some(1000))?;
    }
    // The mount point of a pool's datasets, and another name for the workspace.
    fs::create_dir_all(root.join("data"))?;
    std::os::unix::fs::symlink("workspace", root.join("work"))?;
    rootfs::pack(&root, &tar)?;
    Ok(tar)
}

/// Installs the pinned wheels for the image's Python, which may have another version than the machine's.
fn install_wheels(version: &str, site: &Path) -> Result<()> {
    fs::create_dir_all(site)?;
    let (python, arch) = (packages::python_with("pip", "python3-pip")?, std::env::consts::ARCH);
    let mut command = Command::new(python);
    command.args(["-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--only-binary=:all:"]).args([
        "--disable-pip-version-check",
        "--root-user-action",
        "ignore",
        "--python-version",
        version,
    ]);
    for glibc in ["manylinux2014", "manylinux_2_17", "manylinux_2_24", "manylinux_2_27", "manylinux_2_28"] {
        command.args(["--platform", &format!("{glibc}_{arch}")]);
    }
    command.arg("--target").arg(site).arg("--requirement").arg(paths::root().join(REQUIREMENTS));
    let output = command.output().context("start pip")?;
    if !output.status.success() {
        bail!("pip: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// Removes the packages' own tests, which are half of their size.
fn remove_tests(dir: &Path) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            continue;
        }
        if entry.file_name() == "tests" {
            fs::remove_dir_all(entry.path())?;
        } else {
            remove_tests(&entry.path())?;
        }
    }
    Ok(())
}
