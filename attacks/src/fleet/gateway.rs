//! A gateway in front of the fleet, and a client that sends it whatever it is told to send.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::process::{Process, program};
use super::{soon, within};

/// The token of every gateway that has one.
pub const TOKEN: &str = "token-of-the-attacks";

/// Longer than the gateway takes for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// A gateway, as the holder of one secret sees it.
pub struct Gateway {
    address: String,
    secret: String,
    _running: Arc<Running>,
}

/// A running gateway and its files. It is killed on drop.
pub(super) struct Running {
    pub(super) process: Process,
    pub(super) dir: TempDir,
}

/// An answer.
#[derive(Debug, Default)]
pub struct Told {
    /// The status; 0 if the gateway closed the connection without an answer.
    pub status: u16,
    /// The status line and the headers.
    pub head: String,
    /// The body, as text.
    pub body: String,
}

impl Told {
    /// An answer with this head and this body.
    pub(super) fn of(head: &str, body: &str) -> Result<Self> {
        let status = head.split(' ').nth(1).context("no status")?.parse()?;
        Ok(Self { status, head: head.to_owned(), body: body.to_owned() })
    }

    /// The stable code of the problem, or the status as text.
    pub fn code(&self) -> String {
        let problem = serde_json::from_str::<Value>(&self.body).ok();
        let code = problem.and_then(|problem| Some(problem.get("code")?.as_str()?.to_owned()));
        code.unwrap_or_else(|| self.status.to_string())
    }

    /// The body as JSON; null if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }
}

impl Gateway {
    /// Starts a gateway as the tenant of this RabbitMQ URL, and waits until it is ready.
    ///
    /// # Errors
    /// `thermae` is not built, or the gateway is not ready in time.
    pub async fn start(url: &str) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("attacks-").tempdir()?;
        let process = Process::spawn("thermae", dir.path(), |http| {
            let mut command = Command::new(program("thermae")?);
            command.args(["serve", "--listen", http]).env("THERMAE_AMQP", url).env("THERMAE_TOKEN", TOKEN);
            Ok(command)
        })?;
        process.await_ready().await?;
        let address = process.address().to_owned();
        Ok(Self::seen_with(TOKEN, address, Arc::new(Running { process, dir })))
    }

    /// The gateway at this address, for the holder of this secret.
    pub(super) fn seen_with(secret: &str, address: String, running: Arc<Running>) -> Self {
        Self { address, secret: secret.to_owned(), _running: running }
    }

    /// The secret: a token or a key.
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// The header lines of a request with a body of JSON by the secret's holder.
    pub fn headers(&self) -> String {
        format!("Authorization: Bearer {}\r\nContent-Type: application/json\r\n", self.secret)
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// The gateway accepts none.
    pub async fn connect(&self) -> Result<TcpStream> {
        Ok(TcpStream::connect(&self.address).await?)
    }

    /// Opens a connection that takes next to nothing unless it is read, so that an answer stays with the gateway.
    ///
    /// # Errors
    /// The gateway accepts none.
    pub async fn connect_narrow(&self) -> Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.set_recv_buffer_size(4096)?;
        Ok(socket.connect(self.address.parse()?).await?)
    }

    /// Runs a job, which must give the right output.
    ///
    /// # Errors
    /// The job did not end, or its output was wrong.
    pub async fn honest(&self) -> Result<()> {
        let job = json!({ "code": "print(6 * 7)" }).to_string();
        let told = soon("an honest run", self.ask("POST", "/v1/runs?wait=60s", &job)).await??;
        ensure!(told.json()["outcome"]["stdout"] == "42\n", "{told:?}");
        Ok(())
    }

    /// Sends these bytes, and reads the answer up to the end of the connection.
    ///
    /// # Errors
    /// There is no connection, or the answer does not end.
    pub async fn raw(&self, bytes: &[u8]) -> Result<Told> {
        let mut stream = self.connect().await?;
        // The gateway may close the connection before it has read everything.
        let _ = stream.write_all(bytes).await;
        Self::answer(stream).await
    }

    /// Reads the answer to what was sent, up to the end of the connection.
    ///
    /// # Errors
    /// The answer does not end.
    pub async fn answer(mut stream: TcpStream) -> Result<Told> {
        let mut answer = Vec::new();
        let _ = within(ANSWER_TIMEOUT, "the answer", stream.read_to_end(&mut answer)).await?;
        let answer = String::from_utf8_lossy(&answer);
        let Some((head, body)) = answer.split_once("\r\n\r\n") else {
            return Ok(Told::default());
        };
        Told::of(head, body)
    }

    /// Sends these bytes, and reads one answer that says its length. Gives it, and the connection, which may go on.
    ///
    /// # Errors
    /// As for [`Self::raw`].
    pub async fn begun(&self, bytes: &[u8]) -> Result<(Told, TcpStream)> {
        let mut stream = self.connect().await?;
        let _ = stream.write_all(bytes).await;
        let told = within(ANSWER_TIMEOUT, "the answer", async {
            // The head comes byte by byte, so that nothing of what follows it is read.
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let Ok(byte) = stream.read_u8().await else { return Ok(Told::default()) };
                head.push(byte);
            }
            let head = String::from_utf8(head)?;
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            let mut body = vec![0; length.unwrap_or(0)];
            stream.read_exact(&mut body).await?;
            Told::of(head.trim_end(), &String::from_utf8_lossy(&body))
        });
        Ok((told.await??, stream))
    }

    /// Sends a request with these header lines.
    ///
    /// # Errors
    /// As for [`Self::raw`].
    pub async fn with(&self, method: &str, path: &str, headers: &str, body: &str) -> Result<Told> {
        // HTTP/1.0, so that the connection ends with the answer.
        let length = body.len();
        let text =
            format!("{method} {path} HTTP/1.0\r\nHost: gateway\r\n{headers}Content-Length: {length}\r\n\r\n{body}");
        self.raw(text.as_bytes()).await
    }

    /// Sends a request as the secret's holder.
    ///
    /// # Errors
    /// As for [`Self::raw`].
    pub async fn ask(&self, method: &str, path: &str, body: &str) -> Result<Told> {
        self.with(method, path, &self.headers(), body).await
    }
}
