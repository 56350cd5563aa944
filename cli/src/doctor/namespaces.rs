//! Checks whether namespaces can be created, by creating them. `thermae __probe` does what a sandbox does, step by
//! step, and prints how far it came.

use std::process::{Command, ExitCode, Stdio};

use super::Check;
use super::host::read;
use super::remedy::Remedy;

/// Name of the hidden command that tries the steps.
pub(crate) const PROBE: &str = "__probe";

/// The steps, in order.
const STEPS: [&str; 5] = [
    "create a user namespace",
    "create mount, pid, ipc, uts and network namespaces in it",
    "mount a tmpfs",
    "start a process in the new pid namespace",
    "mount a fresh /proc in it",
];

pub(super) fn check() -> Check {
    let name = "namespaces";
    let tried = std::env::current_exe()
        .and_then(|exe| Command::new(exe).arg(PROBE).stdin(Stdio::null()).stderr(Stdio::null()).output());
    let text = match tried {
        Ok(output) => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        Err(error) => format!("0 {error}"),
    };
    let (done, why) = text.split_once(' ').unwrap_or((&text, "the check ended without an answer"));
    let done: usize = done.parse().unwrap_or(0);
    if done >= STEPS.len() {
        return Check::ok(name, "user, mount, pid, ipc, uts and network namespaces can be created");
    }
    let found = format!("could not {}: {why}", STEPS[done]);
    let (fix, remedy) = advice(done);
    Check::fail(name, found, "Sandboxes need namespaces. Without them, no program can run.", fix).remedied_by(remedy)
}

/// How to fix it, by the number of steps that worked and by the kernel's settings.
fn advice(done: usize) -> (String, Option<Remedy>) {
    if done == 4 {
        let fix = "this container hides parts of /proc: start it with --security-opt systempaths=unconfined";
        return (fix.to_owned(), None);
    }
    // For each setting: its name, the value that forbids namespaces, a value that allows them, and whether root is
    // exempt.
    let settings = [
        ("user.max_user_namespaces", "0", 15_000, false),
        ("kernel.unprivileged_userns_clone", "0", 1, true),
        ("kernel.apparmor_restrict_unprivileged_userns", "1", 0, true),
    ];
    for (name, forbids, allows, not_root) in settings {
        if read(&format!("/proc/sys/{}", name.replace('.', "/"))).as_deref() == Some(forbids) {
            let or = if not_root { ", or run as root" } else { "" };
            let fix = format!("sudo thermae doctor --fix (sysctl {name}={allows}){or}");
            return (fix, Some(Remedy::Sysctl(name, allows)));
        }
    }
    let fix = "run as root; in a container: --security-opt seccomp=images/seccomp.json --security-opt systempaths=unconfined,\n\
         and an AppArmor profile that allows userns and mount (images/apparmor/thermae)";
    (fix.to_owned(), None)
}

/// The hidden command: prints how many steps worked, and why the next one failed. The process must be single-threaded.
pub(crate) fn probe(inner: bool) -> ExitCode {
    match if inner { fresh_proc() } else { outer() } {
        Ok(()) => println!("{}", STEPS.len()),
        Err((done, why)) => println!("{done} {why}"),
    }
    ExitCode::SUCCESS
}

fn outer() -> Result<(), (usize, String)> {
    use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
    use rustix::thread::UnshareFlags as New;
    let at = |step: usize| move |error: rustix::io::Errno| (step, error.to_string());
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    unshare(New::NEWUSER).map_err(at(0))?;
    let map = |file: &str, text: String| {
        std::fs::write(format!("/proc/self/{file}"), text).map_err(|error| (0, format!("/proc/self/{file}: {error}")))
    };
    map("setgroups", "deny".to_owned())?;
    map("uid_map", format!("0 {uid} 1"))?;
    map("gid_map", format!("0 {gid} 1"))?;
    unshare(New::NEWNS | New::NEWPID | New::NEWIPC | New::NEWUTS | New::NEWNET).map_err(at(1))?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).map_err(at(2))?;
    mount("tmpfs", "/tmp", "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, None).map_err(at(2))?;
    // The next child process is the first one in the new pid namespace.
    let output =
        Command::new("/proc/self/exe").args([PROBE, "inner"]).output().map_err(|error| (3, error.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    match text.trim().split_once(' ') {
        None if output.status.success() => Ok(()),
        None => Err((3, output.status.to_string())),
        Some((_, why)) => Err((4, why.to_owned())),
    }
}

fn fresh_proc() -> Result<(), (usize, String)> {
    use rustix::mount::{MountFlags, mount};
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", "/proc", "proc", flags, None).map_err(|error| (4, error.to_string()))
}

#[allow(unsafe_code)]
fn unshare(flags: rustix::thread::UnshareFlags) -> rustix::io::Result<()> {
    // SAFETY: `unshare` is unsafe if other threads go on using what they shared with this one, such as file descriptors
    // with FILES. This process has one thread, and FILES is never passed.
    unsafe { rustix::thread::unshare_unsafe(flags) }
}
