//! The command line.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use thermae_schemas::{ClientId, TenantName};
use thermae_tokens::TokenId;

/// Make, narrow, check and revoke capability tokens.
///
/// A token is a secret, so it is read from a file or from standard input, and never from the command line.
#[derive(Debug, Parser)]
#[command(name = "thermae-token", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make an issuer's key: a private key, and the public key that verifiers need
    Keygen(Keygen),
    /// Mint a token with a private key, and print it
    Mint(Mint),
    /// Take something away from a token, and print the new one. This needs no key
    Narrow(Narrow),
    /// Check a token as a worker would, and print what it says as JSON
    Show(Show),
    /// Add a token to a list of revoked tokens. All that was made from it is revoked, too
    Revoke(Revoke),
}

#[derive(Debug, Args)]
pub(crate) struct Keygen {
    /// New file for the private key, which only its owner may read
    #[arg(long, value_name = "FILE")]
    pub(crate) key: PathBuf,
    /// Folder of the public keys. It gets a new file, named after the key's id
    #[arg(long, value_name = "FOLDER")]
    pub(crate) keys: PathBuf,
    /// Id of the key. It must never name another key
    #[arg(long, value_name = "N")]
    pub(crate) id: u32,
}

#[derive(Debug, Args)]
pub(crate) struct Mint {
    /// File with the private key
    #[arg(long, value_name = "FILE")]
    pub(crate) key: PathBuf,
    /// Id of the key
    #[arg(long, value_name = "N")]
    pub(crate) id: u32,
    /// Tenant whose jobs may use the token
    #[arg(long, value_name = "NAME", value_parser = tenant)]
    pub(crate) tenant: TenantName,
    /// JSON file with the capabilities that the token gives
    #[arg(long, value_name = "FILE")]
    pub(crate) capabilities: PathBuf,
    /// How long the token is valid: 1h, 7days
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) expires_in: Duration,
    /// Most calls of the token and of all that is made from it, together
    #[arg(long, value_name = "N")]
    pub(crate) calls: Option<NonZeroU32>,
    /// Client of the tenant that answers the calls; by default, the client that has the run
    #[arg(long, value_name = "CLIENT", value_parser = client)]
    pub(crate) answers: Option<ClientId>,
    /// Id of the token, for people and logs; by default, a random one
    #[arg(long, value_name = "ID")]
    pub(crate) token_id: Option<TokenId>,
}

#[derive(Debug, Args)]
pub(crate) struct Narrow {
    /// File with the token; - is standard input
    #[arg(value_name = "FILE")]
    pub(crate) token: PathBuf,
    /// JSON file with capabilities that must allow each call, too
    #[arg(long, value_name = "FILE")]
    pub(crate) capabilities: Option<PathBuf>,
    /// How long the new token is valid: 1h, 7days
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) expires_in: Option<Duration>,
    /// Most calls of the new token and of all that is made from it, together
    #[arg(long, value_name = "N")]
    pub(crate) calls: Option<NonZeroU32>,
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// File with the token; - is standard input
    #[arg(value_name = "FILE")]
    pub(crate) token: PathBuf,
    /// Folder of the public keys
    #[arg(long, value_name = "FOLDER")]
    pub(crate) keys: PathBuf,
    /// Tenant whose job would use the token
    #[arg(long, value_name = "NAME", value_parser = tenant)]
    pub(crate) tenant: TenantName,
    /// List of revoked tokens
    #[arg(long, value_name = "FILE")]
    pub(crate) revoked: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Revoke {
    /// File with the token; - is standard input
    #[arg(value_name = "FILE")]
    pub(crate) token: PathBuf,
    /// List of revoked tokens; it is made if it is not there
    #[arg(long, value_name = "FILE")]
    pub(crate) revoked: PathBuf,
}

fn tenant(text: &str) -> Result<TenantName, String> {
    TenantName::new(text).map_err(|error| error.to_string())
}

fn client(text: &str) -> Result<ClientId, String> {
    ClientId::new(text).map_err(|error| error.to_string())
}
