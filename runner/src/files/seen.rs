//! Remembers files of a sandbox that the worker has already: inputs that were placed there, and artifacts that were
//! sent after an earlier run. They are sent again only if they have changed.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::Stat;

/// Upper bound of the resolution of file times. Two changes of a file within this time may get the same time.
const TICK: Duration = Duration::from_millis(20);

/// Known files, by their paths.
#[derive(Debug, Default)]
pub(crate) struct Seen(HashMap<Vec<u8>, Print>);

/// A fingerprint of a file, as it was when it was read or written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Print {
    stamp: Stamp,
    /// SHA-256 of its content.
    pub(super) sha256: [u8; 32],
    /// Whether an equal stamp proves that the file is unchanged. If not, the content has to be compared.
    stamp_decides: bool,
}

/// Metadata that change when a file changes. The kernel alone sets the time of the inode's last change (`changed`): no
/// job can choose it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    inode: u64,
    pub(super) size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

#[allow(clippy::unnecessary_cast, clippy::cast_lossless, reason = "the types of these fields differ between platforms")]
impl From<&Stat> for Stamp {
    fn from(stat: &Stat) -> Self {
        Self {
            inode: stat.st_ino as u64,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified: (stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            changed: (stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        }
    }
}

impl Stamp {
    /// Whether the file's last change was more than [`TICK`] before `begun`, the time when reading it began.
    fn rested(&self, begun: SystemTime) -> bool {
        let (Ok(seconds), Ok(nanos)) = (u64::try_from(self.changed.0), u32::try_from(self.changed.1)) else {
            return false;
        };
        begun.duration_since(UNIX_EPOCH + Duration::new(seconds, nanos)).is_ok_and(|age| age > TICK)
    }
}

impl Print {
    /// A file whose reading began at `begun`, and whose stamp was the same before and after.
    pub(super) fn new(stamp: Stamp, sha256: [u8; 32], begun: SystemTime) -> Self {
        Self { stamp, sha256, stamp_decides: stamp.rested(begun) }
    }

    /// A file that changed while it was read.
    pub(super) fn torn(stamp: Stamp, sha256: [u8; 32]) -> Self {
        Self { stamp, sha256, stamp_decides: false }
    }

    /// Whether a file with this stamp is certainly the same, without a look at its content.
    pub(super) fn certainly(&self, stamp: &Stamp) -> bool {
        self.stamp_decides && self.stamp == *stamp
    }

    /// Whether a file with this stamp may be the same. Its content has to be compared.
    pub(super) fn perhaps(&self, stamp: &Stamp) -> bool {
        self.stamp.size == stamp.size
    }
}

impl Seen {
    pub(super) fn insert(&mut self, path: Vec<u8>, print: Print) {
        self.0.insert(path, print);
    }

    pub(super) fn take(&mut self, path: &[u8]) -> Option<Print> {
        self.0.remove(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_that_had_rested_is_known_by_its_stamp() {
        let stamp = |size, changed| Stamp { inode: 1, size, modified: (5, 0), changed };
        let begun = UNIX_EPOCH + Duration::from_secs(10);
        let rested = Print::new(stamp(3, (9, 0)), [0; 32], begun);
        assert!(rested.certainly(&stamp(3, (9, 0))));
        assert!(!rested.certainly(&stamp(3, (9, 1))));
        assert!(rested.perhaps(&stamp(3, (9, 1))) && !rested.perhaps(&stamp(4, (9, 0))));
        let fresh = Print::new(stamp(3, (9, 990_000_000)), [0; 32], begun);
        assert!(!fresh.certainly(&stamp(3, (9, 990_000_000))), "another write may have come in the same tick");
        assert!(!Print::torn(stamp(3, (9, 0)), [0; 32]).certainly(&stamp(3, (9, 0))));
    }
}
