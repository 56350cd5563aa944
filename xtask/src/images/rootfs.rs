//! Root file systems of Debian, made with mmdebstrap from the package mirror that the machine itself uses.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result, bail};

use crate::services::packages;

/// What no container needs.
const LEFT_OUT: [&str; 4] = ["/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/info/*"];

/// The address of the machine's own Debian mirror, as apt knows it.
pub(crate) fn mirror() -> Result<String> {
    let codename = os_release("VERSION_CODENAME").unwrap_or_default();
    let targets = Command::new("apt-get")
        .args(["indextargets", "--format", "$(RELEASE) $(COMPONENT) $(REPO_URI)"])
        .output()
        .context("ask apt for its sources")?;
    let text = String::from_utf8_lossy(&targets.stdout).into_owned();
    let wanted = format!("{codename} main ");
    match text.lines().find_map(|line| line.strip_prefix(&wanted)) {
        Some(uri) if os_release("ID").as_deref() == Some("debian") => Ok(uri.to_owned()),
        _ => bail!("images without a registry are made on Debian only; elsewhere use images/python/Dockerfile"),
    }
}

/// Makes the root file system of a Debian release with some packages in a new folder.
pub(crate) fn debian(release: &str, include: &[&str], into: &Path) -> Result<()> {
    let mmdebstrap = packages::ensure("mmdebstrap", "mmdebstrap")?;
    if Path::new(into).exists() {
        fs::remove_dir_all(into).with_context(|| format!("remove {}", into.display()))?;
    }
    let mirror = mirror()?;
    let mut command = Command::new(mmdebstrap);
    command.args(["--mode=root", "--variant=minbase", "--quiet"]);
    command.args(LEFT_OUT.map(|path| format!("--dpkgopt=path-exclude={path}")));
    command.args(["--aptopt=APT::Install-Recommends \"false\"", "--aptopt=Acquire::Languages \"none\""]);
    if !include.is_empty() {
        command.arg(format!("--include={}", include.join(",")));
    }
    let output = command.arg(release).arg(into).arg(&mirror).output().context("start mmdebstrap")?;
    if !output.status.success() {
        bail!("mmdebstrap {release}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// Runs a program inside a root file system.
pub(crate) fn chroot(root: &Path, args: &[&str]) -> Result<String> {
    let output = Command::new("chroot")
        .arg(root)
        .args(args)
        .env_clear()
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .env("LANG", "C.UTF-8")
        .output()
        .context("start chroot")?;
    if !output.status.success() {
        bail!("in {}: {}: {}", root.display(), args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Packs a root file system, and removes it.
pub(crate) fn pack(root: &Path, tar: &Path) -> Result<()> {
    let next = tar.with_extension("tar.next");
    let packed = Command::new("tar")
        .args(["--numeric-owner", "--one-file-system", "-C"])
        .arg(root)
        .arg("-cf")
        .arg(&next)
        .arg(".")
        .output()
        .context("start tar")?;
    if !packed.status.success() {
        bail!("tar: {}", String::from_utf8_lossy(&packed.stderr).trim());
    }
    fs::rename(&next, tar).with_context(|| format!("write {}", tar.display()))?;
    fs::remove_dir_all(root).with_context(|| format!("remove {}", root.display()))
}

/// Appends lines to a file of a root file system.
pub(crate) fn append(root: &Path, file: &str, text: &str) -> Result<()> {
    let path = root.join(file);
    let old = fs::read_to_string(&path).unwrap_or_default();
    fs::write(&path, old + text).with_context(|| format!("write {}", path.display()))
}

fn os_release(key: &str) -> Option<String> {
    let text = fs::read_to_string("/etc/os-release").ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
    Some(value.trim_matches('"').to_owned())
}
