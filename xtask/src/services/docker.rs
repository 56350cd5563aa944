//! A dockerd of the tests' own: own data, own socket, own containerd, own cgroup parent, no bridge, no firewall rules.
//!
//! Its data folder is kept between runs, so that images are imported once; its containers are removed at every stop.

use std::{
    collections::BTreeMap,
    fs,
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use rustix::{
    mount::{UnmountFlags, unmount},
    process::geteuid,
};

use super::{Running, Service, await_ready, packages, spawn};
use crate::{
    images::fingerprint,
    process::{self, ProcId, in_own_session},
};

/// The longest path that a Unix socket can have; containerd's own is the longest below the set's folder.
const SOCKET_PATH_LIMIT: usize = 107;

/// Starts it, or starts it again on the socket it had.
pub(crate) fn start(dir: &Path, before: Option<&Running>) -> Result<Running> {
    if !geteuid().is_root() {
        bail!("the tests' own dockerd needs root: run this as root");
    }
    let program = packages::program(Service::Docker)?;
    let home = dir.join("docker");
    let exec = exec_root(dir);
    sweep(dir);
    fs::create_dir_all(&exec)?;
    // A file of its own, so that the machine's /etc/docker/daemon.json is not read.
    let config = home.join("daemon.json");
    fs::write(&config, serde_json::to_vec(&configuration())?)?;
    let group = match before {
        Some(running) => running.fact("cgroup")?.to_owned(),
        None => format!("/thermae-test-{}", std::process::id()),
    };
    let socket = exec.join("docker.sock");
    let log = dir.join("logs/docker.log");
    let mut command = in_own_session(program);
    command
        .arg("--data-root")
        .arg(home.join("data"))
        .arg("--exec-root")
        .arg(&exec)
        .arg("--pidfile")
        .arg(home.join("dockerd.pid"))
        .arg("--config-file")
        .arg(&config)
        .args(["--host", &format!("unix://{}", socket.display())])
        .args(["--bridge", "none", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false"])
        .args(["--cgroup-parent", &group, "--exec-opt", "native.cgroupdriver=cgroupfs"])
        .args(["--log-level", "warn"]);
    let main = spawn(&mut command, &log)?;
    if let Err(error) = await_ready("dockerd", main, &log, Duration::from_secs(60), || answers(&socket)) {
        main.stop(Duration::from_secs(5));
        sweep(dir);
        return Err(error);
    }
    let facts = BTreeMap::from([("socket".to_owned(), socket.display().to_string()), ("cgroup".to_owned(), group)]);
    Ok(Running { main, helpers: children(dir), facts })
}

/// gVisor's runtime is there under its own name where its package can be had. Without a network of its own, which
/// containers have none of anyway, and with the only platform that works in any machine; `--fsgofer-host-uds` lets a runner connect
/// to its worker's socket, which lies outside.
fn configuration() -> serde_json::Value {
    match packages::ensure("runsc", "runsc") {
        Ok(path) => serde_json::json!({ "runtimes": { "runsc": {
            "path": path,
            "runtimeArgs": ["--network=none", "--platform=ptrace", "--fsgofer-host-uds"],
        }}}),
        Err(error) => {
            eprintln!("without gVisor: {error:#}");
            serde_json::json!({})
        }
    }
}

/// Removes the containers, stops the daemon, and takes away what it may have left: shims, mounts, cgroups.
pub(crate) fn stop(dir: &Path, running: &Running) {
    if let Ok(socket) = running.fact("socket") {
        remove_containers(Path::new(socket));
    }
    running.main.stop(Duration::from_secs(20));
    sweep(dir);
    if let Ok(group) = running.fact("cgroup") {
        remove_cgroups(group);
    }
}

/// Ends the daemon as a crash would. Containers and containerd live on, as they do in a real crash.
pub(crate) fn kill(main: ProcId) {
    main.kill();
}

/// Runs the `docker` command against an engine.
pub(crate) fn command(socket: &Path, args: &[&str]) -> Result<Output> {
    let program = crate::paths::find_program("docker").context("the `docker` command was not found")?;
    Command::new(program)
        .arg("--host")
        .arg(format!("unix://{}", socket.display()))
        .args(args)
        .output()
        .context("start docker")
}

/// Whether a Docker engine answers on this socket.
pub(crate) fn answers(socket: &Path) -> bool {
    let ping = || -> std::io::Result<bool> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        stream.write_all(b"GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer.contains(" 200 "))
    };
    ping().unwrap_or(false)
}

/// Processes that belong to the engine of this set: its containerd and the shims of its containers.
pub(crate) fn children(dir: &Path) -> Vec<ProcId> {
    let exec = exec_root(dir).display().to_string();
    process::pids()
        .into_iter()
        .filter(|pid| {
            let line = process::command_line(*pid);
            line.contains(&exec) && line.contains("containerd")
        })
        .filter_map(ProcId::of)
        .collect()
}

/// Where the engine's sockets are: in the set's folder, or in a short place where their paths would be too long there.
pub(crate) fn exec_root(dir: &Path) -> PathBuf {
    let inside = dir.join("docker/exec");
    if inside.join("containerd/containerd-debug.sock").as_os_str().len() <= SOCKET_PATH_LIMIT {
        return inside;
    }
    Path::new("/run").join(format!("thermae-{}", fingerprint(&[dir.as_os_str().as_encoded_bytes()])))
}

/// Mount points below a folder, the deepest first.
pub(crate) fn mounts(dir: &Path) -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mut found: Vec<PathBuf> = table
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(|path| PathBuf::from(path.replace("\\040", " ")))
        .filter(|path| path.starts_with(dir))
        .collect();
    found.sort();
    found.reverse();
    found
}

/// The cgroups of this name, in whatever hierarchies there are.
pub(crate) fn cgroups(group: &str) -> Vec<PathBuf> {
    let name = group.trim_start_matches('/');
    let root = Path::new("/sys/fs/cgroup");
    let controllers = fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
    std::iter::once(root.to_path_buf())
        .chain(controllers)
        .map(|hierarchy| hierarchy.join(name))
        .filter(|path| path.is_dir())
        .collect()
}

/// Ends what is left of a daemon that is gone, and unmounts what it had mounted.
pub(crate) fn sweep(dir: &Path) {
    // A shim whose containerd is gone doesn't end its container; the container is the shim's child.
    for shim in children(dir) {
        for inner in process::descendants(shim.pid) {
            inner.kill();
        }
        shim.kill();
    }
    let exec = exec_root(dir);
    for mount in mounts(dir).into_iter().chain(mounts(&exec)) {
        let _ = unmount(&mount, UnmountFlags::DETACH);
    }
    let _ = fs::remove_file(dir.join("docker/dockerd.pid"));
    // What was running is not to be taken up again.
    let _ = fs::remove_dir_all(exec);
}

fn remove_containers(socket: &Path) {
    let Ok(list) = command(socket, &["ps", "--all", "--quiet", "--no-trunc"]) else { return };
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    let mut args = vec!["rm", "--force", "--volumes"];
    args.extend(list.split_whitespace());
    if args.len() > 3 {
        let _ = command(socket, &args);
    }
    // A network's bridge would outlive the daemon; a volume's data would meet the next run.
    let _ = command(socket, &["network", "prune", "--force"]);
    let _ = command(socket, &["volume", "prune", "--force"]);
}

fn remove_cgroups(group: &str) {
    for path in cgroups(group) {
        // The kernel may need a moment after a group's last process has ended.
        process::wait_until(Duration::from_secs(5), || remove_group(&path));
    }
}

/// Cgroups are removed from the leaves up; the files in them are the kernel's and go with them.
fn remove_group(path: &Path) -> bool {
    let children = fs::read_dir(path).into_iter().flatten().flatten().filter(|entry| entry.path().is_dir());
    for child in children {
        remove_group(&child.path());
    }
    fs::remove_dir(path).is_ok() || !path.exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_fit_wherever_the_workspace_is() {
        let short = Path::new("/home/user/thermae/target/services/test");
        assert!(exec_root(short).starts_with(short));
        let long = PathBuf::from("/").join("x".repeat(200)).join("target/services/test");
        assert!(exec_root(&long).starts_with("/run"));
        assert_ne!(exec_root(&long), exec_root(&long.join("other")));
    }
}
