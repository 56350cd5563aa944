//! Commands that run no code: `key`, `trust`, `sessions`, `audit`, `doctor`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{FleetArgs, any_path};

/// `thermae key`.
#[derive(Debug, Args)]
pub(crate) struct KeyArgs {
    /// Arguments of `thermae-gateway key`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    pub(crate) args: Vec<OsString>,
}

const TRUST_EXAMPLES: &str = "\
Examples:
  thermae trust                      trust the thermae.toml in this folder
  thermae trust reports/thermae.toml
  thermae trust --forget reports/thermae.toml

A tools file names commands that run on this machine, outside every sandbox. Read it before you trust it. Thermae \
records the file's path and content: if the file changes, you have to trust it again. `thermae run` and \
`thermae batch` use an untrusted tools file only if --tools-file names it.

Exit status: 0 success; 1 the file was not trusted (--forget); 2 usage.
";

/// `thermae trust`.
#[derive(Debug, Args)]
#[command(after_help = TRUST_EXAMPLES)]
pub(crate) struct TrustArgs {
    /// Tools file; by default, thermae.toml in the current folder
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Stop trusting the file
    #[arg(long)]
    pub(crate) forget: bool,
}

const SESSIONS_EXAMPLES: &str = "\
Examples:
  thermae sessions list --amqp-file fleet.url
  thermae sessions close s1 s2 --amqp-file fleet.url
  thermae sessions close --all --amqp-file fleet.url

The first job of a session creates it (thermae run --session NAME). A job with --reset-session replaces it with a \
new one.

Exit status: 0 success; 1 there was no such session; 2 usage; 3 the fleet failed; 130 interrupted.
";

/// `thermae sessions`.
#[derive(Debug, Args)]
#[command(after_help = SESSIONS_EXAMPLES)]
pub(crate) struct SessionsArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) verb: SessionsVerb,
}

/// What to do with sessions.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionsVerb {
    /// List the live sessions, as their workers last reported them
    List {
        /// Which fleet.
        #[command(flatten)]
        fleet: FleetArgs,
        /// Print the sessions as a JSON array
        #[arg(long, help_heading = "Output")]
        json: bool,
    },
    /// Close sessions, each after the jobs already submitted to it
    Close {
        /// Names of the sessions to close
        #[arg(value_name = "NAME", required_unless_present = "all", conflicts_with = "all")]
        names: Vec<String>,
        /// Close all sessions that `list` shows
        #[arg(long)]
        all: bool,
        /// Pool of the named sessions; by default, the pool `default`
        #[arg(long, value_name = "NAME", conflicts_with = "all")]
        pool: Option<String>,
        /// Which fleet.
        #[command(flatten)]
        fleet: FleetArgs,
    },
}

const AUDIT_EXAMPLES: &str = "\
Examples:
  thermae run report.py --audit calls.jsonl   write down the program's tool calls
  thermae audit calls.jsonl                   check that no line was changed since
  thermae audit calls.1.jsonl calls.jsonl     check a log that was rotated, from its oldest file on

Each line has the digest (SHA-256) of the line before. Who can write the file can also make a new, unbroken log. To notice \
that, keep the last digest elsewhere, and give it with --after the next time.

Exit status: 0 unbroken; 1 broken; 2 usage.
";

/// `thermae audit`.
#[derive(Debug, Args)]
#[command(after_help = AUDIT_EXAMPLES)]
pub(crate) struct AuditArgs {
    /// Files of the log, the oldest first
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Digest that the first line must follow
    #[arg(long, value_name = "DIGEST")]
    pub(crate) after: Option<String>,
    /// Digest that the last line must have
    #[arg(long, value_name = "DIGEST")]
    pub(crate) last: Option<String>,
    /// Print the result as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

const DOCTOR_EXAMPLES: &str = "\
Exit status: 0 programs can run here (there may be warnings); 1 they can't, and the checks marked \"fail\" say why; \
2 usage, or --fix could not make a change.
";

/// `thermae doctor`.
#[derive(Debug, Args)]
#[command(after_help = DOCTOR_EXAMPLES)]
pub(crate) struct DoctorArgs {
    /// Apply the fixes that change kernel settings or load the AppArmor profile. Needs root
    #[arg(long)]
    pub(crate) fix: bool,
    /// Print the checks as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Python interpreter to check; by default, the active virtualenv's, otherwise python3 on PATH
    #[arg(long, env = "THERMAE_PYTHON", hide_env_values = true, value_name = "PATH", value_parser = any_path())]
    pub(crate) python: Option<PathBuf>,
    /// Socket of the container engine (Docker)
    #[arg(long, default_value = "/var/run/docker.sock", value_name = "PATH")]
    pub(crate) docker: PathBuf,
}
