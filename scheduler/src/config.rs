//! Configuration of the program `thermae-scheduler`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thermae_service::program;

use crate::Options;

/// Configuration of the program `thermae-scheduler`: how to reach RabbitMQ and Redis, and the scheduler's own options.
pub type Config = program::Config<9464, Own>;

/// The scheduler's own part of the configuration.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Own {
    /// The scheduler's own options.
    pub scheduler: Options,
}
