//! The file tree that a native container sees: a small read-only root with only what an interpreter needs.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};

use super::Spec;
use crate::error::{Context, Result};
use crate::mounts;

/// The system's directories. Each is shown whole, or as a symbolic link if it is one.
const SYSTEM: [&str; 6] = ["usr", "lib", "lib32", "lib64", "bin", "sbin"];

/// Files and directories of `/etc` that programs need and that say little about the machine. They are copied.
const ETC: [&str; 11] = [
    "ld.so.cache",
    "ld.so.conf",
    "localtime",
    "timezone",
    "mime.types",
    "protocols",
    "services",
    "nsswitch.conf",
    "debian_version",
    "os-release",
    "alternatives",
];

/// Character devices: name, major, minor.
const DEVICES: [(&str, u32, u32); 5] =
    [("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9)];

/// Empty directories that sandboxes mount on.
const MOUNT_POINTS: [&str; 7] = ["proc", "tmp", "workspace", "session", "data", "dev/shm", "sys"];

/// The mount point that stays empty. It also covers the directories that are hidden.
const EMPTY: &str = "sys";

/// The folder of [`Spec::commands`]. The view has it only if there are any.
pub(crate) const COMMANDS: &str = "/etc/thermae/bin";

/// `/etc/passwd`, with the user that jobs see themselves as.
pub(crate) const PASSWD: &str = "root:x:0:0:root:/workspace:/bin/sh\nsandbox:x:1000:1000:sandbox:/workspace:/bin/sh\n";
const GROUP: &str = "root:x:0:\nsandbox:x:1000:\n";
/// `/etc/hosts`. It has the sandbox's host name, too, because programs look up their own host.
const HOSTS: &str = "127.0.0.1 localhost sandbox\n::1 localhost\n";

/// Builds the view and makes it the root. The old tree is gone afterwards.
pub(super) fn build(spec: &Spec, privileged: bool) -> Result<()> {
    rustix::mount::mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)
        .step("private mounts")?;
    let safe = MountFlags::NOSUID | MountFlags::NODEV;
    // Start with a staging root, so that the whole old tree (/tmp included) stays reachable as /old while the new one
    // is built.
    rustix::mount::mount("staging", "/tmp", "tmpfs", safe, c"size=1m,mode=755").step("mount the staging root")?;
    fs::create_dir("/tmp/old").and_then(|()| fs::create_dir("/tmp/new")).step("staging directories")?;
    rustix::process::pivot_root("/tmp", "/tmp/old").step("pivot to the staging root")?;
    rustix::process::chdir("/").step("chdir")?;
    rustix::mount::mount("root", "/new", "tmpfs", MountFlags::NOSUID, c"size=16m,mode=755")
        .step("mount the new root")?;
    let (old, new) = (Path::new("/old"), Path::new("/new"));
    for name in SYSTEM {
        show_system(old, new, name).step(format!("show /{name}"))?;
    }
    // This /tmp is for the zygotes, whose imports may write caches; every sandbox covers it with its own storage. What
    // is shown below the machine's /tmp is mounted in it.
    fs::create_dir(new.join("tmp")).step("make /tmp")?;
    rustix::mount::mount("tmp", "/new/tmp", "tmpfs", safe, c"size=64m,mode=1777").step("mount /tmp")?;
    for path in &spec.show {
        show(old, new, Path::new(path)).step(format!("show {path}"))?;
    }
    for path in &spec.links {
        link(old, new, Path::new(path)).step(format!("link {path}"))?;
    }
    etc(old, new).step("write /etc")?;
    commands(spec, new).step("link commands")?;
    for dir in MOUNT_POINTS {
        fs::create_dir_all(new.join(dir)).step(format!("make /{dir}"))?;
    }
    for path in &spec.hide {
        rustix::mount::mount_bind(new.join(EMPTY), under(new, Path::new(path))).step(format!("hide {path}"))?;
    }
    // Without this directory, programs that look for fonts complain on standard error. Its links lead below /usr.
    if old.join("etc/fonts").is_dir() {
        show(old, new, Path::new("/etc/fonts")).step("show /etc/fonts")?;
    }
    for (name, path) in &spec.data {
        show_at(old, new, Path::new(path), &new.join("data").join(name)).step(format!("show the dataset {name}"))?;
    }
    link_work(new).step("link /work")?;
    devices(old, new, privileged)?;
    rustix::mount::mount("proc", "/new/proc", "proc", safe | MountFlags::NOEXEC, None).step("mount /proc")?;
    fs::create_dir(new.join(".old")).step("make the pivot's directory")?;
    rustix::process::chdir("/new").step("chdir")?;
    rustix::process::pivot_root(".", ".old").step("pivot to the new root")?;
    rustix::process::chdir("/").step("chdir")?;
    rustix::mount::unmount("/.old", UnmountFlags::DETACH).step("leave the old root")?;
    fs::remove_dir("/.old").step("remove the pivot's directory")?;
    mounts::make_read_only(|at| at == "/tmp" || mounts::at_or_below(at, "/proc")).step("make the view read-only")
}

/// Makes `/work` another name of `/workspace`. If the interpreter lives below `/work`, only `/work/artifacts` is a
/// link.
fn link_work(new: &Path) -> io::Result<()> {
    match symlink("workspace", new.join("work")) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        other => return other,
    }
    // If `/work` itself is shown, it is the machine's own directory: make nothing in it.
    if fs::metadata(new.join("work"))?.dev() != fs::metadata(new)?.dev() {
        return Ok(());
    }
    match symlink("../workspace/artifacts", new.join("work/artifacts")) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

fn under(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

fn show_system(old: &Path, new: &Path, name: &str) -> io::Result<()> {
    match fs::symlink_metadata(old.join(name)) {
        Err(_) => Ok(()),
        Ok(meta) if meta.is_symlink() => symlink(fs::read_link(old.join(name))?, new.join(name)),
        Ok(_) => show(old, new, &Path::new("/").join(name)),
    }
}

/// Bind-mounts a path of the old tree at the same path of the new one.
fn show(old: &Path, new: &Path, path: &Path) -> io::Result<()> {
    show_at(old, new, path, &under(new, path))
}

/// Bind-mounts a path of the old tree at `target` in the new one.
fn show_at(old: &Path, new: &Path, path: &Path, target: &Path) -> io::Result<()> {
    let source = resolve(old, path)?;
    if fs::metadata(&source)?.is_dir() {
        fs::create_dir_all(target)?;
    } else {
        fs::create_dir_all(target.parent().unwrap_or(new))?;
        fs::write(target, "")?;
    }
    // Recursive, because an unprivileged user may not uncover what a mount below this path hides.
    Ok(rustix::mount::mount_bind_recursive(&source, target)?)
}

/// Makes a symbolic link of the old tree again at the same path of the new one, unless the path is shown already.
fn link(old: &Path, new: &Path, path: &Path) -> io::Result<()> {
    let (target, parent) = (under(new, path), under(new, path.parent().unwrap_or(path)));
    fs::create_dir_all(&parent)?;
    // Shown directories are the machine's own and not read-only yet: make links in the new root and its /tmp only.
    let ours = [new.to_owned(), new.join("tmp")].map(|at| fs::metadata(at).map(|meta| meta.dev()));
    let there = fs::metadata(&parent)?.dev();
    if fs::symlink_metadata(&target).is_ok() || !ours.iter().flatten().any(|dev| *dev == there) {
        return Ok(());
    }
    symlink(fs::read_link(under(old, path))?, target)
}

/// Follows symbolic links as if `old` were the root.
fn resolve(old: &Path, path: &Path) -> io::Result<PathBuf> {
    let mut left: Vec<_> = path.components().rev().map(|c| c.as_os_str().to_os_string()).collect();
    let mut at = PathBuf::from("/");
    let mut hops = 0;
    while let Some(part) = left.pop() {
        if part == "/" {
            at = PathBuf::from("/");
        } else if part == ".." {
            at.pop();
        } else if let Ok(target) = fs::read_link(under(old, &at.join(&part))) {
            hops += 1;
            if hops > 40 {
                return Err(io::Error::other("too many symbolic links"));
            }
            left.extend(target.components().rev().map(|c| c.as_os_str().to_os_string()));
        } else {
            at.push(part);
        }
    }
    Ok(under(old, &at))
}

fn etc(old: &Path, new: &Path) -> io::Result<()> {
    let (from, to) = (old.join("etc"), new.join("etc"));
    fs::create_dir(&to)?;
    for name in ETC {
        let Ok(source) = resolve(old, &Path::new("/etc").join(name)) else { continue };
        if source.is_dir() {
            fs::create_dir(to.join(name))?;
            for entry in fs::read_dir(from.join(name))?.flatten() {
                if let Ok(target) = fs::read_link(entry.path()) {
                    symlink(target, to.join(name).join(entry.file_name()))?;
                }
            }
        } else if let Ok(bytes) = fs::read(&source) {
            fs::write(to.join(name), bytes)?;
        }
    }
    fs::write(to.join("passwd"), PASSWD)?;
    fs::write(to.join("group"), GROUP)?;
    fs::write(to.join("hosts"), HOSTS)?;
    fs::write(to.join("hostname"), "sandbox\n")
}

/// Makes the links of [`Spec::commands`].
fn commands(spec: &Spec, new: &Path) -> io::Result<()> {
    let folder = under(new, Path::new(COMMANDS));
    for (name, program) in &spec.commands {
        fs::create_dir_all(&folder)?;
        symlink(program, folder.join(name))?;
    }
    Ok(())
}

/// Makes a minimal `/dev`: device nodes if that is allowed, otherwise bind mounts of the host's nodes.
fn devices(old: &Path, new: &Path, privileged: bool) -> Result<()> {
    let dev = new.join("dev");
    for (name, major, minor) in DEVICES {
        let node = dev.join(name);
        let mode = Mode::from_raw_mode(0o666);
        let made = privileged && mknodat(CWD, &node, FileType::CharacterDevice, mode, makedev(major, minor)).is_ok();
        if made {
            // The process's umask has cut the mode.
            fs::set_permissions(&node, fs::Permissions::from_mode(0o666)).step("device mode")?;
        } else {
            fs::write(&node, "").step("device mount point")?;
            rustix::mount::mount_bind(old.join("dev").join(name), &node).step(format!("show /dev/{name}"))?;
        }
    }
    for (name, target) in [("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")] {
        symlink(target, dev.join(name)).step("link in /dev")?;
    }
    Ok(())
}
