//! Calls the program.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use thermae_testkit::address;

/// Longer than anything takes here.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// A folder with a configuration.
pub(crate) struct Program {
    pub(crate) dir: TempDir,
    listen: String,
    health: String,
}

/// A gateway that runs.
pub(crate) struct Running {
    child: Child,
    address: String,
    health: String,
    log: PathBuf,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Value,
}

/// An address that nobody uses.
pub(crate) fn free() -> String {
    address::free().unwrap().to_string()
}

impl Program {
    /// With this store, and the tenants `acme`, whose RabbitMQ does not answer, and `globex`, whose credentials are in
    /// a file of the folder `tenants` that is not there yet.
    pub(crate) fn with_store(store: &str) -> Self {
        let (dir, listen, health) = (tempfile::tempdir().unwrap(), free(), free());
        std::fs::create_dir(dir.path().join("tenants")).unwrap();
        let this = Self { dir, listen, health };
        let store = store.replace("DIR", this.path().to_str().unwrap());
        let nobody = "amqp://127.0.0.1:1";
        let folder = this.path().join("tenants");
        this.configure(&format!(
            "listen = {:?}\n[gateway]\nlisten = {:?}\nkeys = {store:?}\namqp = {nobody:?}\nconnect_timeout = '100ms'\n\
             tenants_folder = {folder:?}\n[gateway.tenants]\nacme = 'hunter2'\n",
            this.health, this.listen
        ));
        this
    }

    pub(crate) fn new() -> Self {
        Self::with_store("sqlite:DIR/keys.db")
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn configure(&self, text: &str) {
        std::fs::write(self.path().join("gateway.toml"), text).unwrap();
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_thermae-gateway"));
        command.args(args).current_dir(self.path()).stdin(Stdio::null());
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("THERMAE_")) {
            command.env_remove(name);
        }
        command.env("THERMAE_CONFIG", self.path().join("gateway.toml"));
        command
    }

    pub(crate) fn call(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Standard output of a command that succeeds.
    pub(crate) fn told(&self, args: &[&str]) -> String {
        let output = self.call(args);
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Makes a key for a tenant. Gives its text.
    pub(crate) fn key(&self, tenant: &str, more: &[&str]) -> String {
        let args = [&["key", "create", "--tenant", tenant], more].concat();
        self.told(&args).trim().to_owned()
    }

    /// Starts the gateway, and waits until it answers.
    pub(crate) fn start(&self) -> Running {
        let log = self.path().join("log");
        let err = std::fs::File::create(&log).unwrap();
        let child = self.command(&[]).stdout(Stdio::null()).stderr(err).spawn().unwrap();
        let mut running = Running { child, address: self.listen.clone(), health: self.health.clone(), log };
        running.await_answer();
        running
    }
}

impl Running {
    fn await_answer(&mut self) {
        let begun = Instant::now();
        while TcpStream::connect(&self.address).is_err() {
            assert!(self.child.try_wait().unwrap().is_none() && begun.elapsed() < SOON, "{}", self.logged());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn logged(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// Asks as a caller with this secret.
    pub(crate) fn get(&self, secret: &str, path: &str) -> Answer {
        ask(&self.address, &format!("GET {path}"), &format!("Authorization: Bearer {secret}\r\n"), "")
    }

    pub(crate) fn post(&self, secret: &str, path: &str, body: &str) -> Answer {
        let headers = format!("Authorization: Bearer {secret}\r\nContent-Type: application/json\r\n");
        ask(&self.address, &format!("POST {path}"), &headers, body)
    }

    /// Asks at the port for those who run the gateway.
    pub(crate) fn health(&self, path: &str) -> Answer {
        ask(&self.health, &format!("GET {path}"), "", "")
    }

    /// Waits until a condition of `/readyz` is this.
    pub(crate) fn await_condition(&self, name: &str, ready: bool) {
        let begun = Instant::now();
        while self.health("/readyz").body["conditions"][name]["ready"] != ready {
            assert!(begun.elapsed() < SOON, "{}", self.logged());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Answer {
    pub(crate) fn code(&self) -> (u16, &str) {
        (self.status, self.body["code"].as_str().unwrap_or_default())
    }
}

fn ask(address: &str, what: &str, headers: &str, body: &str) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    let length = body.len();
    write!(stream, "{what} HTTP/1.0\r\nHost: x\r\n{headers}Content-Length: {length}\r\n\r\n{body}").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let body = serde_json::from_str(body).unwrap_or_else(|_| Value::String(body.to_owned()));
    Answer { status, head: head.to_ascii_lowercase(), body }
}
