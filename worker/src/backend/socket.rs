//! The socket on which one container's runner connects. It has its own directory, and is unlinked as soon as the runner
//! is connected.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};

use super::Error;
use crate::locked_dir::LockedDir;

/// The directory that holds all sockets of one worker. Only its owner can enter it.
///
/// The worker holds a lock in the directory. If nobody holds the lock, the worker is dead, and the next one removes the
/// directory.
#[derive(Debug, Clone)]
pub struct SocketDir {
    root: PathBuf,
    path: PathBuf,
    held: Arc<LockedDir>,
}

impl SocketDir {
    /// Makes a worker's directory below `root`. By default, `root` is the user's `XDG_RUNTIME_DIR`, or else the
    /// system's directory for temporary files.
    ///
    /// # Errors
    /// The directory can't be made.
    pub fn open(root: Option<&Path>, worker: &str) -> io::Result<Self> {
        if let Some(root) = root {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(root)?;
        }
        let root = root.map_or_else(own_root, Path::to_path_buf).canonicalize()?;
        let held = LockedDir::make(&root, worker)?;
        Ok(Self { root, path: held.path().to_owned(), held: Arc::new(held) })
    }

    /// The directory in which this one was made.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Removes the directory.
    pub fn remove(&self) {
        self.held.remove();
    }

    /// Listens for one container. The names are short, because the length of a socket's path is limited.
    ///
    /// # Errors
    /// The socket can't be made.
    pub fn listen(&self, serial: u64) -> Result<Listening, Error> {
        let dir = self.path.join(serial.to_string());
        let made = || -> io::Result<UnixListener> {
            let _ = fs::remove_dir_all(&dir);
            // Everybody inside the container may pass through. Nobody outside can reach it, because the worker's
            // directory is closed.
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

/// A directory where no other user of this machine can put anything, if there is one.
fn own_root() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let own = |path: &PathBuf| {
        let mine = |meta: fs::Metadata| meta.is_dir() && meta.uid() == rustix::process::geteuid().as_raw();
        // The length of a socket's path is limited.
        path.as_os_str().len() < 50 && fs::symlink_metadata(path).is_ok_and(mine)
    };
    runtime.filter(own).unwrap_or_else(std::env::temp_dir)
}

/// A directory that is removed when this is dropped.
#[derive(Debug)]
pub struct OwnDir(PathBuf);

impl Drop for OwnDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A socket that waits for a runner.
pub struct Listening {
    listener: UnixListener,
    dir: OwnDir,
}

impl Listening {
    /// The directory that has the socket, as `sock`, and nothing else.
    pub fn dir(&self) -> &Path {
        &self.dir.0
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.dir.0.join("sock")
    }

    /// Waits for the runner. Then the socket is unlinked, so that nobody else can connect. The directory stays as long
    /// as the container, which has it mounted.
    ///
    /// # Errors
    /// The runner did not connect within this time.
    pub async fn accept(self, within: Duration) -> Result<(UnixStream, OwnDir), Error> {
        let accepted = tokio::time::timeout(within, self.listener.accept()).await;
        let _ = fs::remove_file(self.dir.0.join("sock"));
        match accepted {
            Ok(Ok((stream, _))) => Ok((stream, self.dir)),
            Ok(Err(e)) => Err(Error::system("accepting the runner")(e)),
            Err(_) => Err(Error::Runner(format!("no connection within {} ms", within.as_millis()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locked_dir::LOCK;

    #[test]
    fn a_dead_workers_directory_is_removed_and_a_living_ones_is_not() {
        let root = tempfile::tempdir().unwrap();
        let living = SocketDir::open(Some(root.path()), "a-1").unwrap();
        let dead = SocketDir::open(Some(root.path()), "b-1").unwrap().path.clone();
        fs::create_dir(root.path().join("thermae-foreign")).unwrap();
        let next = SocketDir::open(Some(root.path()), "c-1").unwrap();
        assert!(living.path.exists() && next.path.exists() && root.path().join("thermae-foreign").exists());
        assert!(!dead.exists());
        next.remove();
        assert!(!next.path.exists());
    }

    #[test]
    fn workers_that_start_together_leave_each_others_directories_alone() {
        let root = tempfile::tempdir().unwrap();
        let open = |name: String| SocketDir::open(Some(root.path()), &name).unwrap();
        for round in 0..1000 {
            let together = std::thread::scope(|scope| {
                let starting = ["a", "b", "c", "d"].map(|name| scope.spawn(move || open(format!("{name}-{round}"))));
                starting.map(|started| started.join().unwrap())
            });
            assert!(together.iter().all(|dir| dir.path.join(LOCK).exists()), "round {round}");
            together.iter().for_each(SocketDir::remove);
        }
    }
}
