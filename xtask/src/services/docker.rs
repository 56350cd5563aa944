//! A dockerd for tests: own data, own socket, own containerd, own cgroup parent, no bridge, no firewall rules.
//!
//! Its data folder is kept between runs, so that images are imported only once. Its containers are removed at every
//! stop.

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

/// The longest path that a Unix socket can have, in bytes. The longest one below the set's folder is containerd's.
const SOCKET_PATH_LIMIT: usize = 107;

/// Starts the daemon. `before` has the cgroup that it keeps after an earlier run or a crash.
pub(crate) fn start(dir: &Path, before: Option<&Running>) -> Result<Running> {
    if !geteuid().is_root() {
        bail!("the tests' own dockerd needs root: run this as root");
    }
    let program = packages::program(Service::Docker)?;
    let home = dir.join("docker");
    let exec = exec_root(dir);
    sweep(dir);
    fs::create_dir_all(&exec)?;
    // A configuration file of its own keeps dockerd from reading the machine's /etc/docker/daemon.json.
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

/// Adds gVisor's runtime `runsc` if its package can be had. It has no network, as containers have none anyway, and the
/// only platform that works on any machine. `--fsgofer-host-uds` lets a runner connect to its worker's socket, which is
/// outside of the container.
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

/// Removes the containers, stops the daemon, and removes what it may have left: shims, mounts, cgroups.
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

/// Kills the daemon. Containers and containerd live on, as they do in a real crash.
pub(crate) fn kill(main: ProcId) {
    main.kill();
}

/// Runs a `docker` command on the engine at `socket`.
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

/// Living processes of this set's engine: its containerd, and the shims of its containers.
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

/// The folder with the engine's sockets: in the set's folder, or below `/run` if their paths would be too long there.
pub(crate) fn exec_root(dir: &Path) -> PathBuf {
    let inside = dir.join("docker/exec");
    if inside.join("containerd/containerd-debug.sock").as_os_str().len() <= SOCKET_PATH_LIMIT {
        return inside;
    }
    Path::new("/run").join(format!("thermae-{}", fingerprint(&[dir.as_os_str().as_encoded_bytes()])))
}

/// Mount points at or below a folder, deepest first.
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

/// The cgroups with this name: one for each hierarchy that has it.
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

/// Ends the processes of a daemon that is gone, and unmounts what it had mounted.
pub(crate) fn sweep(dir: &Path) {
    // A shim without its containerd doesn't end its container, whose processes are the shim's children.
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
    // The next daemon must not adopt what was running.
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
    // A network's bridge would outlive the daemon, and the next run would find a volume's data.
    let _ = command(socket, &["network", "prune", "--force"]);
    let _ = command(socket, &["volume", "prune", "--force"]);
}

fn remove_cgroups(group: &str) {
    for path in cgroups(group) {
        // A cgroup may stay busy for a moment after its last process has ended.
        process::wait_until(Duration::from_secs(5), || remove_group(&path));
    }
}

/// Removes a cgroup and those below it, leaves first. Gives whether it is gone. The kernel removes the files in it.
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
