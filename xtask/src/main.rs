//! What people who develop Thermae run: services, images, tests, attacks, benches.

#![forbid(unsafe_code)]

mod attack;
mod bench;
mod cargo;
mod cpython;
mod deny;
mod fleet;
mod fuzz;
mod hostile;
mod http;
mod images;
mod lanes;
mod pairs;
mod paths;
mod process;
mod services;
mod soak;
mod stats;
mod supervise;
mod test;

use std::{path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::images::engine::Engine;
use crate::services::{Service, set::Set};
use crate::test::Step;

/// Tasks of the people who develop Thermae.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", version)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// RabbitMQ, Redis and Docker: for people, and private sets for tests.
    #[command(subcommand)]
    Services(ServicesTask),
    /// Builds, sets everything up, and runs every test; ends with `N passed, N failed`.
    Test {
        /// Only these steps.
        #[arg(long, value_delimiter = ',')]
        only: Vec<Step>,
        /// For the test programs, after `--`.
        #[arg(last = true)]
        filter: Vec<String>,
    },
    /// Tries every attack on the sandbox, on every backend; ends with `N tried, N held`.
    Attack {
        #[command(flatten)]
        options: attack::Options,
    },
    /// Measures the fleets beside what people use without one; writes target/bench/latest.json.
    Bench {
        #[command(flatten)]
        options: bench::Options,
    },
    /// The bench's rows with the binaries of another checkout and of this one, in turns; an error if a row got slower.
    Pairs {
        #[command(flatten)]
        options: pairs::Options,
    },
    /// Honest and hostile jobs, mixed: every honest one right, every hostile one ended, nothing left.
    Soak {
        #[command(flatten)]
        options: soak::Options,
    },
    /// One hostile tenant, by every means at once, against another one: loses it no job, and bounded in what it is slowed.
    Hostile {
        #[command(flatten)]
        options: hostile::Options,
    },
    /// CPython's own tests in sandboxes and outside, compared case by case.
    Cpython {
        #[command(flatten)]
        options: cpython::Options,
    },
    /// Hostile input for every reader of it, more than the tests try.
    Fuzz {
        #[command(flatten)]
        options: fuzz::Options,
    },
    /// Serves many tenants on a real RabbitMQ, and prints time and memory.
    Lanes {
        #[command(flatten)]
        options: lanes::Options,
    },
    /// Makes the Python sandbox image, with no image registry.
    Image {
        /// Into the engine of this private set instead of the machine's own.
        #[arg(long)]
        set: Option<String>,
        /// Also stand-ins for the images of `compose.yaml`, from packages and release binaries.
        #[arg(long)]
        compose: bool,
        /// A runner that was built already (static).
        #[arg(long)]
        runner: Option<PathBuf>,
    },
}

#[derive(Debug, Subcommand)]
enum ServicesTask {
    /// Starts RabbitMQ, Redis and Docker on the usual ports, unless they are there.
    Up,
    /// Stops what `up` has started.
    Down,
    /// Says what runs, where, and who started it.
    Status,
    /// Starts a private set of test services and leaves it running.
    TestUp {
        /// The set's name: a folder below target/services.
        #[arg(long, default_value = "shared")]
        set: String,
        /// Which servers.
        #[arg(long, value_delimiter = ',', default_values_t = Service::ALL, hide_default_value = true)]
        only: Vec<Service>,
        /// Prints `export NAME='value'` lines.
        #[arg(long)]
        print_env: bool,
    },
    /// Stops a private set and everything it started.
    TestDown {
        /// The set's name.
        #[arg(long, default_value = "shared")]
        set: String,
    },
    /// Prints the environment of a private set that runs.
    TestEnv {
        /// The set's name.
        #[arg(long, default_value = "shared")]
        set: String,
    },
    /// Stops, kills or starts one server of a private set; it keeps its ports and its data.
    TestCtl {
        /// The set's name.
        #[arg(long, default_value = "shared")]
        set: String,
        /// Which server.
        service: Service,
        /// What to do with it.
        action: Action,
    },
}

/// What can be done to one server of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Action {
    /// In order (SIGTERM).
    Stop,
    /// As a crash would (SIGKILL).
    Kill,
    /// Again, on the same ports.
    Start,
    /// RabbitMQ alone: raises its memory alarm, so that it takes no messages.
    Alarm,
    /// RabbitMQ alone: lowers the alarm.
    Calm,
}

impl std::fmt::Display for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

fn main() -> ExitCode {
    match run(Cli::parse().task) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<ExitCode> {
    match task {
        Task::Services(task) => services_task(task)?,
        Task::Attack { options } => return attack::run(&options),
        Task::Bench { options } => bench::run(options)?,
        Task::Soak { options } => soak::run(&options)?,
        Task::Hostile { options } => hostile::run(&options)?,
        Task::Cpython { options } => return cpython::run(&options),
        Task::Fuzz { options } => return fuzz::run(options),
        Task::Lanes { options } => lanes::run(&options)?,
        Task::Pairs { options } => pairs::run(&options)?,
        Task::Test { only, filter } => return test::run(&only, &filter),
        Task::Image { set, compose, runner } => image_task(set, compose, runner)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn services_task(task: ServicesTask) -> Result<()> {
    match task {
        ServicesTask::Up => services::people::up()?,
        ServicesTask::Down => services::people::down()?,
        ServicesTask::Status => services::people::status()?,
        ServicesTask::TestUp { set, only, print_env } => {
            let mut set = Set::open(&set)?;
            services::prometheus::program()?;
            if let Err(error) = set.start(&only) {
                set.stop()?;
                return Err(error);
            }
            if print_env {
                print_environment(&set)?;
            }
        }
        ServicesTask::TestDown { set } => {
            let mut set = Set::open(&set)?;
            set.stop()?;
            let left = set.leftovers();
            anyhow::ensure!(left.is_empty(), "left behind: {}", left.join("; "));
        }
        ServicesTask::TestEnv { set } => print_environment(&Set::open(&set)?)?,
        ServicesTask::TestCtl { set, service, action } => {
            let mut set = Set::open(&set)?;
            match action {
                Action::Stop => set.pause(service),
                Action::Kill => set.kill(service),
                Action::Start => set.start(&[service])?,
                Action::Alarm => set.alarm(service, true)?,
                Action::Calm => set.alarm(service, false)?,
            }
        }
    }
    Ok(())
}

fn image_task(set: Option<String>, compose: bool, runner: Option<PathBuf>) -> Result<()> {
    let engine = match set {
        Some(name) => Engine { socket: Set::open(&name)?.docker_socket()? },
        None => Engine::of_machine(),
    };
    anyhow::ensure!(
        services::docker::answers(&engine.socket),
        "no Docker engine answers at {}: start one (`cargo xtask services up`)",
        engine.socket.display()
    );
    let runner = match runner {
        Some(file) => file,
        None => images::python::build_runner()?,
    };
    images::python::ensure(&engine, &runner)?;
    println!("{}", images::PYTHON);
    if compose {
        images::standins::ensure(&engine)?;
        println!("docker-compose: {}", images::standins::docker_compose()?.display());
    }
    Ok(())
}

fn print_environment(set: &Set) -> Result<()> {
    for (name, value) in set.environment()? {
        println!("export {name}='{value}'");
    }
    Ok(())
}
