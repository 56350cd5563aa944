//! The command line, as data.

mod job;
mod upkeep;

use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use thermae_service::secret::Secret;
use thermae_service::tls::Tls;
use thermae_service::units::{ByteSize, Millis};

pub(crate) use self::job::{Class, IfGone, JobArgs};
pub(crate) use self::upkeep::{DoctorArgs, SessionsArgs, SessionsVerb, TrustArgs};

const EXAMPLES: &str = "\
Examples:
  thermae run hello.py                          run a program in a fresh sandbox on this machine
  echo 'print(1+1)' | thermae run -             the same, from standard input
  thermae run report.py --tool 'get_sales=python3 sales.py'
                                                let the program call a tool of yours
  thermae trust thermae.toml                    use its tools for the programs beside it
  thermae batch jobs.jsonl --out results.jsonl  run many; a rerun does only what is missing
  THERMAE_AMQP_FILE=fleet.url thermae run hello.py
                                                run it on the fleet whose URL is in that file
  thermae doctor                                what this machine allows, and what to do about the rest

Exit status: 0 success; 1 the code failed; 2 usage; 3 the fleet failed; 130 interrupted.
";

/// Runs code that AI agents write, each program in a fresh, sealed sandbox: on this machine, or on a fleet.
#[derive(Debug, Parser)]
#[command(name = "thermae", version, after_help = EXAMPLES, max_term_width = 110)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Whether to use colours.
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN", hide_possible_values = true, help = "Colours: auto, always, never")]
    pub(crate) color: Color,
    /// Tell more about what happens inside; twice for all of it.
    #[arg(short, long, global = true, action = clap::ArgAction::Count, help = "Log more to standard error (-vv for all; THERMAE_LOG for a filter)")]
    pub(crate) verbose: u8,
    /// Let a terminal have control characters as they are.
    #[arg(long, global = true, help = "Print control characters of jobs to a terminal as they are, not as \\x1b")]
    pub(crate) raw: bool,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// Where a terminal shows them.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run one program
    Run(Box<RunArgs>),
    /// Run a file of jobs, and write a file of results
    Batch(Box<BatchArgs>),
    /// Trust a tools file: the programs beside it may use its tools from then on
    Trust(TrustArgs),
    /// List or close a tenant's sessions on a fleet
    Sessions(Box<SessionsArgs>),
    /// Say what this machine allows, and what to do about what is missing
    Doctor(DoctorArgs),
    /// Print a completion script for a shell
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print a page of the documentation that is made from the program.
    #[command(hide = true)]
    Reference {
        /// Which page.
        page: Page,
    },
}

/// Generated pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Page {
    /// docs/configuration.md
    Configuration,
    /// docs/errors.md
    Errors,
}

/// Which fleet.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Fleet")]
pub(crate) struct FleetArgs {
    /// RabbitMQ of the fleet, as amqp://USER@HOST:PORT, or amqps://… by TLS; without it, the embedded fleet of this process.
    /// A URL with a password belongs into the environment or a file, not into an argument
    #[arg(long, env = "THERMAE_AMQP", hide_env_values = true, value_name = "URL", group = "remote")]
    pub(crate) amqp: Option<Secret>,
    /// File that holds the URL
    #[arg(long, env = "THERMAE_AMQP_FILE", hide_env_values = true, value_name = "FILE", value_parser = any_path(), group = "remote")]
    pub(crate) amqp_file: Option<PathBuf>,
    /// File that holds the password, in place of the URL's; THERMAE_AMQP_PASSWORD is the password itself
    #[arg(long, env = "THERMAE_AMQP_PASSWORD_FILE", hide_env_values = true, value_name = "FILE", value_parser = any_path())]
    pub(crate) amqp_password_file: Option<PathBuf>,
    /// PEM file of the authorities to trust behind amqps://; the system's by default
    #[arg(long, env = "THERMAE_TLS_CA", hide_env_values = true, value_name = "FILE", value_parser = any_path())]
    pub(crate) tls_ca: Option<PathBuf>,
    /// PEM file of our certificate, for servers that want one
    #[arg(long, env = "THERMAE_TLS_CERT", hide_env_values = true, value_name = "FILE", value_parser = any_path(), requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// PEM file of its private key
    #[arg(long, env = "THERMAE_TLS_KEY", hide_env_values = true, value_name = "FILE", value_parser = any_path(), requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Tenant whose jobs these are; the URL's user by default
    #[arg(long, env = "THERMAE_TENANT", hide_env_values = true, value_name = "NAME", requires = "remote")]
    pub(crate) tenant: Option<String>,
    /// How long to wait for a fleet that does not answer
    #[arg(long, default_value = "30s", value_name = "TIME")]
    pub(crate) connect_timeout: Millis,
    /// Python of the embedded fleet's sandboxes; that of the active virtualenv, else of PATH, by default
    #[arg(long, env = "THERMAE_PYTHON", hide_env_values = true, value_name = "PATH", value_parser = any_path())]
    pub(crate) python: Option<PathBuf>,
}

