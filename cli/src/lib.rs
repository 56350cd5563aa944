//! The `thermae` program. Programs of others use the crate `thermae-fleet`.
//!
//! ```text
//!  main ─▶ runner_entry?  ── yes ─▶ the runner (started by the embedded fleet's worker)
//!     │
//!     ├──▶ args ─▶ run │ batch │ sessions │ approvals │ doctor ─▶ fleet ─▶ thermae_fleet: the embedded fleet, or a real one
//!     │                   │
//!     │                   └─ tools: commands of this machine that the code may call
//!     ├──▶ args ─▶ key ─▶ becomes the program thermae-gateway
//!     ├──▶ args ─▶ serve ─▶ thermae_gateway: the same fleets over HTTP
//!     └──▶ args ─▶ bridge ─▶ thermae_bridge: the same fleets for another program, over a socket
//! ```

mod advice;
mod approvals;
mod args;
mod artifacts;
mod audit;
mod batch;
mod bridge;
mod doctor;
mod failure;
mod fleet;
#[cfg(test)]
mod hostile;
mod key;
mod reference;
mod run;
mod serve;
mod sessions;
mod style;
mod tools;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use thermae_service::tls::Tls;
use thermae_service::{signals, telemetry};

use args::{Cli, Color, Command};
use failure::{Exit, Failure};

/// Parses the command line and runs the command. Must be called while the process has only one thread.
pub fn main() -> ExitCode {
    if let Some(status) = thermae_fleet::runner_entry().or_else(probe) {
        return status;
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => error.exit(),
        Err(told) => {
            style::print_styled(&told.render().ansi().to_string());
            return finish(Exit::Success).into();
        }
    };
    if cli.raw {
        style::raw();
    }
    match cli.color {
        Color::Auto => {}
        Color::Always => anstream::ColorChoice::Always.write_global(),
        Color::Never => anstream::ColorChoice::Never.write_global(),
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            style::error("internal", &format!("the runtime can't start: {error}"), None);
            return Exit::Fleet.into();
        }
    };
    let exit = runtime.block_on(start(cli));
    // There is nothing to wait for: tasks that still run belong to a fleet that is already closed.
    runtime.shutdown_background();
    finish(exit).into()
}

/// If this process was started by the doctor to try namespaces, tries them and gives its exit status.
fn probe() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    (args.next()? == doctor::PROBE).then(|| doctor::probe(args.next() == Some(OsString::from("inner"))))
}

/// The exit status. If output was lost, reports that, too: no command succeeds without its output.
fn finish(exit: Exit) -> Exit {
    let Some(why) = style::lost() else { return exit };
    let failure = Failure::usage("output_not_written", format!("can't write to standard output: {why}"));
    let failure = failure.help("free some space there, or send the output elsewhere");
    failure.report(false);
    if exit == Exit::Success { failure.exit } else { exit }
}

async fn start(cli: Cli) -> Exit {
    let options = telemetry::Options {
        log: match cli.verbose {
            0 => "error".to_owned(),
            1 => "info".to_owned(),
            _ => "debug".to_owned(),
        },
        ..telemetry::Options::default()
    };
    let as_json = match &cli.command {
        Command::Run(args) => args.json,
        Command::Batch(args) => args.json,
        Command::Doctor(args) => args.json,
        Command::Sessions(args) => sessions::as_json(args),
        Command::Approvals(args) => approvals::as_json(args),
        Command::Audit(args) => args.json,
        Command::Serve(_)
        | Command::Key(_)
        | Command::Trust(_)
        | Command::Bridge(_)
        | Command::Completions { .. }
        | Command::Reference { .. } => false,
    };
    let guard = match telemetry::init("thermae", &options, &tls(&cli.command)) {
        Ok(guard) => guard,
        Err(error) => {
            Failure::usage("bad_log_options", failure::chain(&error)).report(as_json);
            return Exit::Usage;
        }
    };
    let exit = execute(&cli.command).await.unwrap_or_else(|failure| {
        failure.report(as_json);
        failure.exit
    });
    guard.shutdown().await;
    exit
}

/// TLS options for the collector of traces. They are those of the fleet.
fn tls(command: &Command) -> Tls {
    match command {
        Command::Run(args) => args.fleet.access.tls(),
        Command::Batch(args) => args.fleet.access.tls(),
        Command::Sessions(args) => sessions::fleet(args).access.tls(),
        Command::Approvals(args) => approvals::fleet(args).access.tls(),
        Command::Serve(args) => args.fleet.access.tls(),
        Command::Bridge(args) => args.access.tls(),
        Command::Key(_)
        | Command::Trust(_)
        | Command::Audit(_)
        | Command::Doctor(_)
        | Command::Completions { .. }
        | Command::Reference { .. } => Tls::default(),
    }
}

async fn execute(command: &Command) -> Result<Exit, Failure> {
    let interrupt = || {
        signals::shutdown()
            .map_err(|error| Failure::fleet("internal", format!("can't set up signal handlers: {error}")))
    };
    match command {
        Command::Run(args) => run::run(args, &interrupt()?).await,
        Command::Batch(args) => batch::batch(args, &interrupt()?).await,
        Command::Sessions(args) => sessions::sessions(args, &interrupt()?).await,
        Command::Approvals(args) => approvals::approvals(args, &interrupt()?).await,
        Command::Serve(args) => serve::serve(args, &interrupt()?).await,
        Command::Key(args) => Err(key::key(args)),
        Command::Doctor(args) => doctor::doctor(args, &interrupt()?).await,
        Command::Trust(args) => tools::trust(args),
        Command::Audit(args) => audit::audit(args),
        Command::Bridge(args) => bridge::bridge(args).await,
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "thermae", &mut script);
            style::print(&script);
            Ok(Exit::Success)
        }
        Command::Reference { page } => {
            style::print(reference::page(*page).as_bytes());
            Ok(Exit::Success)
        }
    }
}
