//! Servers, proxies, and functions that wait.

use std::net::SocketAddr;
use std::time::Duration;

use thermae_service::tls::Tls;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Longer than anything that succeeds takes.
pub const LONG: Duration = Duration::from_secs(60);
/// Long enough to notice something that must not happen.
pub const SHORT: Duration = Duration::from_millis(300);

/// The value of an environment variable that names a server.
pub fn server(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        panic!("{variable} is not set: this test needs a real server; `cargo xtask test` starts one and sets it")
    })
}

/// A name that no other test uses.
pub fn unique(what: &str) -> String {
    format!("{what}-{}", &uuid::Uuid::new_v4().simple().to_string()[..12])
}

/// Waits for something that must happen, and fails after [`LONG`].
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, future).await.unwrap_or_else(|_| panic!("{what}: not within {LONG:?}"))
}

/// Fails if something happens within [`SHORT`].
pub async fn never<T: std::fmt::Debug>(what: &str, future: impl Future<Output = T>) {
    if let Ok(happened) = tokio::time::timeout(SHORT, future).await {
        panic!("{what} happened: {happened:?}");
    }
}

/// Asks again until the answer is yes, and fails after [`LONG`].
pub async fn until<F: Future<Output = bool>>(what: &str, mut ask: impl FnMut() -> F) {
    soon(what, async {
        while !ask().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

/// The test servers' authority, and a client's certificate.
pub fn identity() -> Tls {
    let file = |variable| Some(server(variable).into());
    Tls { cert: file("THERMAE_TEST_CLIENT_CERT"), key: file("THERMAE_TEST_CLIENT_KEY"), ..authority() }
}

/// The test servers' authority, without a certificate.
pub fn authority() -> Tls {
    Tls { ca: Some(server("THERMAE_TEST_CA").into()), ..Tls::default() }
}

/// A server that never answers. The task returns what the first client sends within [`SHORT`].
pub async fn eavesdropper() -> (u16, JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let heard = tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        let mut heard = Vec::new();
        let _ = tokio::time::timeout(SHORT, client.read_to_end(&mut heard)).await;
        heard
    });
    (port, heard)
}

/// A TCP proxy whose connections can be cut.
pub struct Proxy {
    pub address: SocketAddr,
    cuts: watch::Sender<u64>,
    one: watch::Sender<Option<u64>>,
    open: watch::Sender<bool>,
    target: watch::Sender<String>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// A proxy for the server of a URL like `amqp://user:password@host:port/...`.
    pub async fn to(url: &str) -> Self {
        let (target, now) = watch::channel(Self::target(url));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (cuts, cut) = watch::channel(0);
        let (open, is_open) = watch::channel(true);
        let (one, only) = watch::channel(None);
        let task = tokio::spawn(async move {
            let mut number = 0;
            while let Ok((client, _)) = listener.accept().await {
                if !*is_open.borrow() {
                    continue;
                }
                let target = now.borrow().clone();
                let Ok(server) = TcpStream::connect(target).await else { continue };
                let mut cut = cut.clone();
                cut.mark_unchanged();
                let (mut only, own) = (only.clone(), number);
                number += 1;
                tokio::spawn(async move {
                    let (mut client, mut server) = (client, server);
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
                        _ = cut.changed() => {}
                        _ = only.wait_for(|one| *one == Some(own)) => {}
                    }
                    let _ = server.shutdown().await;
                });
            }
        });
        Self { address, cuts, one, open, target, task }
    }

    fn target(url: &str) -> String {
        let host = url.split('@').next_back().unwrap().trim_start_matches("redis://");
        host.split('/').next().unwrap().to_owned()
    }

    /// Leads new connections to another server. Open connections stay where they are.
    pub fn lead_to(&self, url: &str) {
        self.target.send_replace(Self::target(url));
    }

    /// The same URL, through the proxy.
    pub fn through(&self, url: &str) -> String {
        let (scheme, rest) = url.split_once("://").unwrap();
        let (user, rest) = rest.split_once('@').map_or(("", rest), |(user, rest)| (user, rest));
        let path = rest.split_once('/').map_or("", |(_, path)| path);
        let at = if user.is_empty() { "" } else { "@" };
        format!("{scheme}://{user}{at}{}/{path}", self.address)
    }

    /// Cuts all connections at once.
    pub fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Cuts one connection. They are counted from 0, in the order in which they were opened.
    pub fn cut_one(&self, number: u64) {
        self.one.send_replace(Some(number));
    }

    /// Whether new connections are served.
    pub fn set_open(&self, open: bool) {
        self.open.send_replace(open);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.cut();
        self.task.abort();
    }
}

/// A set of servers for one test, which may stop and kill them. They are removed when this is dropped.
pub struct Set {
    name: String,
    environment: String,
}

impl Set {
    pub fn up(only: &str) -> Self {
        let name = unique("contract");
        let environment = services(&["test-up", "--set", &name, "--only", only, "--print-env"]);
        Self { name, environment }
    }

    pub fn variable(&self, name: &str) -> String {
        let line = self.environment.lines().find_map(|line| line.strip_prefix("export ")?.strip_prefix(name));
        let value = line.unwrap_or_else(|| panic!("{name} is not in {:?}", self.environment));
        value.trim_start_matches('=').trim_matches('\'').to_owned()
    }

    pub fn control(&self, server: &str, how: &str) {
        services(&["test-ctl", "--set", &self.name, server, how]);
    }
}

impl Drop for Set {
    fn drop(&mut self) {
        let _ = services(&["test-down", "--set", &self.name]);
    }
}

fn services(arguments: &[&str]) -> String {
    let program = server("THERMAE_TEST_XTASK");
    let done = std::process::Command::new(program).arg("services").args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "services {arguments:?}: {text}{}", String::from_utf8_lossy(&done.stderr));
    text
}
