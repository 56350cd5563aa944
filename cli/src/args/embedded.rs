//! Options of the embedded fleet, which `run`, `batch` and `serve` have.

use std::path::PathBuf;

use clap::Args;
use thermae_service::units::{ByteSize, Millis};

/// What the embedded fleet gives its jobs.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Embedded fleet")]
pub(crate) struct EmbeddedArgs {
    /// Give the program this file or folder at /data/NAME, read-only
    ///
    /// Can be repeated
    #[arg(long, value_name = "NAME=PATH")]
    pub(crate) data: Vec<String>,
    /// Size of a sandbox's writable storage, for example 256MiB; by default 64MiB
    ///
    /// It is that of /workspace, /session, /tmp and /dev/shm together
    #[arg(hide_short_help = true, long, value_name = "SIZE")]
    pub(crate) disk: Option<ByteSize>,
    /// Import this module before programs need it, so that their imports take no time. Can be repeated; by default,
    /// numpy and pandas
    #[arg(hide_short_help = true, long, value_name = "MODULE", value_delimiter = ',')]
    pub(crate) preload: Vec<String>,
    /// Keep artifacts and the checkpoints of sessions in this folder; by default, they end with the command
    #[arg(hide_short_help = true, long, value_name = "FOLDER")]
    pub(crate) store: Option<PathBuf>,
    /// Number of sessions that may live at once, by default 16. A new one then ends the one that was used longest ago,
    /// if it was unused for --session-min-idle
    #[arg(hide_short_help = true, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) max_sessions: Option<u32>,
    /// How long a session must be unused before it may make room for another one, by default 30s
    #[arg(hide_short_help = true, long, value_name = "TIME")]
    pub(crate) session_min_idle: Option<Millis>,
    /// Memory for answers to tool calls that one program has not read, by default 32MiB. Further ones are on the disk
    #[arg(hide_short_help = true, long, value_name = "SIZE")]
    pub(crate) answers_run_memory: Option<ByteSize>,
    /// Memory for such answers of all programs, by default 128MiB. Further ones are on the disk
    #[arg(hide_short_help = true, long, value_name = "SIZE")]
    pub(crate) answers_memory: Option<ByteSize>,
    /// Size of all answers on the disk, by default 4096MiB. A further one is dropped, and its call raises ToolError
    /// (tool_answer_limit)
    #[arg(hide_short_help = true, long, value_name = "SIZE")]
    pub(crate) answers_disk: Option<ByteSize>,
    /// Folder for these answers, by default /var/tmp. None is left when the command ends
    #[arg(hide_short_help = true, long, value_name = "FOLDER")]
    pub(crate) answers_dir: Option<PathBuf>,
    /// Append a line of JSON to this file for each tool call, and one for its end (thermae audit)
    #[arg(hide_short_help = true, long, value_name = "FILE")]
    pub(crate) audit: Option<PathBuf>,
    /// Leave the values at this path of the arguments out of the audit log, for example card/number or **/password. Can
    /// be repeated
    #[arg(hide_short_help = true, long, value_name = "PATH", requires = "audit")]
    pub(crate) audit_redact: Vec<String>,
    /// Folder with the public keys of those whose capability tokens jobs may use, such as 1.pem
    #[arg(hide_short_help = true, long, value_name = "DIR")]
    pub(crate) token_keys: Option<PathBuf>,
    /// File with the revoked tokens, one revocation id in each line
    #[arg(hide_short_help = true, long, value_name = "FILE", requires = "token_keys")]
    pub(crate) token_revoked: Option<PathBuf>,
    /// How far clocks may differ, at most 5m; by default 30s. Tokens are valid by so much longer, and earlier
    #[arg(hide_short_help = true, long, value_name = "TIME", requires = "token_keys")]
    pub(crate) token_skew: Option<Millis>,
}
