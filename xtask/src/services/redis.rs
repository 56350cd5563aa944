//! A Redis for tests: `noeviction`, nothing written to disk, one port without TLS and one with it.
//!
//! Both ports have the default user, without a password, and the user `fleet`, whose password is `fleet`.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    time::Duration,
};

use anyhow::Result;

use super::{Running, Service, await_ready, certs::Certs, free_port, packages, spawn};
use crate::process::{ProcId, in_own_session};

/// Starts the server. `before` has the ports that it keeps after an earlier run.
pub(crate) fn start(dir: &Path, before: Option<&Running>) -> Result<Running> {
    let program = packages::program(Service::Redis)?;
    // `services up` sets only the usual port.
    let before = |name: &str| before.and_then(|running| running.facts.get(name)?.parse().ok());
    let port = |name: &str| before(name).map_or_else(free_port, Ok::<u16, anyhow::Error>);
    let (port, tls_port) = (port("port")?, port("tls_port")?);
    let certs = Certs::of(dir)?;
    let data = dir.join("redis");
    std::fs::create_dir_all(&data)?;
    let log = dir.join("logs/redis.log");
    let mut command = in_own_session(program);
    command
        .current_dir(&data)
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--daemonize", "no"])
        .args(["--maxmemory-policy", "noeviction", "--save", "", "--appendonly", "no"])
        .args(["--tls-port", &tls_port.to_string(), "--tls-auth-clients", "yes"])
        .arg("--tls-ca-cert-file")
        .arg(certs.ca())
        .arg("--tls-cert-file")
        .arg(certs.server())
        .arg("--tls-key-file")
        .arg(certs.server_key())
        .args(["--user", "fleet", "on", ">fleet", "~*", "&*", "+@all"])
        .arg("--dir")
        .arg(&data);
    let main = spawn(&mut command, &log)?;
    if let Err(error) = await_ready("redis", main, &log, Duration::from_secs(20), || answers(port)) {
        main.kill();
        return Err(error);
    }
    let facts = [("port", port), ("tls_port", tls_port)].map(|(name, port)| (name.to_owned(), port.to_string()));
    let facts = BTreeMap::from(facts);
    Ok(Running { main, helpers: Vec::new(), facts })
}

pub(crate) fn stop(running: &Running) {
    running.main.stop(Duration::from_secs(5));
}

/// Kills the server.
pub(crate) fn kill(main: ProcId) {
    main.kill();
}

/// Whether a Redis on this port answers a PING.
pub(crate) fn answers(port: u16) -> bool {
    let ping = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(b"PING\r\n")?;
        let mut answer = [0; 5];
        stream.read_exact(&mut answer)?;
        // A Redis that asks for a password answers, too.
        Ok(&answer == b"+PONG" || &answer == b"-NOAU")
    };
    ping().unwrap_or(false)
}

/// The URL for clients without TLS.
pub(crate) fn url(running: &Running) -> Result<String> {
    Ok(format!("redis://127.0.0.1:{}/", running.fact("port")?))
}

/// The URL by TLS, as the user `fleet`. The set's authority has signed the server's certificate, and clients must
/// present one, too.
pub(crate) fn tls_url(running: &Running) -> Result<String> {
    Ok(format!("rediss://fleet:fleet@127.0.0.1:{}/", running.fact("tls_port")?))
}
