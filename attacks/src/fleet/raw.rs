//! AMQP frames, written byte by byte, for messages that no library would send.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

/// A connection with one channel that has publisher confirms.
#[derive(Debug)]
pub struct Raw {
    stream: TcpStream,
    user: String,
}

/// The fields of one message, as bytes that need not be valid.
#[derive(Debug, Default, Clone)]
pub struct Said {
    /// Headers, as they are on the wire.
    pub headers: Vec<u8>,
    /// Routing key.
    pub key: Vec<u8>,
    /// `message_id`.
    pub id: Vec<u8>,
    /// `reply_to`.
    pub reply_to: Vec<u8>,
    /// `content_type`.
    pub content: Vec<u8>,
}

/// An AMQP short string, cut to 255 bytes.
pub fn short(text: &[u8]) -> Vec<u8> {
    [&[u8::try_from(text.len()).unwrap_or(u8::MAX)], &text[..text.len().min(255)]].concat()
}

/// Bytes with their length in front, as an AMQP long string.
pub fn sized(bytes: &[u8]) -> Vec<u8> {
    [&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes(), bytes].concat()
}

impl Raw {
    /// Connects as the URL's user.
    ///
    /// # Errors
    /// RabbitMQ refuses.
    pub fn connect(url: &str) -> Result<Self> {
        let (who, place) = url.strip_prefix("amqp://").and_then(|rest| rest.split_once('@')).context("no such URL")?;
        let (user, password) = who.split_once(':').context("no password")?;
        let stream = TcpStream::connect(place.split('/').next().unwrap_or_default())?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        let mut this = Self { stream, user: user.to_owned() };
        this.stream.write_all(b"AMQP\0\0\x09\x01")?;
        this.expect([0, 10, 0, 10])?;
        let plain = [sized(b""), short(b"PLAIN"), sized(format!("\0{user}\0{password}").as_bytes()), short(b"en_US")];
        this.method(0, [0, 10, 0, 11], &plain.concat())?;
        this.expect([0, 10, 0, 30])?;
        this.method(0, [0, 10, 0, 31], &[0x07, 0xff, 0, 2, 0, 0, 0, 0])?;
        this.method(0, [0, 10, 0, 40], b"\x01/\0\0")?;
        this.expect([0, 10, 0, 41])?;
        this.method(1, [0, 20, 0, 10], b"\0")?;
        this.expect([0, 20, 0, 11])?;
        this.method(1, [0, 85, 0, 10], b"\0")?;
        this.expect([0, 85, 0, 11])?;
        Ok(this)
    }

    /// Publishes a message, and waits for RabbitMQ's confirm.
    ///
    /// # Errors
    /// RabbitMQ answered anything else.
    pub fn publish(&mut self, exchange: &str, said: &Said, body: &[u8]) -> Result<()> {
        let route = [&[0, 0][..], &short(exchange.as_bytes()), &short(&said.key), &[0]].concat();
        self.method(1, [0, 60, 0, 40], &route)?;
        // The flags of the properties below, in this order: content type, headers, delivery mode, reply key, message
        // id, user id.
        let flags: u16 = 1 << 15 | 1 << 13 | 1 << 12 | 1 << 9 | 1 << 7 | 1 << 4;
        let properties = [
            &[0, 60, 0, 0][..],
            &(body.len() as u64).to_be_bytes(),
            &flags.to_be_bytes(),
            &short(&said.content),
            &sized(&said.headers),
            &[2],
            &short(&said.reply_to),
            &short(&said.id),
            &short(self.user.as_bytes()),
        ];
        self.frame(2, 1, &properties.concat())?;
        if !body.is_empty() {
            self.frame(3, 1, body)?;
        }
        self.expect([0, 60, 0, 80])
    }

    fn method(&mut self, channel: u16, id: [u8; 4], arguments: &[u8]) -> Result<()> {
        self.frame(1, channel, &[&id, arguments].concat())
    }

    fn frame(&mut self, kind: u8, channel: u16, payload: &[u8]) -> Result<()> {
        let frame = [&[kind], &channel.to_be_bytes()[..], &sized(payload), &[0xce]].concat();
        Ok(self.stream.write_all(&frame)?)
    }

    fn expect(&mut self, id: [u8; 4]) -> Result<()> {
        let mut head = [0; 7];
        self.stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes([head[3], head[4], head[5], head[6]]) as usize;
        let mut rest = vec![0; length + 1];
        self.stream.read_exact(&mut rest)?;
        ensure!(rest.starts_with(&id), "RabbitMQ answers {:?}, not {id:?}", String::from_utf8_lossy(&rest));
        Ok(())
    }
}
