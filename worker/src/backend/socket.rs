//! The socket on which one container's runner connects: in a directory of its own, gone from the file system as soon as
//! it is connected.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use tokio::net::{UnixListener, UnixStream};

use super::Error;

/// The directory that holds all of one worker's sockets. Only its owner may enter it.
///
/// Its worker holds a lock in it; a directory that nobody holds is a dead worker's, and the next one removes it.
#[derive(Debug, Clone)]
pub struct SocketDir {
    root: PathBuf,
    path: PathBuf,
    _lock: Arc<File>,
}

/// Name of the lock in a worker's directory.
const LOCK: &str = "lock";

/// What the directories' names begin with.
const PREFIX: &str = "thermae-";

impl SocketDir {
    /// Makes a worker's directory below that one (the system's directory for temporary files where it is missing).
    ///
    /// # Errors
    /// It can't be made.
    pub fn open(root: Option<&Path>, worker: &str) -> io::Result<Self> {
        if let Some(root) = root {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(root)?;
        }
        let root = root.map_or_else(std::env::temp_dir, Path::to_path_buf).canonicalize()?;
        sweep(&root);
        let path = root.join(format!("{PREFIX}{worker}"));
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        // It gets its name once it is held: another worker that starts at this moment would take it for a dead one's.
        let unnamed = path.join("lock.new");
        let lock = File::create(&unnamed)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        fs::rename(&unnamed, path.join(LOCK))?;
        Ok(Self { root, path, _lock: Arc::new(lock) })
    }

    /// What it was made below.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Removes it.
    pub fn remove(&self) {
        let _ = fs::remove_dir_all(&self.path);
    }

    /// Listens for one container. The names of the directories are short, since a socket's path has little room.
    pub(super) fn listen(&self, serial: u64) -> Result<Listening, Error> {
        let dir = self.path.join(serial.to_string());
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

/// Removes what dead workers left. What is not theirs has no lock in it, and is left alone.
fn sweep(root: &Path) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let ours = entry.file_name().to_str().is_some_and(|n| n.starts_with(PREFIX));
        let Some(lock) = ours.then(|| File::open(entry.path().join(LOCK)).ok()).flatten() else { continue };
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = fs::remove_dir_all(entry.path());
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

#[cfg(test)]
mod tests {
    use super::*;

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
