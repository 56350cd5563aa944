//! How a job runs: options of `thermae run`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use thermae_service::units::Millis;

/// How a job runs.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Job")]
pub(crate) struct JobArgs {
    /// What the program is written in: python (javascript and shell have no pool yet); by the file's name where missing
    #[arg(long, value_name = "NAME")]
    pub(crate) language: Option<String>,
    /// File for the code's standard input; - for ours
    #[arg(long, value_name = "FILE")]
    pub(crate) stdin: Option<PathBuf>,
    /// File that the code finds in /workspace: under its own name, or as DEST, relative to /workspace. May be repeated
    #[arg(long = "file", value_name = "SRC[:DEST]")]
    pub(crate) files: Vec<String>,
    /// Environment variable for the code; NAME alone passes ours on. May be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) env: Vec<String>,
    /// Run in this session: variables stay for its next job. Sessions of the embedded fleet end with this command
    #[arg(long, value_name = "NAME")]
    pub(crate) session: Option<String>,
    /// When the session existed and is gone: fail, or begin a new one (new)
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = IfGone::Fail, hide_possible_values = true, requires = "session")]
    pub(crate) if_gone: IfGone,
    /// Begin the session anew: what it held is given up
    #[arg(long, requires = "session")]
    pub(crate) reset_session: bool,
    /// Close the session after this job
    #[arg(long, requires = "session")]
    pub(crate) close_session: bool,
    /// Pool to run in
    #[arg(long, value_name = "NAME")]
    pub(crate) pool: Option<String>,
    /// How urgent it is among the tenant's own jobs: high, normal, low
    #[arg(long, value_enum, default_value_t = Class::Normal, value_name = "CLASS", hide_possible_values = true)]
    pub(crate) class: Class,
    /// How often the code may be started; above 1 only for code that may safely run twice
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) max_attempts: u32,
    /// Give up when it has not started within this time
    #[arg(long, value_name = "TIME")]
    pub(crate) start_within: Option<Millis>,
    /// Jobs with the same key are one job: later ones get the first one's outcome
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
}

/// What to do when a session is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum IfGone {
    /// Fail.
    Fail,
    /// Begin a new one.
    New,
}

/// How urgent a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Class {
    /// Somebody waits.
    High,
    /// The default.
    Normal,
    /// Nobody waits.
    Low,
}
