//! `thermae-gateway` in front of the fleet, for both tenants, and the keys of its store.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use thermae_testkit::address;

use super::gateway::{Gateway, Running};
use super::minting::Minting;
use super::process::{Process, program};

const NAME: &str = "thermae-gateway";

/// Name of the file of the store of keys.
const STORE: &str = "keys.db";

/// All scopes that an SDK's connection needs.
pub const ALL: &str = "run,read,answer,sessions,artifacts";

/// All scopes that open anything of a tenant.
pub const EVERY: &str = "run,read,answer,sessions,artifacts,approve,tokens";

/// What bounds callers in a gateway without guards.
const LIFTED: &str = "tenant_share = 100\nheader_timeout = \"1h\"\nbody_grace = \"1h\"\nheartbeat = \"1h\"\n\
                      max_bytes = \"4GiB\"\nmax_connections = 500\npeer_share = 100\nmax_pings = 4294967295\n";

/// A running `thermae-gateway`.
pub struct Keyed {
    address: String,
    running: Arc<Running>,
}

impl Keyed {
    /// Starts a gateway for the tenants of these RabbitMQ URLs, and waits until it is ready. It mints tokens as the
    /// operator does. If the guards are `lifted`, one tenant may take all that the gateway has, callers may be as slow
    /// as they like, they may hold more bytes than they can send, and there are fewer connections.
    ///
    /// # Errors
    /// `thermae-gateway` is not built, or it is not ready in time.
    pub async fn start(acme: &str, globex: &str, lifted: bool, minting: &Minting) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("attacks-").tempdir()?;
        let address = address::free()?.to_string();
        let keys = format!("sqlite:{}", dir.path().join(STORE).display());
        let bounds = if lifted { LIFTED } else { "tenant_share = 50\n" };
        let process = Process::start(NAME, dir.path(), |http| {
            format!(
                "listen = {http:?}\n[telemetry]\nlog = \"error\"\n[gateway]\nlisten = {address:?}\nkeys = {keys:?}\n\
                 {bounds}{}[gateway.tenants]\nacme = {acme:?}\nglobex = {globex:?}\n",
                minting.of_gateway()
            )
        })?;
        process.await_ready().await?;
        Ok(Self { address, running: Arc::new(Running { process, dir }) })
    }

    /// The gateway's process.
    pub fn process(&self) -> &Process {
        &self.running.process
    }

    /// The gateway, for the holder of a new key of this tenant with these scopes (`run,read`).
    ///
    /// # Errors
    /// The key can't be made.
    pub fn holder(&self, tenant: &str, scopes: &str) -> Result<Gateway> {
        let text = self.key(&["create", "--tenant", tenant, "--scope", scopes])?;
        Ok(Gateway::seen_with(text.trim(), self.address.clone(), self.running.clone()))
    }

    /// Revokes the key of a holder.
    ///
    /// # Errors
    /// The key can't be revoked.
    pub fn revoke(&self, holder: &Gateway) -> Result<()> {
        self.revoke_in(&self.store(), holder)
    }

    /// Revokes the key of a holder in this file of a store.
    ///
    /// # Errors
    /// The key can't be revoked.
    pub fn revoke_in(&self, store: &Path, holder: &Gateway) -> Result<()> {
        let keys = format!("sqlite:{}", store.display());
        self.key(&["revoke", id_of(holder.secret())?, "--keys", &keys]).map(drop)
    }

    /// The file of the store of keys.
    pub fn store(&self) -> PathBuf {
        self.running.dir.path().join(STORE)
    }

    /// Makes a copy of the store of keys, beside it.
    ///
    /// # Errors
    /// It can't be read or written.
    pub fn copy_of_store(&self) -> Result<PathBuf> {
        let copy = self.store().with_extension("copy");
        std::fs::copy(self.store(), &copy)?;
        Ok(copy)
    }

    /// The standard output of `thermae-gateway key`.
    fn key(&self, arguments: &[&str]) -> Result<String> {
        let config = self.running.dir.path().join(NAME).with_extension("toml");
        let mut command = Command::new(program(NAME)?);
        command.arg("key").args(arguments).arg("--config").arg(config).env_clear();
        let output = command.output().context("start thermae-gateway key")?;
        ensure!(output.status.success(), "key {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }
}

/// The id in the text of a key.
///
/// # Errors
/// The text is no key.
pub fn id_of(key: &str) -> Result<&str> {
    key.get(4..20).context("no key")
}
