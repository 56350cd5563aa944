//! The command line as clap parses it.

mod approvals;
mod bridge;
mod embedded;
mod job;
mod serve;
mod upkeep;

use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use thermae_service::secret::Secret;
use thermae_service::tls::Tls;
use thermae_service::units::{ByteSize, Millis};

use crate::style;

pub(crate) use self::approvals::{ApprovalsArgs, ApprovalsVerb};
pub(crate) use self::bridge::BridgeArgs;
pub(crate) use self::embedded::EmbeddedArgs;
pub(crate) use self::job::{Class, IfGone, JobArgs, When};
pub(crate) use self::serve::ServeArgs;
pub(crate) use self::upkeep::{AuditArgs, DoctorArgs, KeyArgs, SessionsArgs, SessionsVerb, TrustArgs};

const EXAMPLES: &str = "\
Examples:
  thermae run hello.py                          run a program in a fresh sandbox on this machine
  echo 'print(1+1)' | thermae run -             read the program from standard input
  thermae run report.py --tool 'get_sales=python3 sales.py'
                                                let the program call a tool of yours
  thermae trust thermae.toml                    let the programs beside that file use its tools
  thermae batch jobs.jsonl --out results.jsonl  run many jobs; a second run skips finished ones
  THERMAE_AMQP_FILE=fleet.url thermae run hello.py
                                                run it on the fleet whose URL is in that file
  thermae serve                                 serve this machine's sandboxes over HTTP
  thermae doctor                                check this machine and suggest fixes

Exit status: 0 success; 1 the code failed; 2 usage; 3 the fleet failed; 130 interrupted.
";

/// What a short help ends with.
const MORE: &str = "These are the options that are used most. --help shows all of them, with examples.";

/// Run code that AI agents write, each program in a fresh sandbox, on this machine or on a fleet
#[derive(Debug, Parser)]
#[command(name = "thermae", version, after_help = EXAMPLES, max_term_width = 110, styles = style::HELP_TEXT)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Whether to use colours.
    #[arg(hide_short_help = true, long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN", hide_possible_values = true, help = "When to use colours: auto, always or never")]
    pub(crate) color: Color,
    /// How much to log.
    #[arg(hide_short_help = true, short, long, global = true, action = clap::ArgAction::Count, help = "Log info (-v) or debug (-vv) to standard error. THERMAE_LOG overrides this")]
    pub(crate) verbose: u8,
    /// Whether a terminal gets control characters unchanged.
    #[arg(hide_short_help = true, long, global = true, help = "Let control characters reach a terminal unchanged")]
    pub(crate) raw: bool,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// If the output goes to a terminal that shows them
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a program in a fresh sandbox
    Run(Box<RunArgs>),
    /// Run a file of jobs and write a file of results
    Batch(Box<BatchArgs>),
    /// Serve a fleet over HTTP
    Serve(Box<ServeArgs>),
    /// Make, list or revoke API keys of a gateway (thermae-gateway key)
    #[command(disable_help_flag = true)]
    Key(KeyArgs),
    /// Trust a tools file, so that the programs beside it can use its tools
    Trust(TrustArgs),
    /// List or close a tenant's sessions on a fleet
    Sessions(Box<SessionsArgs>),
    /// List or decide the calls of a run that wait for approval
    Approvals(ApprovalsArgs),
    /// Check that nobody has changed an audit log
    Audit(AuditArgs),
    /// Check whether programs can run on this machine, and suggest fixes
    Doctor(DoctorArgs),
    /// Print a completion script for a shell
    Completions {
        /// Shell to print the script for
        shell: clap_complete::Shell,
    },
    /// Serve one program's frames on a socket that it has passed on (docs/sdk-protocol.md)
    #[command(hide = true)]
    Bridge(BridgeArgs),
    /// Print a generated page of the documentation
    #[command(hide = true)]
    Reference {
        /// Page to print
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
    /// URL of the fleet's RabbitMQ: amqp://USER@HOST:PORT, or amqps://… for TLS
    ///
    /// Without a URL, programs run on the embedded fleet, which is part of this process. Pass a URL with a password in
    /// the environment or in a file: all users of the machine can read arguments
    #[arg(
        hide_short_help = true,
        long,
        env = "THERMAE_AMQP",
        hide_env_values = true,
        value_name = "URL",
        group = "remote"
    )]
    pub(crate) amqp: Option<Secret>,
    /// File that contains the URL
    #[arg(long, env = "THERMAE_AMQP_FILE", hide_env_values = true, value_name = "FILE", value_parser = any_path(), group = "remote")]
    pub(crate) amqp_file: Option<PathBuf>,
    /// The password and TLS.
    #[command(flatten)]
    pub(crate) access: AccessArgs,
    /// Tenant to act as; by default, the user in the URL
    #[arg(
        hide_short_help = true,
        long,
        env = "THERMAE_TENANT",
        hide_env_values = true,
        value_name = "NAME",
        requires = "remote"
    )]
    pub(crate) tenant: Option<String>,
    /// Time to wait for a fleet that doesn't answer
    #[arg(hide_short_help = true, long, default_value = "30s", value_name = "TIME")]
    pub(crate) connect_timeout: Millis,
    /// Python interpreter for the embedded fleet's sandboxes
    ///
    /// By default, the active virtualenv's, otherwise python3 on PATH
    #[arg(long, env = "THERMAE_PYTHON", hide_env_values = true, value_name = "PATH", value_parser = any_path())]
    pub(crate) python: Option<PathBuf>,
}

