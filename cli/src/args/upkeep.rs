//! Commands that run no code: `trust`, `sessions`, `doctor`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{FleetArgs, any_path};

const TRUST_EXAMPLES: &str = "\
Examples:
  thermae trust                      the thermae.toml of this folder
  thermae trust reports/thermae.toml
  thermae trust --forget reports/thermae.toml

A tools file names commands that run on this machine, outside every sandbox. Read it before you trust it. What is recorded is its
path and its content: a file that changes has to be trusted again. Without that, `thermae run` and `thermae batch` use a tools file
only where --tools-file names it.

Exit status: 0 success; 1 it was not trusted (--forget); 2 usage.
";

/// `thermae trust`.
#[derive(Debug, Args)]
#[command(after_help = TRUST_EXAMPLES)]
pub(crate) struct TrustArgs {
    /// The file; thermae.toml in the current folder by default
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Trust it no longer
    #[arg(long)]
    pub(crate) forget: bool,
}

const SESSIONS_EXAMPLES: &str = "\
Examples:
  thermae sessions list --amqp-file fleet.url
  thermae sessions close s1 s2 --amqp-file fleet.url
  thermae sessions close --all --amqp-file fleet.url

A session is made by its first job (thermae run --session NAME), and begun anew by one with --reset-session.

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
    /// List the sessions that live, as their workers last said
    List {
        /// Which fleet.
        #[command(flatten)]
        fleet: FleetArgs,
        /// Print a JSON array
        #[arg(long, help_heading = "Output")]
        json: bool,
    },
    /// Close sessions, each after the jobs that it still has
    Close {
        /// Their names
        #[arg(value_name = "NAME", required_unless_present = "all", conflicts_with = "all")]
        names: Vec<String>,
        /// All that `list` shows
        #[arg(long)]
        all: bool,
        /// Pool of the sessions that are named
        #[arg(long, value_name = "NAME", conflicts_with = "all")]
        pool: Option<String>,
        /// Which fleet.
        #[command(flatten)]
        fleet: FleetArgs,
    },
}

const DOCTOR_EXAMPLES: &str = "\
Exit status: 0 programs can run here (there may be warnings); 1 they can't: a check marked \"fail\" says why.
";

/// `thermae doctor`.
#[derive(Debug, Args)]
#[command(after_help = DOCTOR_EXAMPLES)]
pub(crate) struct DoctorArgs {
    /// Change settings of this machine so that programs can run: kernel settings and the AppArmor profile; needs root
    #[arg(long)]
    pub(crate) fix: bool,
    /// Print the checks as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Python to look at; that of the active virtualenv, else of PATH, by default
    #[arg(long, env = "THERMAE_PYTHON", hide_env_values = true, value_name = "PATH", value_parser = any_path())]
    pub(crate) python: Option<PathBuf>,
    /// Socket of the container engine
    #[arg(long, default_value = "/var/run/docker.sock", value_name = "PATH")]
    pub(crate) docker: PathBuf,
}
