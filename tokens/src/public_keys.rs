//! The public keys that a verifier trusts.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::key_file::failed;
use crate::{KeyFileError, PublicKey};

/// Public keys by id. To rotate a key, add the new one here, then let the issuer use it, and remove the old one when
/// the last token that it signed has expired. An id must never name another key.
#[derive(Debug, Clone, Default)]
pub struct PublicKeys(BTreeMap<u32, PublicKey>);

impl PublicKeys {
    /// Reads a folder with one file for each key, named after its id: `1.pem`. Names that begin with a dot are skipped.
    ///
    /// # Errors
    /// The folder or a file can't be read, a file has no such key, or another name.
    pub fn read(folder: impl AsRef<Path>) -> Result<Self, KeyFileError> {
        let mut keys = BTreeMap::new();
        for path in files(folder.as_ref())? {
            let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
            let id = name.strip_suffix(".pem").and_then(|id| Some((id.parse::<u32>().ok()?, id)));
            // `01.pem` and `1.pem` would be two keys with one id.
            let Some((id, _)) = id.filter(|(id, text)| id.to_string() == *text) else {
                return Err(KeyFileError::Name(path));
            };
            keys.insert(id, PublicKey::read(&path)?);
        }
        Ok(Self(keys))
    }

    /// The key with this id.
    pub fn get(&self, id: u32) -> Option<&PublicKey> {
        self.0.get(&id)
    }
}

/// The files of a folder with keys. Those whose names begin with a dot are none of them: editors keep such files beside
/// the one that is written, also links that lead nowhere.
pub(crate) fn files(folder: &Path) -> Result<Vec<PathBuf>, KeyFileError> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed(folder))? {
        let entry = entry.map_err(failed(folder))?;
        if !entry.file_name().as_bytes().starts_with(b".") {
            files.push(entry.path());
        }
    }
    Ok(files)
}

impl FromIterator<(u32, PublicKey)> for PublicKeys {
    fn from_iter<I: IntoIterator<Item = (u32, PublicKey)>>(keys: I) -> Self {
        Self(keys.into_iter().collect())
    }
}