/// What a fleet's RabbitMQ asks for.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Fleet")]
pub(crate) struct AccessArgs {
    /// File that contains the password, which replaces the one in the URL. THERMAE_AMQP_PASSWORD can hold the password
    /// itself
    #[arg(hide_short_help = true, long, env = "THERMAE_AMQP_PASSWORD_FILE", hide_env_values = true, value_name = "FILE", value_parser = any_path())]
    pub(crate) amqp_password_file: Option<PathBuf>,
    /// PEM file of the certificate authorities to trust for amqps://; by default, the system's
    #[arg(hide_short_help = true, long, env = "THERMAE_TLS_CA", hide_env_values = true, value_name = "FILE", value_parser = any_path())]
    pub(crate) tls_ca: Option<PathBuf>,
    /// PEM file of the client certificate, for servers that ask for one
    #[arg(hide_short_help = true, long, env = "THERMAE_TLS_CERT", hide_env_values = true, value_name = "FILE", value_parser = any_path(), requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// PEM file of the client certificate's private key
    #[arg(hide_short_help = true, long, env = "THERMAE_TLS_KEY", hide_env_values = true, value_name = "FILE", value_parser = any_path(), requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
}

impl AccessArgs {
    /// The file that contains the password.
    pub(crate) fn amqp_password_file(&self) -> Option<PathBuf> {
        set(self.amqp_password_file.as_ref())
    }

    /// The authorities to trust, and the client certificate.
    pub(crate) fn tls(&self) -> Tls {
        Tls { ca: set(self.tls_ca.as_ref()), cert: set(self.tls_cert.as_ref()), key: set(self.tls_key.as_ref()) }
    }
}

/// Parses a path that may be empty: a variable that is set to nothing counts as absent.
fn any_path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

/// The path, unless it is empty.
fn set(path: Option<&PathBuf>) -> Option<PathBuf> {
    path.filter(|path| !path.as_os_str().is_empty()).cloned()
}

impl FleetArgs {
    /// The fleet's URL. A variable that is set to nothing counts as absent, as in every program of the fleet. An option
    /// with an empty value doesn't.
    pub(crate) fn amqp(&self) -> Option<&Secret> {
        let unset = std::env::var_os("THERMAE_AMQP").is_some_and(|value| value.is_empty());
        self.amqp.as_ref().filter(|url| !(unset && url.expose().is_empty()))
    }

    /// The file that contains the URL.
    pub(crate) fn amqp_file(&self) -> Option<PathBuf> {
        set(self.amqp_file.as_ref())
    }

    /// Whether the options name a real fleet; otherwise, the embedded one is used.
    pub(crate) fn is_remote(&self) -> bool {
        self.amqp().is_some() || self.amqp_file().is_some()
    }

    pub(crate) fn tenant(&self) -> Option<&str> {
        self.tenant.as_deref().filter(|name| !name.is_empty())
    }

    pub(crate) fn python(&self) -> Option<PathBuf> {
        set(self.python.as_ref())
    }
}

