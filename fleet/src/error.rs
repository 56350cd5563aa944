//! Why a fleet can't be used.

use std::path::PathBuf;
use std::time::Duration;

use thermae_backplane::bus;
use thermae_schemas::NameError;
use thermae_service::tls;
use thermae_service::units::seconds;

/// Why a fleet can't be used. What goes wrong *in* a job is not an error: it is reported in the job's outcome.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The URL is not an AMQP URL. The message doesn't repeat it, because it may contain a password.
    #[error("the AMQP URL is not of the form amqp://USER:PASSWORD@HOST:PORT (or amqps://…)")]
    Url,
    /// Neither the URL nor the options say which tenant to act as.
    #[error("the AMQP URL names no user, and the options name no tenant")]
    NoTenant,
    /// The tenant's name is invalid.
    #[error("the tenant can't be used")]
    Tenant(#[source] NameError),
    /// A file of the TLS options can't be used.
    #[error(transparent)]
    Tls(#[from] tls::Error),
    /// RabbitMQ did not answer in time.
    #[error("RabbitMQ at {host} did not answer within {}: {why}", seconds(*within))]
    Unreachable {
        /// Host and port of RabbitMQ.
        host: String,
        /// How long the client has waited.
        within: Duration,
        /// The last error.
        why: String,
    },
    /// The credentials are wrong, or the user lacks a permission.
    #[error("RabbitMQ at {host} refused this client: {why}")]
    Denied {
        /// Host and port of RabbitMQ.
        host: String,
        /// RabbitMQ's own message.
        why: String,
    },
    /// The client could not be set up, or a call of it failed.
    #[error("the fleet can't be used")]
    Client(#[source] thermae_client::Error),
    /// The embedded fleet can't run anything.
    #[error("the embedded fleet can't start")]
    Embedded(#[source] Unfit),
}

/// Why an embedded fleet can't run anything: what is wrong with the program, its options or this machine.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    /// The program would not become the runner when it is started again.
    #[error("the program doesn't call thermae_fleet::runner_entry() first in its main")]
    NoEntry,
    /// The process may open too few files, and its limit can't be raised.
    #[error("this process may have at most {most} files open, but needs {needed} (ulimit -n {needed})")]
    OpenFiles {
        /// The highest limit that the process may have.
        most: u64,
        /// The number of files that the fleet needs.
        needed: u64,
    },
    /// There is no Python interpreter, or sandboxes can't show it.
    #[error(transparent)]
    NoPython(#[from] thermae_runner::Error),
    /// The program that was named as the Python interpreter doesn't behave as one.
    #[error("{python} is not a working Python interpreter ({why})")]
    NotPython {
        /// Path of the program.
        python: String,
        /// How the first sandbox failed.
        why: String,
    },
    /// The in-process bus could not be set up.
    #[error("the bus")]
    Bus(#[source] bus::Error),
    /// The folder for the files of jobs could not be made.
    #[error("the store")]
    Store(#[source] thermae_worker::ArtifactsError),
    /// The worker could not be set up, for example because an option can't be used.
    #[error("the worker")]
    Worker(#[source] thermae_worker::Error),
    /// The scheduler could not be set up.
    #[error("the scheduler")]
    Scheduler(#[source] thermae_scheduler::Error),
    /// The interpreter is too old for sandboxes.
    #[error("{python} is Python {version}, and sandboxes need Python 3.9 or newer")]
    OldPython {
        /// Path of the interpreter.
        python: String,
        /// Its version.
        version: String,
    },
    /// The interpreter lacks modules that were named to be imported ahead.
    #[error("preload: {python} has no module {}", .names.join(" or "))]
    Preload {
        /// Path of the interpreter.
        python: String,
        /// The modules.
        names: Vec<String>,
    },
    /// The user that sandboxes run as may not read a dataset.
    #[error("no sandbox can read the dataset {name:?}: give others the right to read {} (chmod -R o+rX)", .path.display())]
    Dataset {
        /// Name of the dataset.
        name: String,
        /// Its path.
        path: PathBuf,
    },
    /// No sandbox can be made on this machine.
    #[error("{0}")]
    Sandbox(String),
}