/// A path, which may be empty: that stands for none, where a variable is set to nothing.
fn any_path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

/// A path that is not empty.
fn set(path: Option<&PathBuf>) -> Option<PathBuf> {
    path.filter(|path| !path.as_os_str().is_empty()).cloned()
}

impl FleetArgs {
    /// The fleet's URL. A variable that is set to nothing counts as absent, as in every program of the fleet; an option that is
    /// given does not.
    pub(crate) fn amqp(&self) -> Option<&Secret> {
        let unset = std::env::var_os("THERMAE_AMQP").is_some_and(|value| value.is_empty());
        self.amqp.as_ref().filter(|url| !(unset && url.expose().is_empty()))
    }

    /// The file that holds the URL.
    pub(crate) fn amqp_file(&self) -> Option<PathBuf> {
        set(self.amqp_file.as_ref())
    }

    /// The file that holds the password.
    pub(crate) fn amqp_password_file(&self) -> Option<PathBuf> {
        set(self.amqp_password_file.as_ref())
    }

    /// Whether a fleet is named, so that it is not the embedded one.
    pub(crate) fn is_remote(&self) -> bool {
        self.amqp().is_some() || self.amqp_file().is_some()
    }

    /// Whom to trust, and what to show.
    pub(crate) fn tls(&self) -> Tls {
        Tls { ca: set(self.tls_ca.as_ref()), cert: set(self.tls_cert.as_ref()), key: set(self.tls_key.as_ref()) }
    }

    /// The tenant's name.
    pub(crate) fn tenant(&self) -> Option<&str> {
        self.tenant.as_deref().filter(|name| !name.is_empty())
    }

    /// The interpreter.
    pub(crate) fn python(&self) -> Option<PathBuf> {
        set(self.python.as_ref())
    }
}

/// What the embedded fleet gives its jobs.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Embedded fleet")]
pub(crate) struct EmbeddedArgs {
    /// File or folder that the code finds at /data/NAME, read-only. May be repeated
    #[arg(long, value_name = "NAME=PATH")]
    pub(crate) data: Vec<String>,
    /// Size of a sandbox's writable storage: /workspace, /session, /tmp and /dev/shm together
    #[arg(long, value_name = "SIZE")]
    pub(crate) disk: Option<ByteSize>,
}

/// The tools that code may call.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Tools")]
pub(crate) struct ToolArgs {
    /// A tool that the code may call: a shell command that gets the arguments as JSON on standard input and prints its
    /// result as JSON. May be repeated
    #[arg(long = "tool", value_name = "NAME=COMMAND")]
    pub(crate) tools: Vec<String>,
    /// File with a [tools] table; a thermae.toml beside the program by default, if you trust it (thermae trust)
    #[arg(long, visible_alias = "tools", value_name = "FILE")]
    pub(crate) tools_file: Option<PathBuf>,
}

/// What a job may use.
#[derive(Debug, Clone, Default, Args)]
#[command(
    next_help_heading = "Limits (a fleet's pool says how much at most; the embedded fleet gives what the machine has)"
)]
pub(crate) struct LimitArgs {
    /// Wall clock, for example 10s
    #[arg(long, value_name = "TIME")]
    pub(crate) wall: Option<Millis>,
    /// CPU time
    #[arg(long, value_name = "TIME")]
    pub(crate) cpu: Option<Millis>,
    /// Memory, for example 128MiB
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<ByteSize>,
    /// Processes and threads
    #[arg(long, value_name = "N")]
    pub(crate) pids: Option<u32>,
    /// Standard output and standard error together
    #[arg(long, value_name = "SIZE")]
    pub(crate) output: Option<ByteSize>,
    /// How long a tool call may wait for its answer
    #[arg(long, value_name = "TIME")]
    pub(crate) tool_wait: Option<Millis>,
}