/// The tools that code may call.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Tools")]
pub(crate) struct ToolArgs {
    /// Let the program call a shell command as the tool NAME
    ///
    /// The command reads the call's arguments as JSON from standard input, and prints its result as JSON. Can be
    /// repeated
    #[arg(long = "tool", value_name = "NAME=COMMAND")]
    pub(crate) tools: Vec<String>,
    /// File with a [tools] table
    ///
    /// By default, the thermae.toml beside the program or the file of jobs, if you have trusted it (thermae trust)
    #[arg(long, visible_alias = "tools", value_name = "FILE")]
    pub(crate) tools_file: Option<PathBuf>,
    /// Let a call of a tool give its result at once: the program then does not await it
    #[arg(hide_short_help = true, long)]
    pub(crate) sync_tools: bool,
}

/// What a job may use.
#[derive(Debug, Clone, Default, Args)]
#[command(
    next_help_heading = "Limits (pools can change defaults and ceilings; the embedded fleet allows all the machine has)"
)]
pub(crate) struct LimitArgs {
    /// Wall clock time, for example 10s; by default 30s
    #[arg(long, value_name = "TIME")]
    pub(crate) wall: Option<Millis>,
    /// CPU time; by default 30s
    #[arg(hide_short_help = true, long, value_name = "TIME")]
    pub(crate) cpu: Option<Millis>,
    /// Memory, for example 128MiB; by default 256MiB
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<ByteSize>,
    /// Number of processes and threads; by default 64
    #[arg(hide_short_help = true, long, value_name = "N")]
    pub(crate) pids: Option<u32>,
    /// Size of standard output and standard error together; by default 1MiB, and at most 8MiB on the embedded fleet
    #[arg(hide_short_help = true, long, value_name = "SIZE")]
    pub(crate) output: Option<ByteSize>,
    /// Time that a tool call may wait for its answer; by default 240s
    #[arg(hide_short_help = true, long, value_name = "TIME")]
    pub(crate) tool_wait: Option<Millis>,
    /// Time that the program may wait for tools in all, in addition to its wall clock time; by default 240s
    #[arg(hide_short_help = true, long, value_name = "TIME")]
    pub(crate) pause: Option<Millis>,
}

const RUN_EXAMPLES: &str = "\
Examples:
  thermae run hello.py
  thermae run - < hello.py
  thermae run hello.py --wall 5s --memory 64MiB --env MODE=test --stdin data.csv
  thermae run plot.py --file sales.csv --file fonts/a.ttf:fonts/a.ttf --artifacts out
  thermae run report.py --tool 'get_sales=python3 sales.py'
  thermae run totals.py --memory 1GiB --data sales=./sales
  thermae run step1.py --session s1 --amqp-file fleet.url
  thermae run step2.py --session s1 --amqp-file fleet.url
  thermae run hello.py --json | jq .usage

The program's output goes to standard output and standard error. The exit status says how the job ended, and is not \
the program's own.

Exit status: 0 success; 1 the code failed; 2 usage, or a job that no fleet would take; 3 the fleet failed; \
130 interrupted.
";

/// `thermae run`.
#[derive(Debug, Clone, Args)]
#[command(after_help = MORE, after_long_help = RUN_EXAMPLES)]
pub(crate) struct RunArgs {
    /// File of the program; - reads it from standard input
    #[arg(value_name = "FILE", required_unless_present = "command")]
    pub(crate) file: Option<PathBuf>,
    /// Run this command instead of a program, in bash
    #[arg(value_name = "COMMAND", last = true, conflicts_with_all = ["file", "language"])]
    pub(crate) command: Vec<String>,
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
    /// Print the whole outcome as one JSON object, output included
    #[arg(long, help_heading = "Output", conflicts_with_all = ["stream", "value"])]
    pub(crate) json: bool,
    /// Print output while the program runs: auto (if standard output is a terminal), always or never
    #[arg(hide_short_help = true, long, help_heading = "Output", value_enum, default_value_t = Stream::Auto, default_missing_value = "always", num_args = 0..=1, require_equals = true, value_name = "WHEN", hide_possible_values = true)]
    pub(crate) stream: Stream,
    /// Also print the value of the last expression
    #[arg(hide_short_help = true, long, help_heading = "Output")]
    pub(crate) value: bool,
    /// Save the files that the program leaves in /workspace/artifacts to this folder
    ///
    /// The folder is created if needed. Existing files are not replaced. Files whose names other programs execute or
    /// read automatically (thermae.toml, Makefile, .envrc, ...) are left out
    #[arg(long, help_heading = "Output", value_name = "DIR")]
    pub(crate) artifacts: Option<PathBuf>,
}

/// Whether output is shown while it comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Stream {
    /// If standard output is a terminal
    Auto,
    /// While the program runs
    Always,
    /// When the program has ended
    Never,
}

