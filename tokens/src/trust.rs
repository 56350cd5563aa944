//! Whom a verifier trusts, as its files say at the moment.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::key_file::failed;
use crate::public_keys::files;
use crate::{BadRevocation, KeyFileError, LONGEST_SKEW, PublicKeys, RevocationList, Verifier};

/// Most bytes of a list of revocations: half a million ids.
const LARGEST_LIST: u64 = 64 << 20;

/// A file that changed so lately may change again without looking different, because clocks of file systems are coarse.
const LATELY: Duration = Duration::from_secs(2);

/// Public keys in a folder and revocations in a file. Both are read again when they change, so that nothing must be
/// restarted when a key comes or a token is revoked.
#[derive(Debug)]
pub struct Trust {
    keys: PathBuf,
    revoked: Option<PathBuf>,
    skew: Duration,
    read: Mutex<Option<(Vec<Stamp>, Arc<Verifier>)>>,
}

/// The files can't be used, so no token is valid.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// A public key can't be read, or a file can't be looked at.
    #[error(transparent)]
    File(#[from] KeyFileError),
    /// The list of revocations is wrong, or too large.
    #[error("{path}: {source}", path = .path.display())]
    List {
        /// The file.
        path: PathBuf,
        /// The line.
        source: BadRevocation,
    },
}

/// What changes when a file is written or replaced.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Stamp {
    path: PathBuf,
    /// Device, number and size.
    is: (u64, u64, u64),
    /// When its content and the file itself last changed, in seconds and nanoseconds.
    changed: [(i64, i64); 2],
}

impl Trust {
    /// Trusts the keys in this folder, one in each file, except for what the list revokes. Clocks may differ by `skew`,
    /// at most [`LONGEST_SKEW`]. Nothing is read yet.
    pub fn new(keys: PathBuf, revoked: Option<PathBuf>, skew: Duration) -> Self {
        Self { keys, revoked, skew: skew.min(LONGEST_SKEW), read: Mutex::default() }
    }

    /// How far clocks may differ.
    pub fn skew(&self) -> Duration {
        self.skew
    }

    /// The verifier for the files as they are now. Looks at every file, and reads them if one has changed.
    ///
    /// # Errors
    /// A file can't be read, or has something else than it should have.
    pub fn verifier(&self) -> Result<Arc<Verifier>, TrustError> {
        // The stamps come first: whatever is written while the files are read makes other stamps.
        let (stamps, now) = (self.stamps()?, SystemTime::now());
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, verifier)) = read.as_ref().filter(|(of, _)| *of == stamps) {
            return Ok(Arc::clone(verifier));
        }
        let keys = PublicKeys::read(&self.keys)?;
        let revoked = self.revoked.as_deref().map(list).transpose()?.unwrap_or_default();
        let verifier = Arc::new(Verifier::new(keys, revoked).with_skew(self.skew));
        let settled = stamps.iter().all(|stamp| stamp.is_older(now));
        *read = settled.then(|| (stamps, Arc::clone(&verifier)));
        Ok(verifier)
    }

    fn stamps(&self) -> Result<Vec<Stamp>, KeyFileError> {
        let mut paths = files(&self.keys)?;
        paths.push(self.keys.clone());
        paths.extend(self.revoked.clone());
        let mut stamps = paths.into_iter().map(Stamp::of).collect::<Result<Vec<_>, _>>()?;
        stamps.sort_unstable();
        Ok(stamps)
    }
}

impl Stamp {
    fn of(path: PathBuf) -> Result<Self, KeyFileError> {
        let file = std::fs::metadata(&path).map_err(failed(&path))?;
        let is = (file.dev(), file.ino(), file.size());
        let changed = [(file.mtime(), file.mtime_nsec()), (file.ctime(), file.ctime_nsec())];
        Ok(Self { path, is, changed })
    }

    /// Whether the last change was not lately.
    fn is_older(&self, now: SystemTime) -> bool {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(LATELY);
        self.changed.iter().all(|(seconds, _)| u64::try_from(*seconds).is_ok_and(|seconds| seconds < now.as_secs()))
    }
}

fn list(path: &Path) -> Result<RevocationList, TrustError> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(LARGEST_LIST + 1).read_to_string(&mut text));
    let fits = read.and_then(|bytes| match bytes as u64 <= LARGEST_LIST {
        true => Ok(()),
        false => Err(io::ErrorKind::FileTooLarge.into()),
    });
    fits.map_err(failed(path))?;
    RevocationList::read(&text).map_err(|source| TrustError::List { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_not_changed_lately_is_kept() {
        let changed = |content, file| Stamp { path: PathBuf::new(), is: (0, 0, 0), changed: [(content, 0), (file, 0)] };
        let now = UNIX_EPOCH + Duration::from_millis(100_500);
        for (stamp, older) in [
            (changed(1, 97), true),
            (changed(97, 1), true),
            (changed(1, 98), false),
            (changed(98, 1), false),
            (changed(1, 200), false),
            (changed(-1, 1), false),
        ] {
            assert_eq!(stamp.is_older(now), older, "{stamp:?}");
        }
    }
}
