//! Arguments of `thermae bridge`.

use clap::Args;

use super::AccessArgs;
use crate::bridge::Inherited;

/// `thermae bridge`.
#[derive(Debug, Clone, Args)]
pub(crate) struct BridgeArgs {
    /// Number of the socket, at least 3
    #[arg(long, value_name = "N")]
    pub(crate) fd: Inherited,
    /// Id of the process that is served. The bridge ends with it, even if others hold its end of the socket
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) parent: Option<i32>,
    /// The password and TLS.
    #[command(flatten)]
    pub(crate) access: AccessArgs,
}