const BATCH_EXAMPLES: &str = "\
Examples:
  thermae batch jobs.jsonl --out results.jsonl
  thermae batch jobs.jsonl --out results.jsonl --concurrency 64 --amqp-file fleet.url
  thermae batch jobs.jsonl --out results.jsonl --retry lost,rejected
  thermae batch plots.jsonl --out results.jsonl --artifacts plots

Each line of JOBS is a job: {\"id\": \"a\", \"code\": \"print(1)\"}, with any other field of schemas/json/job.json. \
Limits on the command line apply to jobs that don't set their own.

Each line of RESULTS has the job's id, its status, stdout, stderr, usage and error. If the command is interrupted or \
killed, run it again: it skips the jobs that have a result in RESULTS.

Exit status: 0 all succeeded; 1 some code failed; 2 usage; 3 the fleet failed, or lost or refused some jobs; \
130 interrupted.
";

/// `thermae batch`.
#[derive(Debug, Clone, Args)]
#[command(after_help = MORE, after_long_help = BATCH_EXAMPLES)]
pub(crate) struct BatchArgs {
    /// File of jobs, as JSON Lines
    #[arg(value_name = "JOBS")]
    pub(crate) jobs: PathBuf,
    /// File of results, as JSON Lines. Each result is appended when its job ends
    #[arg(long, value_name = "RESULTS")]
    pub(crate) out: PathBuf,
    /// Number of jobs in flight at once; by default, twice the processors on the embedded fleet, and 32 on a real one
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) concurrency: Option<u32>,
    /// Number of times that code may be started, for jobs that don't set it themselves; by default 1. Use more than 1
    /// only for code that can safely run twice
    #[arg(hide_short_help = true, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) max_attempts: Option<u32>,
    /// Rerun the jobs whose results have one of these statuses (comma-separated)
    #[arg(long, value_name = "STATUS", value_delimiter = ',')]
    pub(crate) retry: Vec<String>,
    /// Save the files that jobs leave in /workspace/artifacts to this folder, each job's in a new folder named after
    /// its id
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
    /// Print the summary as one JSON object, without progress
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// All commands, with those below them.
    fn commands(of: clap::Command) -> Vec<clap::Command> {
        let below: Vec<_> = of.get_subcommands().cloned().flat_map(commands).collect();
        [vec![of.term_width(80)], below].concat()
    }

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_short_help_fits_a_screen_and_a_long_one_has_every_option() {
        let mut cli = Cli::command();
        cli.build();
        // `thermae key` hands its arguments on: another program shows their help.
        for mut command in commands(cli).into_iter().filter(|command| !command.is_disable_help_flag_set()) {
            let (short, long) = (command.render_help().to_string(), command.render_long_help().to_string());
            let name = command.get_bin_name().unwrap_or_default().to_owned();
            assert!(short.lines().count() <= 50, "{name}: {} lines\n{short}", short.lines().count());
            for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
                let shown =
                    argument.get_long().map_or_else(|| argument.get_id().to_string(), |long| format!("--{long}"));
                assert!(long.to_lowercase().contains(&shown.to_lowercase()), "{name}: {shown}");
                if argument.is_hide_short_help_set() {
                    assert!(short.contains("--help"), "{name}: nothing leads to {shown}");
                }
            }
        }
    }

    #[test]
    fn a_terminal_shows_help_without_codes() {
        let mut cli = Cli::command();
        cli.build();
        for mut command in commands(cli) {
            for help in [command.render_help(), command.render_long_help()] {
                let shown = style::cleaned(&help.ansi().to_string());
                assert!(!shown.contains("\\x"), "{shown}");
            }
        }
    }

    #[test]
    fn amounts_and_times_have_units() {
        for (option, value, unit) in [
            ("--wall", "30", "30s"),
            ("--start-within", "5", "5s"),
            ("--connect-timeout", "1.5", "1.5s"),
            ("--memory", "256", "256MiB"),
            ("--disk", "67108864", "67108864B"),
        ] {
            let error = Cli::try_parse_from(["thermae", "run", "a.py", option, value]).unwrap_err().to_string();
            assert!(error.contains("has no unit") && error.contains(unit), "{option}: {error}");
        }
        assert!(Cli::try_parse_from(["thermae", "run", "a.py", "--wall", "30s", "--memory", "1GiB"]).is_ok());
    }
}
