//! Why a scheduler can't go on. Errors that may pass (such as a server that is away) are not here: the scheduler waits.

use thermae_backplane::{bus, registry};

/// Why a scheduler can't go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The options are not usable: a value is out of range, or two of them contradict each other.
    #[error("the scheduler's configuration is not usable")]
    Options(#[from] thermae_service::config::Error),
    /// The broker refuses for good: wrong credentials, missing permissions, or queues with other properties.
    #[error("the broker can't be used")]
    Bus(#[from] bus::Error),
    /// The registry refuses for good.
    #[error("the registry can't be used")]
    Registry(#[from] registry::Error),
    /// An essential task of the scheduler panicked.
    #[error("the scheduler can't go on")]
    Panicked(#[from] thermae_service::supervise::Panicked),
    /// A metric with the same name is registered already.
    #[error("the metrics can't be registered")]
    Metrics(#[from] prometheus::Error),
}

/// Why a message could not be handled now. It stays with the broker.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    /// The broker is away, or refuses.
    #[error(transparent)]
    Bus(#[from] bus::Error),
    /// The registry is away, or holds data that can't be read.
    #[error(transparent)]
    Registry(#[from] registry::Error),
    /// The scheduler stops, or no longer leads.
    #[error("the scheduler stops")]
    Stopped,
}
