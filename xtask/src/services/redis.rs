//! A Redis of the tests' own: `noeviction`, nothing written to disk, one port without and one with TLS. On both there are the
//! default user, without a password, and the user `fleet`, whose password is its name.

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

/// Starts it, or starts it again on the port it had.
pub(crate) fn start(dir: &Path, before: Option<&Running>) -> Result<Running> {
    let program = packages::program(Service::Redis)?;
    // The servers of people have only the usual port given.
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

/// Stops it.
pub(crate) fn stop(running: &Running) {
    running.main.stop(Duration::from_secs(5));
}

/// Ends it as a crash would.
pub(crate) fn kill(main: ProcId) {
    main.kill();
}

/// Whether something on this port answers a PING.
pub(crate) fn answers(port: u16) -> bool {
    let ping = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(b"PING\r\n")?;
        let mut answer = [0; 5];
        stream.read_exact(&mut answer)?;
        // A server that wants a password first is a Redis, too.
        Ok(&answer == b"+PONG" || &answer == b"-NOAU")
    };
    ping().unwrap_or(false)
}

/// The address for clients.
pub(crate) fn url(running: &Running) -> Result<String> {
    Ok(format!("redis://127.0.0.1:{}/", running.fact("port")?))
}

/// The address by TLS, as the user `fleet`: the set's authority has signed the server's certificate, and the server wants one
/// of the client.
pub(crate) fn tls_url(running: &Running) -> Result<String> {
    Ok(format!("rediss://fleet:fleet@127.0.0.1:{}/", running.fact("tls_port")?))
}
