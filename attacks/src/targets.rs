//! Targets outside of the sandbox: things of this process that a control can reach and an attack must not reach.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::Serialize;
use tempfile::TempDir;

/// Where the targets are. Each program gets this as JSON.
#[derive(Debug, Clone, Serialize)]
pub struct Map {
    /// Id of this process.
    pub pid: u32,
    /// Name of a listening abstract Unix socket.
    pub abstract_socket: String,
    /// Listening TCP port on 127.0.0.1.
    pub port: u16,
    /// Path of a listening Unix socket.
    pub socket: PathBuf,
    /// Path of a file with a secret.
    pub file: PathBuf,
    /// Folder in which a control may make files.
    pub folder: PathBuf,
    /// Folder of the sandbox in which an attack may make files.
    pub place: &'static str,
    /// Random text, new for every run of an attack.
    pub nonce: String,
}

/// The targets. They exist until this is dropped.
#[derive(Debug)]
pub struct Targets {
    map: Map,
    _abstract_socket: UnixListener,
    _port: TcpListener,
    _socket: UnixListener,
    _folder: TempDir,
}

impl Targets {
    /// Makes the targets.
    ///
    /// # Errors
    /// The system refuses to make one.
    pub fn new() -> Result<Self> {
        let made = || -> io::Result<Self> {
            let folder = tempfile::tempdir()?;
            let name = format!("thermae-attacks-{}", std::process::id());
            let abstract_socket = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
            let port = TcpListener::bind("127.0.0.1:0")?;
            let (socket_path, file) = (folder.path().join("socket"), folder.path().join("secret"));
            let socket = UnixListener::bind(&socket_path)?;
            fs::write(&file, "secret\n")?;
            let map = Map {
                pid: std::process::id(),
                abstract_socket: name,
                port: port.local_addr()?.port(),
                socket: socket_path,
                file,
                folder: folder.path().to_path_buf(),
                place: "/workspace",
                nonce: String::new(),
            };
            Ok(Self { map, _abstract_socket: abstract_socket, _port: port, _socket: socket, _folder: folder })
        };
        made().context("set the attacks' targets up")
    }

    /// The targets' places, with a new nonce for one run of an attack.
    pub fn map(&self) -> Map {
        Map { nonce: uuid::Uuid::new_v4().simple().to_string(), ..self.map.clone() }
    }
}
