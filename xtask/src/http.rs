//! Plain HTTP requests to servers on this machine.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result};

/// Longer than a healthy server takes to answer.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Longer than a small job takes on a busy machine.
const JOB_TIMEOUT: Duration = Duration::from_secs(60);

/// Status and body.
pub(crate) fn get(address: &str, path: &str) -> Result<(u16, String)> {
    ask(address, &format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n"), READ_TIMEOUT)
}

/// Sends JSON to a gateway, with a key. Status and body.
pub(crate) fn post(address: &str, path: &str, key: &str, body: &str) -> Result<(u16, String)> {
    let head = format!("POST {path} HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n");
    let kind = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    ask(address, &format!("{head}{kind}\r\n{body}"), JOB_TIMEOUT)
}

fn ask(address: &str, request: &str, timeout: Duration) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no body")?;
    let status = head.split(' ').nth(1).context("no status")?.parse()?;
    Ok((status, body.to_owned()))
}
