//! Arguments of `thermae serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use thermae_service::secret::Secret;

use super::{EmbeddedArgs, FleetArgs, LimitArgs, MORE, any_path, set};

const SERVE_EXAMPLES: &str = "\
Examples:
  thermae serve
  thermae serve --memory 1GiB --wall 5m --disk 512MiB --preload polars
  THERMAE_TOKEN_FILE=token thermae serve --listen 127.0.0.1:9000
  THERMAE_AMQP_FILE=fleet.url thermae serve

Limits are those of programs that ask for none, and programs may ask for as much. Programs can import the packages \
of --python: name the Python of a virtual environment that has what they need.

Everybody who has the token can run programs, and see all runs and sessions. HTTP is not encrypted: put a proxy that \
speaks TLS in front of the gateway before others reach it over a network.

SIGTERM or Ctrl-C ends the gateway in order, and a second one at once.

Exit status: 0 it was asked to end; 2 usage; 3 the fleet failed; 130 or 143 ended at once.
";

/// `thermae serve`.
#[derive(Debug, Args)]
#[command(after_help = MORE, after_long_help = SERVE_EXAMPLES)]
pub(crate) struct ServeArgs {
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1:8420", value_name = "ADDRESS:PORT", help_heading = "Gateway")]
    pub(crate) listen: SocketAddr,
    /// Token that requests must carry, at least 16 characters; by default, a new one, which is printed once. Pass it in
    /// the environment or in a file: all users of the machine can read arguments
    #[arg(
        hide_short_help = true,
        long,
        env = "THERMAE_TOKEN",
        hide_env_values = true,
        value_name = "TOKEN",
        help_heading = "Gateway",
        group = "shown"
    )]
    token: Option<Secret>,
    /// File that contains the token
    #[arg(long, env = "THERMAE_TOKEN_FILE", hide_env_values = true, value_name = "FILE", value_parser = any_path(), help_heading = "Gateway", group = "shown")]
    token_file: Option<PathBuf>,
    /// Number of programs that run at once on the embedded fleet; by default, twice the processors
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096), help_heading = "Embedded fleet")]
    pub(crate) slots: Option<u32>,
    /// Which fleet.
    #[command(flatten)]
    pub(crate) fleet: FleetArgs,
    /// Limits of the programs that ask for none. They are also the most that others may ask for, if they are above
    /// what every program may.
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    /// The embedded fleet.
    #[command(flatten)]
    pub(crate) embedded: EmbeddedArgs,
}

impl ServeArgs {
    /// The token. A variable that is set to nothing counts as absent.
    pub(crate) fn token(&self) -> Option<&Secret> {
        let unset = std::env::var_os("THERMAE_TOKEN").is_some_and(|value| value.is_empty());
        self.token.as_ref().filter(|token| !(unset && token.expose().is_empty()))
    }

    /// The file that contains the token.
    pub(crate) fn token_file(&self) -> Option<PathBuf> {
        set(self.token_file.as_ref())
    }
}
