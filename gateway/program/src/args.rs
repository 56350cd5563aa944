//! The command line.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{Parser, Subcommand};
use serde_json::json;
use thermae_gateway::Config;
use thermae_keys::{KeyId, Scope};
use thermae_schemas::TenantName;
use thermae_service::config::{self, ENV_PREFIX};
use thermae_service::program::Failure;
use thermae_service::secret;

use crate::credentials::Credentials;
use crate::store::Place;

/// Serve a fleet over HTTP, to the holders of API keys.
///
/// Several gateways can serve one fleet, if they share a store of keys. The configuration comes from the defaults, the
/// file, the environment (variables that begin with `THERMAE_`) and the options. Later ones win.
#[derive(Debug, Parser)]
#[command(name = crate::NAME, version)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// What names the configuration.
#[derive(Debug, clap::Args)]
pub(crate) struct Common {
    /// Configuration file (TOML); by default, none is read.
    #[arg(long, global = true, value_name = "FILE", env = "THERMAE_CONFIG")]
    config: Option<OsString>,
    /// Store of API keys: sqlite:PATH or postgres://…. Pass a URL with a password in THERMAE_GATEWAY__KEYS, or in a
    /// file that THERMAE_GATEWAY__KEYS_FILE names.
    #[arg(long, global = true, value_name = "URL")]
    keys: Option<String>,
    /// Address to serve callers at; by default 127.0.0.1:8420.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
}

/// What to do besides serving.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make, list and revoke API keys
    #[command(subcommand)]
    Key(Verb),
}

/// What to do with keys.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Make a key, and print it. It is shown this once
    Create {
        /// Tenant for which its owner acts
        #[arg(long, value_name = "NAME")]
        tenant: TenantName,
        /// What it may be used for: run, read, answer, approve, sessions, artifacts, tokens or admin. Can be repeated,
        /// or a list with commas
        #[arg(long = "scope", value_name = "SCOPE", required = true, value_delimiter = ',')]
        scopes: Vec<Scope>,
        /// A name for people
        #[arg(long, value_name = "TEXT", default_value = "unnamed")]
        name: String,
        /// When it expires: a time from now such as 12h or 90d, or a moment such as 2027-01-31T00:00:00Z. By default,
        /// it doesn't
        #[arg(long, value_name = "TIME", value_parser = crate::key::expiry)]
        expires: Option<u64>,
        /// Most requests per minute; by default, there is no limit of its own
        #[arg(long, value_name = "N")]
        rate: Option<NonZeroU32>,
        /// Most runs under way at once; by default, there is no limit of its own
        #[arg(long, value_name = "N")]
        runs: Option<NonZeroU32>,
        /// Print the key and its entry as one JSON object
        #[arg(long)]
        json: bool,
    },
    /// List keys, without their secrets
    List {
        /// Only keys of this tenant
        #[arg(long, value_name = "NAME")]
        tenant: Option<TenantName>,
        /// Print one JSON object for each key, one on a line
        #[arg(long)]
        json: bool,
    },
    /// Revoke a key. Every gateway refuses it within five seconds
    Revoke {
        /// Id of the key: the 16 digits after thm_
        #[arg(value_name = "ID")]
        id: KeyId,
        /// Only if it is a key of this tenant
        #[arg(long, value_name = "NAME")]
        tenant: Option<TenantName>,
        /// Print the entry as JSON
        #[arg(long)]
        json: bool,
    },
}

impl Verb {
    /// Whether it prints JSON.
    pub(crate) fn as_json(&self) -> bool {
        let (Self::Create { json, .. } | Self::List { json, .. } | Self::Revoke { json, .. }) = self;
        *json
    }
}

impl Common {
    /// Reads the configuration.
    fn read(&self) -> Result<Config, Failure> {
        if self.keys.as_deref().is_some_and(secret::has_password) {
            return Err(Failure::usage(anyhow::anyhow!(
                "every user of this machine can read the arguments of a process: put the URL with its password into \
                 THERMAE_GATEWAY__KEYS, or name a file that holds it with THERMAE_GATEWAY__KEYS_FILE"
            )));
        }
        // An empty variable counts as not set.
        let file = self.config.as_ref().filter(|path| !path.is_empty()).map(PathBuf::from);
        let flags = [("gateway.keys", json!(self.keys)), ("gateway.listen", json!(self.listen))];
        let flags = flags.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        config::load(file.as_deref(), ENV_PREFIX, flags).map_err(Failure::usage)
    }

    /// Reads the configuration of a gateway, and checks it.
    pub(crate) fn load(&self) -> Result<Config, Failure> {
        let config = self.read()?;
        config.gateway.check().map_err(Failure::usage)?;
        self.place_in(&config)?;
        Credentials::of(&config).map_err(Failure::usage)?;
        Ok(config)
    }

    /// Where the store of keys is.
    pub(crate) fn place(&self) -> Result<Place, Failure> {
        self.place_in(&self.read()?)
    }

    fn place_in(&self, config: &Config) -> Result<Place, Failure> {
        Place::of(&config.gateway).map_err(Failure::usage)
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Args::command().debug_assert();
    }
}
