//! The public keys that a verifier trusts.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;

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
        let folder = folder.as_ref();
        let mut keys = BTreeMap::new();
        for entry in std::fs::read_dir(folder).map_err(failed(folder))? {
            let path = entry.map_err(failed(folder))?.path();
            let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
            if name.starts_with('.') {
                continue;
            }
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

impl FromIterator<(u32, PublicKey)> for PublicKeys {
    fn from_iter<I: IntoIterator<Item = (u32, PublicKey)>>(keys: I) -> Self {
        Self(keys.into_iter().collect())
    }
}
