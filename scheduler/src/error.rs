//! Why a scheduler can't go on. Everything that may pass (servers that are away) is waited for instead.

use thermae_backplane::{bus, registry};

/// Why a scheduler can't go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The options contradict themselves.
    #[error("the scheduler's configuration is not usable")]
    Options(#[from] thermae_service::config::Error),
    /// The broker refuses for good: wrong credentials, missing permissions, queues of other properties.
    #[error("the broker can't be used")]
    Bus(#[from] bus::Error),
    /// The registry refuses for good.
    #[error("the registry can't be used")]
    Registry(#[from] registry::Error),
    /// A part of the scheduler panicked that all else hangs on.
    #[error("the scheduler can't go on")]
    Panicked(#[from] thermae_service::supervise::Panicked),
    /// A metric of that name is there already.
    #[error("the metrics can't be registered")]
    Metrics(#[from] prometheus::Error),
}

/// Why one message could not be dealt with now. It stays with the broker.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    /// The broker is away, or refuses.
    #[error(transparent)]
    Bus(#[from] bus::Error),
    /// The registry is away, or holds what can't be read.
    #[error(transparent)]
    Registry(#[from] registry::Error),
    /// The scheduler stops, or leads no more.
    #[error("the scheduler stops")]
    Stopped,
}
