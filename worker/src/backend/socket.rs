//! The socket on which one container's runner connects: in a directory of its own, gone from the file system as soon as
//! it is connected.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};

use super::Error;

/// The directory that holds all containers' sockets. Only its owner may enter it.
#[derive(Debug, Clone)]
pub struct SocketDir {
    path: PathBuf,
    /// Made by us below the system's temporary directory, and removed at the end.
    own: bool,
}

impl SocketDir {
    /// Makes sure of it.
    ///
    /// # Errors
    /// It can't be made, or belongs to another user.
    pub fn open(path: Option<&Path>, worker: &str) -> io::Result<Self> {
        let own = path.is_none();
        let path = path.map_or_else(|| std::env::temp_dir().join(format!("thermae-{worker}")), Path::to_path_buf);
        let mut builder = fs::DirBuilder::new();
        builder.recursive(!own).mode(0o700);
        builder.create(&path)?;
        if own {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o700))?;
        }
        // A socket's path may have 107 bytes; whoever configures a long directory should hear it at the start.
        let path = path.canonicalize()?;
        Ok(Self { path, own })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it, if it is this process's own.
    pub fn remove(&self) {
        if self.own {
            let _ = fs::remove_dir_all(&self.path);
        }
    }

    /// Listens for one container. The names of the directories are short, since a socket's path has little room.
    pub(super) fn listen(&self, worker: &str, serial: u64) -> Result<Listening, Error> {
        let boot = worker.rsplit('-').next().unwrap_or(worker);
        let dir = self.path.join(format!("{boot}-{serial}"));
        let made = || -> io::Result<UnixListener> {
            let _ = fs::remove_dir_all(&dir);
            // Whoever is inside the container may pass through; nobody outside can reach it, below a closed directory.
            fs::DirBuilder::new().mode(0o755).create(&dir)?;
            fs::set_permissions(&dir, fs::Permissions::from_mode(0o755))?;
            let listener = UnixListener::bind(dir.join("sock"))?;
            fs::set_permissions(dir.join("sock"), fs::Permissions::from_mode(0o666))?;
            Ok(listener)
        };
        match made() {
            Ok(listener) => Ok(Listening { listener, dir: OwnDir(dir) }),
            Err(source) => {
                let _ = fs::remove_dir_all(&dir);
                Err(Error::System { step: format!("making the socket {}", dir.join("sock").display()), source })
            }
        }
    }
}

/// A directory that is removed with its holder.
#[derive(Debug)]
pub(super) struct OwnDir(PathBuf);

impl Drop for OwnDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A socket that waits for its runner.
pub(super) struct Listening {
    listener: UnixListener,
    dir: OwnDir,
}

impl Listening {
    pub(super) fn dir(&self) -> &Path {
        &self.dir.0
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.dir.0.join("sock")
    }

    /// Waits for the runner. The socket is then unlinked, so that nobody else connects; the directory stays for as long
    /// as the container, which has it mounted.
    pub(super) async fn accept(self, within: Duration) -> Result<(UnixStream, OwnDir), Error> {
        let accepted = tokio::time::timeout(within, self.listener.accept()).await;
        let _ = fs::remove_file(self.dir.0.join("sock"));
        match accepted {
            Ok(Ok((stream, _))) => Ok((stream, self.dir)),
            Ok(Err(e)) => Err(Error::system("accepting the runner")(e)),
            Err(_) => Err(Error::Runner(format!("not within {} ms", within.as_millis()))),
        }
    }
}
