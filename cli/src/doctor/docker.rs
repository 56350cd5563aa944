//! Checks the container engine, by asking it over its socket as a worker would.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::Check;

const NAME: &str = "docker";
const MEANS: &str = "Only workers with Docker pools need Docker. `thermae run` and `thermae batch` don't.";

pub(super) fn check(socket: &Path) -> Check {
    let version = match get(socket, "/version") {
        Ok(version) => version,
        Err(error) => {
            let fix = match error.kind() {
                std::io::ErrorKind::NotFound => {
                    "install Docker (apt install docker.io), or name its socket: --docker PATH"
                }
                std::io::ErrorKind::PermissionDenied => {
                    "join the group docker (sudo usermod -aG docker $USER), or run as root"
                }
                _ => "start Docker: sudo systemctl start docker",
            };
            return Check::warn(NAME, format!("no answer at {}: {error}", socket.display()), MEANS, fix);
        }
    };
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or("?").to_owned();
    let (engine, api) = (text(&version, "Version"), text(&version, "ApiVersion"));
    let info = get(socket, "/info").unwrap_or_default();
    let options: Vec<&str> =
        info["SecurityOptions"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let has = |name: &str| options.iter().any(|option| option.starts_with(&format!("name={name}")));
    let walls: Vec<&str> =
        ["seccomp", "apparmor", "selinux", "rootless", "userns"].into_iter().filter(|n| has(n)).collect();
    let runtimes: Vec<&str> =
        info["Runtimes"].as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    let found = format!(
        "engine {engine}, API {api}, cgroup v{}, {}; runtimes {}",
        info["CgroupVersion"].as_str().unwrap_or("?"),
        if walls.is_empty() { "no security options".to_owned() } else { walls.join(", ") },
        runtimes.join(", ")
    );
    if !info.is_null() && !has("seccomp") {
        let fix = "use an engine that was built with seccomp";
        return Check::warn(
            NAME,
            found,
            "Containers run without a system call filter. Jobs still have their own.",
            fix,
        );
    }
    if api.split('.').filter_map(|n| n.parse::<u32>().ok()).collect::<Vec<_>>() < vec![1, 41] {
        return Check::warn(
            NAME,
            found,
            "Older than the oldest tested version (20.10, API 1.41).",
            "update the engine",
        );
    }
    Check::ok(NAME, found)
}

/// Sends a GET over the socket. With HTTP/1.0, the connection's end is the end of the answer.
fn get(socket: &Path, path: &str) -> std::io::Result<Value> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.set_write_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: docker\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    stream.take(4 << 20).read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let strange = || std::io::Error::other("the program that listens there is no container engine");
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(strange)?;
    if head.split(' ').nth(1) != Some("200") {
        return Err(strange());
    }
    serde_json::from_str(body).map_err(|_| strange())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::super::State;
    use super::*;

    fn engine(bodies: &'static [&'static str]) -> Check {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("docker.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let server = std::thread::spawn(move || {
            for body in bodies {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    stream.read_exact(&mut byte).unwrap();
                    request.extend(byte);
                }
                stream.write_all(format!("HTTP/1.0 200 OK\r\n\r\n{body}").as_bytes()).unwrap();
            }
        });
        let check = check(&path);
        server.join().unwrap();
        check
    }

    #[test]
    fn an_engine_is_described() {
        let check = engine(&[
            r#"{"Version": "20.10.24", "ApiVersion": "1.41"}"#,
            r#"{"SecurityOptions": ["name=seccomp,profile=default"], "CgroupVersion": "1", "Runtimes": {"runc": {}}}"#,
        ]);
        assert_eq!(check.state, State::Ok);
        assert_eq!(check.found, "engine 20.10.24, API 1.41, cgroup v1, seccomp; runtimes runc");
    }

    #[test]
    fn what_is_missing_is_said() {
        let old = engine(&[r#"{"Version": "19", "ApiVersion": "1.9"}"#, r#"{"SecurityOptions": ["name=seccomp"]}"#]);
        assert!(old.means.contains("Older"), "{old:?}");
        assert!(engine(&["hello"]).found.contains("no container engine"));
        assert!(check(Path::new("/nonexistent.sock")).fix.contains("install"));
    }
}
