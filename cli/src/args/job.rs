//! How a job runs: options of `thermae run`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use thermae_service::units::Millis;

/// How a job runs.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Job")]
pub(crate) struct JobArgs {
    /// Language of the program: python or bash; by default, derived from the file's name
    #[arg(hide_short_help = true, long, value_name = "NAME")]
    pub(crate) language: Option<String>,
    /// File for the program's standard input; - passes on this command's own
    #[arg(long, value_name = "FILE")]
    pub(crate) stdin: Option<PathBuf>,
    /// Give the program a JSON value as the global variable NAME
    ///
    /// @FILE reads it from a file. Can be repeated
    #[arg(long = "input", value_name = "NAME=JSON")]
    pub(crate) inputs: Vec<String>,
    /// Copy a file into /workspace, under its own name or as DEST
    ///
    /// DEST is relative to /workspace. Can be repeated
    #[arg(long = "file", value_name = "SRC[:DEST]")]
    pub(crate) files: Vec<String>,
    /// Allow only the tool calls that this JSON file of capabilities lists; an empty list allows none
    #[arg(hide_short_help = true, long, value_name = "FILE")]
    pub(crate) capabilities: Option<PathBuf>,
    /// Allow only the tool calls that the capability token in this file allows, too; - reads it from standard input
    #[arg(hide_short_help = true, long, value_name = "FILE")]
    pub(crate) capability_token: Option<PathBuf>,
    /// Set an environment variable for the program
    ///
    /// NAME alone copies it from this command's environment. Can be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) env: Vec<String>,
    /// Run in this session, which keeps its variables for its next job
    ///
    /// On the embedded fleet, a session ends with this command
    #[arg(long, value_name = "NAME")]
    pub(crate) session: Option<String>,
    /// What to do if the session existed and is gone: fail, or start a new one (new)
    #[arg(hide_short_help = true, long, value_name = "WHAT", value_enum, default_value_t = IfGone::Fail, hide_possible_values = true, requires = "session")]
    pub(crate) if_gone: IfGone,
    /// Start a new session of this name, and discard what the old one held
    #[arg(hide_short_help = true, long, requires = "session")]
    pub(crate) reset_session: bool,
    /// Close the session after this job
    #[arg(hide_short_help = true, long, requires = "session")]
    pub(crate) close_session: bool,
    /// Store the session's files after each of its jobs (after_job), so that they survive the death of its worker
    #[arg(
        hide_short_help = true,
        long,
        value_name = "WHEN",
        value_enum,
        hide_possible_values = true,
        requires = "session"
    )]
    pub(crate) checkpoint: Option<When>,
    /// How long each checkpoint is kept, for example 7d; by default, as the fleet says
    #[arg(hide_short_help = true, long, value_name = "TIME", requires = "session")]
    pub(crate) checkpoint_ttl: Option<Millis>,
    /// Begin a new session with the files of this session's checkpoint
    #[arg(hide_short_help = true, long, value_name = "NAME", requires = "session")]
    pub(crate) restore: Option<String>,
    /// Pool to run in; by default, the pool `default`
    #[arg(hide_short_help = true, long, value_name = "NAME")]
    pub(crate) pool: Option<String>,
    /// Urgency among the tenant's own jobs: high, normal or low
    #[arg(hide_short_help = true, long, value_enum, default_value_t = Class::Normal, value_name = "CLASS", hide_possible_values = true)]
    pub(crate) class: Class,
    /// Number of times that the code may be started. Use more than 1 only for code that can safely run twice
    #[arg(hide_short_help = true, long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) max_attempts: u32,
    /// Give up if the program hasn't started within this time, for example 1m
    #[arg(hide_short_help = true, long, value_name = "TIME")]
    pub(crate) start_within: Option<Millis>,
    /// Treat jobs with the same key as one job: later ones get the outcome of the first
    #[arg(hide_short_help = true, long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
}

/// What to do when a session is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum IfGone {
    /// Fail
    Fail,
    /// Start a new session
    New,
}

/// When a session's files are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum When {
    /// After each job
    #[value(name = "after_job")]
    AfterJob,
}

/// How urgent a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Class {
    /// Before the tenant's other jobs
    High,
    /// The default
    Normal,
    /// After the tenant's other jobs
    Low,
}
