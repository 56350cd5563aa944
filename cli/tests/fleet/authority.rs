//! Whoever mints capability tokens for a fleet of tests, and the files that tell the workers whom to trust.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Result;
use thermae_schemas::{Capabilities, TenantName};
use thermae_tokens::{Grant, Issuer, SecretKey, TokenId, revocation_ids};

/// The id under which workers know the public key.
pub(crate) const KEY: u32 = 1;

/// An issuer whose public key is in a folder, beside a list of revoked tokens.
pub(crate) struct Authority {
    issuer: Issuer,
    folder: PathBuf,
}

impl Authority {
    /// Makes the files in this folder.
    pub(crate) fn new(folder: &Path) -> Result<Self> {
        let made = Self { issuer: Issuer::new(KEY, SecretKey::generate()?), folder: folder.to_owned() };
        std::fs::create_dir_all(folder.join("keys"))?;
        std::fs::write(folder.join(format!("keys/{KEY}.pem")), made.issuer.public_key().to_pem())?;
        std::fs::write(folder.join("revoked"), "")?;
        Ok(made)
    }

    /// The part of a worker's configuration that trusts this issuer. All clocks are the same.
    pub(crate) fn config(&self) -> String {
        let (keys, revoked) = (self.folder.join("keys"), self.folder.join("revoked"));
        format!("[tokens]\nkeys = {keys:?}\nrevoked = {revoked:?}\nskew = \"0s\"\n")
    }

    /// A token for the tenant `acme`, for an hour.
    pub(crate) fn mint(&self, set: &str) -> Result<String> {
        Ok(self.issuer.mint(&grant(set)?)?.into())
    }

    /// A token that says what this grant says.
    pub(crate) fn mint_for(&self, grant: &Grant) -> Result<String> {
        Ok(self.issuer.mint(grant)?.into())
    }

    /// Revokes a token, and all that was made from it. The list is replaced in one step.
    pub(crate) fn revoke(&self, token: &str) -> Result<()> {
        let (list, next) = (self.folder.join("revoked"), self.folder.join(".revoked"));
        let ids = revocation_ids(token)?;
        let last = ids.last().map(ToString::to_string).unwrap_or_default();
        std::fs::write(&next, format!("{}{last}\n", std::fs::read_to_string(&list)?))?;
        Ok(std::fs::rename(next, list)?)
    }
}

/// Leave for the tenant `acme` to make the calls of this set, for an hour.
pub(crate) fn grant(set: &str) -> Result<Grant> {
    Ok(Grant {
        id: TokenId::random(),
        tenant: TenantName::new("acme")?,
        answers: None,
        not_before: None,
        expires: SystemTime::now() + Duration::from_secs(3600),
        set: Capabilities::from_json(set)?,
        calls: None,
    })
}
