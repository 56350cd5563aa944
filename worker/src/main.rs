//! `thermae-worker`: serves pools of a fleet that has RabbitMQ and Redis.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    // The native backend starts this very program as its runner; that must happen before any thread exists.
    if args.next().is_some_and(|a| a == "__runner") {
        return thermae_runner::main_with(args);
    }
    ExitCode::from(2)
}
