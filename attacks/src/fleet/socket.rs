//! WebSockets, written byte by byte, for frames that no library would send. What is sent is masked with zeros.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::gateway::{Gateway, Told};
use super::within;

/// Header lines that ask for a WebSocket.
pub const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                           Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

/// The bit of the last frame of a message.
pub const LAST: u8 = 0x80;
/// A further frame of a message.
pub const MORE: u8 = 0x0;
/// The first frame of a message of bytes.
pub const BINARY: u8 = 0x2;
const CLOSE: u8 = 0x8;
/// A ping.
pub const PING: u8 = 0x9;
const PONG: u8 = 0xa;

/// Longer than the gateway takes for a frame that comes at all.
const FRAME_TIMEOUT: Duration = Duration::from_secs(90);

/// A connection that is a WebSocket.
pub struct Socket {
    /// The connection.
    pub stream: TcpStream,
}

/// A frame of the SDK's protocol.
#[derive(Debug)]
pub struct Heard {
    /// The header.
    pub header: Value,
    /// The payload.
    pub payload: Vec<u8>,
}

impl Heard {
    /// The code of an error, or else the frame's type.
    pub fn code(&self) -> Value {
        let header = &self.header;
        if header["type"] == "error" { header["code"].clone() } else { header["type"].clone() }
    }

    /// The payload as JSON; null if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.payload).unwrap_or_default()
    }
}

/// The bytes of a frame. `first` has its kind and the bit [`LAST`].
pub fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = announced(first, payload.len() as u64);
    bytes.extend_from_slice(payload);
    bytes
}

/// The beginning of a frame with a payload of this many bytes.
pub fn announced(first: u8, length: u64) -> Vec<u8> {
    let mut bytes = vec![first];
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(length @ ..=125), _) => bytes.push(0x80 | length),
        (_, Ok(length)) => {
            bytes.push(0x80 | 126);
            bytes.extend_from_slice(&length.to_be_bytes());
        }
        _ => {
            bytes.push(0x80 | 127);
            bytes.extend_from_slice(&length.to_be_bytes());
        }
    }
    bytes.extend_from_slice(&[0; 4]);
    bytes
}

/// The message of a frame of the SDK's protocol.
pub fn message(header: &str, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(header.len()).unwrap_or(u32::MAX);
    [&length.to_le_bytes(), header.as_bytes(), payload].concat()
}

impl Gateway {
    /// Asks for an SDK's WebSocket with these header lines. Gives it, or else the answer.
    ///
    /// # Errors
    /// There is no answer.
    pub async fn upgrade(&self, headers: &str) -> Result<Result<Socket, Told>> {
        let head = format!("GET /v1/connect HTTP/1.1\r\nHost: gateway\r\n{headers}\r\n");
        let (told, stream) = self.begun(head.as_bytes()).await?;
        Ok(if told.status == 101 { Ok(Socket { stream }) } else { Err(told) })
    }

    /// An SDK's WebSocket of the secret's holder. Nothing was said yet.
    ///
    /// # Errors
    /// The gateway refuses.
    pub async fn socket(&self) -> Result<Socket> {
        let answer = self.upgrade(&format!("{UPGRADE}{}", self.headers())).await?;
        answer.map_err(|told| anyhow::anyhow!("the gateway refuses an SDK: {told:?}"))
    }

    /// An SDK of the secret's holder, whose fleet is open.
    ///
    /// # Errors
    /// The gateway refuses.
    pub async fn sdk(&self) -> Result<Socket> {
        let mut socket = self.socket().await?;
        socket.say(&json!({ "type": "hello", "versions": [1], "sdk": "attacks" }), b"").await?;
        let hello = socket.hear().await?;
        let opened = socket.asked(&json!({ "type": "open", "id": 0 }), b"").await?;
        ensure!(opened.code() == "opened", "{hello:?} {opened:?}");
        Ok(socket)
    }
}

impl Socket {
    /// Sends a frame of the SDK's protocol.
    ///
    /// # Errors
    /// The connection is gone.
    pub async fn say(&mut self, header: &Value, payload: &[u8]) -> Result<()> {
        let message = message(&header.to_string(), payload);
        Ok(self.stream.write_all(&frame(LAST | BINARY, &message)).await?)
    }

    /// Sends a frame of the SDK's protocol. Gives the next one that comes.
    ///
    /// # Errors
    /// The connection ends without one.
    pub async fn asked(&mut self, header: &Value, payload: &[u8]) -> Result<Heard> {
        self.say(header, payload).await?;
        self.hear().await?.with_context(|| format!("the connection ended after {header}"))
    }

    /// The next frame of the SDK's protocol; `None` at the end of the connection. Answers pings.
    ///
    /// # Errors
    /// Nothing comes, or something that is no frame.
    pub async fn hear(&mut self) -> Result<Option<Heard>> {
        within(FRAME_TIMEOUT, "a frame", async {
            loop {
                // A connection that is cut off has ended, too.
                let Ok((kind, payload)) = self.next().await else { return Ok(None) };
                match kind {
                    PING => self.stream.write_all(&frame(LAST | PONG, &payload)).await?,
                    CLOSE => return Ok(None),
                    _ => {
                        let (length, rest) = payload.split_first_chunk().context("no length of a header")?;
                        let (header, payload) = rest.split_at(u32::from_le_bytes(*length) as usize);
                        let header = serde_json::from_slice(header)?;
                        return Ok(Some(Heard { header, payload: payload.to_owned() }));
                    }
                }
            }
        })
        .await?
    }

    /// The next frame of the WebSocket: its kind and its payload.
    async fn next(&mut self) -> std::io::Result<(u8, Vec<u8>)> {
        let first = self.stream.read_u8().await?;
        let length = match self.stream.read_u8().await? {
            126 => u64::from(self.stream.read_u16().await?),
            127 => self.stream.read_u64().await?,
            length => u64::from(length),
        };
        let mut payload = vec![0; usize::try_from(length).map_err(std::io::Error::other)?];
        self.stream.read_exact(&mut payload).await?;
        Ok((first & 0xf, payload))
    }
}
