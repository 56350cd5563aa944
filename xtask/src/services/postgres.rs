//! A Postgres for tests: nothing flushed to disk, one port on loopback, no password.
//!
//! Its programs refuse to run as root. So they run as the user `postgres` of the distribution's package if xtask runs
//! as root, and their data is outside of the workspace, which that user may not reach.

use std::{
    collections::BTreeMap,
    fs,
    io::{Read, Write},
    net::TcpStream,
    os::unix::fs::{DirBuilderExt, chown},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use rustix::process::{Signal, geteuid};

use super::{Running, Service, await_ready, free_port, packages, spawn};
use crate::{
    images::fingerprint,
    process::{ProcId, in_own_session},
};

/// The user of the server, and the superuser of its databases.
const USER: &str = "postgres";

/// Starts the server. `before` has the port that it keeps after an earlier run; its data stays, too.
pub(crate) fn start(dir: &Path, before: Option<&Running>) -> Result<Running> {
    let program = packages::program(Service::Postgres)?;
    let port = before.and_then(|running| running.facts.get("port")?.parse().ok()).map_or_else(free_port, Ok)?;
    let home = home(dir);
    if before.is_none() || !home.join("data").is_dir() {
        make(&program, &home).context("make a database cluster")?;
    }
    let log = dir.join("logs/postgres.log");
    let mut command = as_user(&program, in_own_session);
    command
        .current_dir(&home)
        .arg("-D")
        .arg(home.join("data"))
        .args(["-p", &port.to_string(), "-h", "127.0.0.1", "-k", ""])
        .args(["-c", "fsync=off", "-c", "max_connections=200", "-c", "dynamic_shared_memory_type=mmap"]);
    let main = spawn(&mut command, &log)?;
    if let Err(error) = await_ready("postgres", main, &log, Duration::from_secs(60), || answers(port)) {
        main.kill();
        return Err(error);
    }
    Ok(Running { main, helpers: Vec::new(), facts: BTreeMap::from([("port".to_owned(), port.to_string())]) })
}

/// Stops the server, without waiting for clients, and removes its data.
pub(crate) fn stop(running: &Running) {
    running.main.signal(Signal::INT);
    if !running.main.wait(Duration::from_secs(20)) {
        running.main.kill();
    }
}

/// Kills the server. Its children end when they find it gone.
pub(crate) fn kill(main: ProcId) {
    main.kill();
}

/// Removes the data of a set whose server was stopped.
pub(crate) fn remove(dir: &Path) {
    let _ = fs::remove_dir_all(home(dir));
}

/// Whether a Postgres on this port answers.
pub(crate) fn answers(port: u16) -> bool {
    let ask = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        // A question whether there is TLS, to which the answer is a letter.
        stream.write_all(&[0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f])?;
        let mut answer = [0];
        stream.read_exact(&mut answer)?;
        Ok(matches!(answer[0], b'N' | b'S'))
    };
    ask().unwrap_or(false)
}

/// The URL of the database that every server has.
pub(crate) fn url(running: &Running) -> Result<String> {
    Ok(format!("postgres://{USER}@127.0.0.1:{}/postgres", running.fact("port")?))
}

/// The folder of the set's data.
fn home(dir: &Path) -> PathBuf {
    std::env::temp_dir().join(format!("thermae-postgres-{}", fingerprint(&[dir.as_os_str().as_encoded_bytes()])))
}

fn make(program: &Path, home: &Path) -> Result<()> {
    let _ = fs::remove_dir_all(home);
    fs::DirBuilder::new().mode(0o700).create(home).with_context(|| format!("create {}", home.display()))?;
    if geteuid().is_root() {
        let id = |flag| -> Result<u32> {
            let output = Command::new("id").args([flag, USER]).output().context("start id")?;
            String::from_utf8_lossy(&output.stdout).trim().parse().context("there is no user postgres")
        };
        chown(home, Some(id("-u")?), Some(id("-g")?))?;
    }
    // The other programs are beside the server, but not always beside the link to it.
    let programs = fs::canonicalize(program)?.with_file_name("initdb");
    let output = as_user(&programs, Command::new)
        .current_dir(home)
        .args(["-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "-D"])
        .arg(home.join("data"))
        .output()
        .context("start initdb")?;
    ensure!(output.status.success(), "initdb: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}

/// A command that runs a program as a user who is not root. The process stays the same.
fn as_user(program: &Path, command: impl FnOnce(PathBuf) -> Command) -> Command {
    if !geteuid().is_root() {
        return command(program.to_owned());
    }
    let mut command = command(PathBuf::from("setpriv"));
    command.args(["--reuid", USER, "--regid", USER, "--init-groups"]).arg(program);
    command
}
