//! Root file systems of Debian releases, made with mmdebstrap from the package mirror that the machine itself uses.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use crate::services::packages;

/// Files that no container needs.
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

/// Makes the root file system of a Debian release, with the packages `include`, in the new folder `into`.
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

/// Downloads a package of a Debian release, which may differ from the machine's, and unpacks it into the new folder
/// `into`. The machine's own apt sources, lists and packages are not touched.
pub(crate) fn unpack(release: &str, package: &str, into: &Path) -> Result<PathBuf> {
    let work = into.with_extension("apt");
    for dir in [into, &work] {
        if dir.exists() {
            fs::remove_dir_all(dir)?;
        }
    }
    fs::create_dir_all(work.join("lists/partial"))?;
    fs::create_dir_all(work.join("cache/archives/partial"))?;
    let sources = work.join("sources.list");
    let keys = "/usr/share/keyrings/debian-archive-keyring.gpg";
    fs::write(&sources, format!("deb [signed-by={keys}] {} {release} main\n", mirror()?))?;
    let apt = |args: &[&str]| -> Result<()> {
        let output = Command::new("apt-get")
            .current_dir(&work)
            .arg(format!("-oDir::Etc::SourceList={}", sources.display()))
            .arg("-oDir::Etc::SourceParts=-")
            .arg(format!("-oDir::State::Lists={}", work.join("lists").display()))
            .arg(format!("-oDir::Cache={}", work.join("cache").display()))
            .args(["-oAPT::Update::Post-Invoke-Success=", "-oAPT::Sandbox::User=root", "-q"])
            .args(args)
            .output()
            .context("start apt-get")?;
        if !output.status.success() {
            bail!("apt-get {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(())
    };
    apt(&["update"])?;
    apt(&["download", package])?;
    let file = fs::read_dir(&work)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .with_context(|| format!("apt-get downloaded no package {package}"))?;
    let output = Command::new("dpkg-deb").arg("-x").arg(file).arg(into).output().context("start dpkg-deb")?;
    if !output.status.success() {
        bail!("dpkg-deb: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    fs::remove_dir_all(work)?;
    Ok(into.to_path_buf())
}

/// Runs a program inside a root file system. Gives its output without white space around it.
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

/// Packs a root file system into `tar`, and removes its folder.
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
