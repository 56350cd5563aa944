//! A plain HTTP client, which can also send what no client should.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// An answer, with its whole body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Result<Value> {
        serde_json::from_slice(&self.body).with_context(|| format!("{self:?}"))
    }

    /// Checks that this is a problem with this status and code.
    pub(crate) fn problem(&self, status: u16, code: &str) -> Result<Value> {
        let problem = self.json()?;
        ensure!(self.status == status && problem["code"] == code, "not {status} {code}: {} {problem}", self.status);
        ensure!(self.header("content-type") == Some("application/problem+json"), "{self:?}");
        ensure!(
            problem["status"] == status && problem["request_id"].as_str() == self.header("x-request-id"),
            "{problem}"
        );
        Ok(problem)
    }
}

/// A connection to the gateway.
pub(crate) struct Connection(BufReader<TcpStream>);

impl Connection {
    pub(crate) async fn open(addr: SocketAddr) -> Result<Self> {
        Ok(Self(BufReader::new(TcpStream::connect(addr).await?)))
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) -> Result<()> {
        self.0.get_mut().write_all(bytes.as_ref()).await?;
        Ok(())
    }

    /// The next line, without its end; `None` at the end of the stream.
    pub(crate) async fn line(&mut self) -> Result<Option<String>> {
        let mut line = String::new();
        let read = self.0.read_line(&mut line).await?;
        Ok((read > 0).then(|| line.trim_end_matches(['\r', '\n']).to_owned()))
    }

    /// The status and the headers of an answer.
    pub(crate) async fn head(&mut self) -> Result<Answer> {
        let first = self.line().await?.context("no answer")?;
        let status = first.split(' ').nth(1).context("no status")?.parse()?;
        let mut headers = Vec::new();
        while let Some(line) = self.line().await?.filter(|line| !line.is_empty()) {
            let (name, value) = line.split_once(": ").context("no header")?;
            headers.push((name.to_owned(), value.to_owned()));
        }
        Ok(Answer { status, headers, body: Vec::new() })
    }

    /// A whole answer.
    pub(crate) async fn answer(&mut self, has_body: bool) -> Result<Answer> {
        let mut answer = self.head().await?;
        if !has_body || answer.status == 204 {
            return Ok(answer);
        }
        if let Some(length) = answer.header("content-length") {
            answer.body = vec![0; length.parse()?];
            self.0.read_exact(&mut answer.body).await?;
        } else if answer.header("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = self.chunk().await? {
                answer.body.extend(chunk);
            }
        } else {
            self.0.read_to_end(&mut answer.body).await?;
        }
        Ok(answer)
    }

    /// The next piece of a streamed body; `None` after the last one.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Vec<u8>>> {
        let Some(length) = self.line().await? else { bail!("the body was cut off") };
        let length = usize::from_str_radix(&length, 16).with_context(|| length.clone())?;
        let mut chunk = vec![0; length + 2];
        self.0.read_exact(&mut chunk).await?;
        chunk.truncate(length);
        Ok((length > 0).then_some(chunk))
    }

    /// The next bytes.
    pub(crate) async fn read(&mut self, length: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.0.read_exact(&mut bytes).await?;
        Ok(bytes)
    }

    /// Reads until the gateway closes the connection.
    pub(crate) async fn closed(&mut self) -> Result<()> {
        let mut rest = Vec::new();
        match self.0.read_to_end(&mut rest).await {
            Err(error) if error.kind() != std::io::ErrorKind::ConnectionReset => Err(error.into()),
            _ => Ok(()),
        }
    }
}

/// An event of a stream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Told {
    pub(crate) id: Option<u64>,
    pub(crate) event: String,
    pub(crate) data: Value,
    /// The data, byte for byte.
    pub(crate) text: String,
}

/// A stream of events.
pub(crate) struct Events {
    connection: Connection,
    text: Vec<u8>,
}

impl Events {
    pub(crate) fn new(connection: Connection) -> Self {
        Self { connection, text: Vec::new() }
    }

    /// The next event, without comments; `None` after the last one.
    pub(crate) async fn next(&mut self) -> Result<Option<Told>> {
        loop {
            while let Some(end) = self.text.windows(2).position(|pair| pair == b"\n\n") {
                let block: Vec<u8> = self.text.drain(..end + 2).collect();
                let block = String::from_utf8(block)?;
                let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
                let Some(event) = field("event: ") else { continue };
                let id = field("id: ").map(str::parse).transpose()?;
                let text = field("data: ").context("no data")?.to_owned();
                let data = serde_json::from_str(&text)?;
                return Ok(Some(Told { id, event: event.to_owned(), data, text }));
            }
            match self.connection.chunk().await? {
                Some(chunk) => self.text.extend(chunk),
                None => return Ok(None),
            }
        }
    }

    /// All events up to the end.
    pub(crate) async fn rest(&mut self) -> Result<Vec<Told>> {
        let mut all = Vec::new();
        while let Some(told) = self.next().await? {
            all.push(told);
        }
        Ok(all)
    }
}
