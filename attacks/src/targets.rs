//! What there is to be won outside of the sandbox: things of this process that a control reaches and an attack must not.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::Serialize;
use tempfile::TempDir;

/// Where the targets are, as a program is told.
#[derive(Debug, Clone, Serialize)]
pub struct Map {
    /// This process.
    pub pid: u32,
    /// Name of an abstract Unix socket that listens.
    pub abstract_socket: String,
    /// Port on 127.0.0.1 that listens.
    pub port: u16,
    /// Path of a Unix socket that listens.
    pub socket: PathBuf,
    /// A file that holds a secret.
    pub file: PathBuf,
    /// A folder where a control may make files.
    pub folder: PathBuf,
    /// The sandbox's own folder, where an attack may make files.
    pub place: &'static str,
    /// New for every run of an attack.
    pub nonce: String,
}

/// The targets; they are there for as long as this.
#[derive(Debug)]
pub struct Targets {
    map: Map,
    _abstract_socket: UnixListener,
    _port: TcpListener,
    _socket: UnixListener,
    _folder: TempDir,
}

impl Targets {
    /// Sets them up.
    ///
    /// # Errors
    /// The system refuses one.
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

    /// Where they are, for one run of an attack.
    pub fn map(&self) -> Map {
        Map { nonce: uuid::Uuid::new_v4().simple().to_string(), ..self.map.clone() }
    }
}
