//! `cargo xtask`: services, images, tests, attacks and benches for the developers of Thermae.

#![forbid(unsafe_code)]

mod attack;
mod bench;
mod cargo;
mod cpython;
mod deny;
mod fleet;
mod full;
mod fuzz;
mod hostile;
mod http;
mod images;
mod lanes;
mod openapi;
mod pairs;
mod paths;
mod process;
mod services;
mod soak;
mod stats;
mod supervise;
mod test;
mod venv;
mod wheel;

use std::{path::PathBuf, process::ExitCode};

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::images::engine::Engine;
use crate::services::{Service, set::Set};
use crate::test::Step;

/// Run a development task of Thermae.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", version)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Start and stop RabbitMQ, Redis and Docker, for your own use or for tests.
    #[command(subcommand)]
    Services(ServicesTask),
    /// Build everything, start servers, and run every test.
    ///
    /// The last line is `N passed, N failed`. The exit status is 1 if anything failed.
    Test {
        /// Run only these steps (comma-separated).
        #[arg(long, value_delimiter = ',')]
        only: Vec<Step>,
        /// Arguments for the test programs, such as a part of the names of the tests to run.
        #[arg(last = true)]
        filter: Vec<String>,
    },
    /// Try everything in its long form, one after the other: attack, soak, cpython, openapi, pairs, bench.
    ///
    /// The last lines say how each went, and how long it took. The exit status is 1 if one failed.
    Full {
        #[command(flatten)]
        options: full::Options,
    },
    /// Try attacks on sandboxes, on a fleet and on the command line.
    ///
    /// The last line is `N tried, N held`. The exit status is 1 if an attack did not hold.
    Attack {
        #[command(flatten)]
        options: attack::Options,
    },
    /// Measure the fleets beside what people use without one.
    ///
    /// The rows are written to `target/bench/latest.json`.
    Bench {
        #[command(flatten)]
        options: bench::Options,
    },
    /// Find out whether this checkout is slower than another one.
    ///
    /// Measures the rows of the bench with the binaries of both checkouts, in turns. It is an error if a row got
    /// slower.
    Pairs {
        #[command(flatten)]
        options: pairs::Options,
    },
    /// Run honest and hostile jobs in a mix, and check every answer.
    ///
    /// Every honest job must be answered correctly, every hostile job must end as it should, and nothing may be left
    /// afterwards.
    Soak {
        #[command(flatten)]
        options: soak::Options,
    },
    /// Measure how much a hostile tenant slows down another tenant, the victim.
    ///
    /// The hostile tenant uses every means at once. It is an error if a job of the victim is lost, or if the victim's
    /// 95th percentile is more than three times that beside a benign tenant.
    Hostile {
        #[command(flatten)]
        options: hostile::Options,
    },
    /// Run CPython's own tests in sandboxes and outside, and compare how each test case went.
    Cpython {
        #[command(flatten)]
        options: cpython::Options,
    },
    /// Try more hostile input on all code that reads it than the tests do.
    Fuzz {
        #[command(flatten)]
        options: fuzz::Options,
    },
    /// Try the gateway against its OpenAPI document, with requests that schemathesis makes.
    ///
    /// It is an error if the gateway and the document differ, or if a planted fault is not found.
    Openapi {
        #[command(flatten)]
        options: openapi::Options,
    },
    /// Serve many tenants on a real RabbitMQ, and print the time and memory that this takes.
    Lanes {
        #[command(flatten)]
        options: lanes::Options,
    },
    /// Make the wheels of the Python package in `target/wheels`, and check them.
    ///
    /// One wheel has the program `thermae`, and works on Linux systems with glibc 2.28 or newer. The other one is for
    /// all other systems, and has the package alone. The tools, including a compiler, are installed below
    /// `target/packaging`. The first run takes as long as a build of the program from nothing.
    Wheel {
        #[command(flatten)]
        options: wheel::Options,
    },
    /// Make the Python sandbox image, without an image registry.
    Image {
        /// Put the image into the Docker engine of this private set, instead of the machine's own engine.
        #[arg(long)]
        set: Option<String>,
        /// Also make stand-ins for the images of `compose.yaml`, from packages and release binaries.
        #[arg(long)]
        compose: bool,
        /// Static runner to use; by default, one is built.
        #[arg(long)]
        runner: Option<PathBuf>,
    },
}

#[derive(Debug, Subcommand)]
enum ServicesTask {
    /// Start RabbitMQ, Redis and Docker on the usual ports, unless they are running.
    Up,
    /// Stop what `up` started.
    Down,
    /// Show what runs, where, and who started it.
    Status,
    /// Start a private set of servers for tests, and leave it running.
    TestUp {
        /// Name of the set, which is a folder below target/services.
        #[arg(long, default_value = "shared")]
        set: String,
        /// Servers to start (comma-separated); by default, all.
        #[arg(long, value_delimiter = ',', default_values_t = Service::ALL, hide_default_value = true)]
        only: Vec<Service>,
        /// Print the set's environment as lines of the form `export NAME='value'`.
        #[arg(long)]
        print_env: bool,
    },
    /// Stop a private set, and everything that it started.
    TestDown {
        /// Name of the set.
        #[arg(long, default_value = "shared")]
        set: String,
    },
    /// Print the environment of a running private set.
    TestEnv {
        /// Name of the set.
        #[arg(long, default_value = "shared")]
        set: String,
    },
    /// Stop, kill or start one server of a private set. The server keeps its ports and its data.
    TestCtl {
        /// Name of the set.
        #[arg(long, default_value = "shared")]
        set: String,
        /// Server to act on.
        service: Service,
        /// What to do with the server.
        action: Action,
    },
}

/// What can be done to one server of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Action {
    /// Stop it in order (SIGTERM).
    Stop,
    /// Kill it, as a crash would (SIGKILL).
    Kill,
    /// Start it again, on the same ports.
    Start,
    /// Raise the memory alarm, so that it takes no messages (RabbitMQ only).
    Alarm,
    /// Lower the memory alarm (RabbitMQ only).
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
        Task::Full { options } => return full::run(&options),
        Task::Attack { options } => return attack::run(&options),
        Task::Bench { options } => bench::run(options)?,
        Task::Soak { options } => soak::run(&options)?,
        Task::Hostile { options } => hostile::run(&options)?,
        Task::Cpython { options } => return cpython::run(&options),
        Task::Fuzz { options } => return fuzz::run(options),
        Task::Openapi { options } => openapi::run(options)?,
        Task::Lanes { options } => lanes::run(&options)?,
        Task::Pairs { options } => pairs::run(&options)?,
        Task::Test { only, filter } => return test::run(&only, &filter),
        Task::Wheel { options } => return wheel::run(&options),
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