const RUN_EXAMPLES: &str = "\
Examples:
  thermae run hello.py
  thermae run - < hello.py
  thermae run hello.py --wall 5s --memory 64MiB --env MODE=test --stdin data.csv
  thermae run plot.py --file sales.csv --file fonts/a.ttf:fonts/a.ttf --artifacts out
  thermae run report.py --tool 'get_sales=python3 sales.py'
  thermae run totals.py --memory 1GiB --data sales=./sales
  thermae run step1.py --session s1 --amqp-file fleet.url && thermae run step2.py --session s1 --amqp-file fleet.url
  thermae run hello.py --json | jq .usage

The program's output goes to standard output and standard error as it comes. Its exit status does not become
ours: 0 success; 1 the code failed; 2 usage, or a job that no fleet would take; 3 the fleet failed; 130 interrupted.
";

/// `thermae run`.
#[derive(Debug, Clone, Args)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct RunArgs {
    /// The program; - for standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Which fleet.
    #[command(flatten)]
    pub(crate) fleet: FleetArgs,
    /// Tools.
    #[command(flatten)]
    pub(crate) tools: ToolArgs,
    /// Limits.
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    /// The embedded fleet.
    #[command(flatten)]
    pub(crate) embedded: EmbeddedArgs,
    /// How the job runs.
    #[command(flatten)]
    pub(crate) job: JobArgs,
    /// Print one JSON object with everything that is known of the outcome
    #[arg(long, help_heading = "Output", conflicts_with_all = ["stream", "value"])]
    pub(crate) json: bool,
    /// Print output while the code runs: auto (on a terminal), always, never
    #[arg(long, help_heading = "Output", value_enum, default_value_t = Stream::Auto, default_missing_value = "always", num_args = 0..=1, require_equals = true, value_name = "WHEN", hide_possible_values = true)]
    pub(crate) stream: Stream,
    /// Print the value of the last expression, too
    #[arg(long, help_heading = "Output")]
    pub(crate) value: bool,
    /// Folder for the files that the code leaves in /workspace/artifacts; made if need be. No file that is there is replaced, and
    /// names that programs execute or read by themselves (thermae.toml, Makefile, .envrc, ...) are left out
    #[arg(long, help_heading = "Output", value_name = "DIR")]
    pub(crate) artifacts: Option<PathBuf>,
}

/// Whether output is shown while it comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Stream {
    /// On a terminal.
    Auto,
    /// Yes.
    Always,
    /// At the end.
    Never,
}

const BATCH_EXAMPLES: &str = "\
Examples:
  thermae batch jobs.jsonl --out results.jsonl
  thermae batch jobs.jsonl --out results.jsonl --concurrency 64 --amqp-file fleet.url
  thermae batch jobs.jsonl --out results.jsonl --retry lost,rejected
  thermae batch plots.jsonl --out results.jsonl --artifacts plots

A line of JOBS is a job: {\"id\": \"a\", \"code\": \"print(1)\"}, and any other field of schemas/json/job.json. A line of RESULTS
has the job's id, its status, stdout, stderr, usage and error. Interrupted or killed, run it again: only what RESULTS lacks
is run.

Exit status: 0 all succeeded; 1 some code failed; 2 usage; 3 the fleet failed, or lost or refused some jobs; 130 interrupted.
";

/// `thermae batch`.
#[derive(Debug, Clone, Args)]
#[command(after_help = BATCH_EXAMPLES)]
pub(crate) struct BatchArgs {
    /// The jobs: JSON Lines
    #[arg(value_name = "JOBS")]
    pub(crate) jobs: PathBuf,
    /// The results: JSON Lines, one appended as each job ends
    #[arg(long, value_name = "RESULTS")]
    pub(crate) out: PathBuf,
    /// Jobs under way at once; twice the processors on the embedded fleet, 32 on a real one, by default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) concurrency: Option<u32>,
    /// How often code may be started, for jobs that do not say it themselves; above 1 only for code that may run twice
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) max_attempts: Option<u32>,
    /// Run these again, though RESULTS has them: statuses, comma-separated
    #[arg(long, value_name = "STATUS", value_delimiter = ',')]
    pub(crate) retry: Vec<String>,
    /// Folder for the files that jobs leave in /workspace/artifacts: each job's in a new folder of its id's name
    #[arg(long, value_name = "DIR")]
    pub(crate) artifacts: Option<PathBuf>,
    /// Which fleet.
    #[command(flatten)]
    pub(crate) fleet: FleetArgs,
    /// Tools.
    #[command(flatten)]
    pub(crate) tools: ToolArgs,
    /// Limits, for jobs that do not say them themselves.
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    /// The embedded fleet.
    #[command(flatten)]
    pub(crate) embedded: EmbeddedArgs,
    /// Print the summary as one JSON object, and no progress
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        super::Cli::command().debug_assert();
    }
}
