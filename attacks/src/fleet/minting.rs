//! Whoever mints the capability tokens that the fleet takes, and the files that its processes read.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Result;
use thermae_schemas::{Capabilities, TenantName};
use thermae_tokens::{Grant, Issuer, SecretKey, TokenId, revocation_ids};

/// The id of the fleet's key.
pub const KEY: u32 = 1;

/// The operator's key, the folder of public keys, and the list of revocations.
pub struct Minting {
    folder: PathBuf,
    issuer: Issuer,
}

impl Minting {
    /// Makes the files in this folder.
    ///
    /// # Errors
    /// They can't be written.
    pub fn new(folder: &Path) -> Result<Self> {
        let (folder, key) = (folder.to_owned(), SecretKey::generate()?);
        std::fs::create_dir(folder.join("keys"))?;
        key.public().write_new(folder.join("keys").join(format!("{KEY}.pem")))?;
        key.write_new(folder.join("token.pem"))?;
        std::fs::write(folder.join("revoked"), "")?;
        Ok(Self { folder, issuer: Issuer::new(KEY, key) })
    }

    /// Lines of a worker's configuration. All clocks are the same.
    pub(super) fn of_worker(&self) -> String {
        let [keys, revoked, _] = self.files();
        format!("[tokens]\nkeys = {keys:?}\nrevoked = {revoked:?}\nskew = \"0s\"\n")
    }

    /// Lines of the table `gateway` in a gateway's configuration.
    pub(super) fn of_gateway(&self) -> String {
        let [keys, revoked, key] = self.files();
        format!("token_key = {key:?}\ntoken_keys = {keys:?}\ntoken_revoked = {revoked:?}\n")
    }

    fn files(&self) -> [PathBuf; 3] {
        ["keys", "revoked", "token.pem"].map(|name| self.folder.join(name))
    }

    /// Mints a token.
    ///
    /// # Errors
    /// It can't be written.
    pub fn mint(&self, grant: &Grant) -> Result<String> {
        Ok(self.issuer.mint(grant)?.into())
    }

    /// Revokes a token, and no other.
    ///
    /// # Errors
    /// The list can't be written.
    pub fn revoke(&self, token: &str) -> Result<()> {
        let ids: Vec<_> = revocation_ids(token)?.iter().map(ToString::to_string).collect();
        let next = self.folder.join(".revoked");
        std::fs::write(&next, ids.join("\n"))?;
        Ok(std::fs::rename(next, self.folder.join("revoked"))?)
    }
}

/// Leave for a tenant to call everything, for an hour.
///
/// # Errors
/// The name is none.
pub fn grant(tenant: &str) -> Result<Grant> {
    Ok(Grant {
        id: TokenId::random(),
        tenant: TenantName::new(tenant)?,
        answers: None,
        not_before: None,
        expires: SystemTime::now() + Duration::from_secs(3600),
        set: Capabilities::from_json(r#"[{"pattern": "**"}]"#)?,
        calls: None,
    })
}
