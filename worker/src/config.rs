//! Configuration of the program `thermae-worker`: where the fleet is, and the worker's own options beside it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thermae_schemas::PoolName;
use thermae_service::telemetry;
use thermae_service::units::Millis;

use crate::{ArtifactOptions, DockerOptions, NativeOptions, Options, PoolOptions};

/// Configuration of the program `thermae-worker`. All but the first five keys are the worker's [`Options`], spelled out: a structure
/// that is flattened into another can't refuse unknown keys, nor say where they stand.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// RabbitMQ: `amqp://user:password@host:port/vhost`; `%2f` is the vhost `/`. The user needs every permission.
    pub amqp: String,
    /// Redis: `redis://user:password@host:port/db`.
    pub redis: String,
    /// What every key in Redis begins with; the same for all of a fleet, another one for another fleet.
    pub redis_prefix: String,
    /// Where `/healthz`, `/readyz` and `/metrics` are served, and artifacts by signed URLs.
    pub listen: SocketAddr,
    /// Logs and traces.
    pub telemetry: telemetry::Options,
    /// The worker's name; its id is this and a random boot id. The host's name where it is missing.
    pub name: Option<String>,
    /// The fleet's name. It is on every container, and a worker clears away only what dead workers of its own fleet left.
    pub fleet: String,
    /// The pools that it serves.
    pub pools: BTreeMap<PoolName, PoolOptions>,
    /// The Docker backend.
    pub docker: DockerOptions,
    /// The native backend.
    pub native: NativeOptions,
    /// Where artifacts are stored.
    pub artifacts: ArtifactOptions,
    /// Directory below which the worker makes one, readable by nobody else, for its containers' sockets; the system's
    /// directory for temporary files where it is missing. Socket paths are short: keep it so, too.
    pub socket_dir: Option<PathBuf>,
    /// Time between heartbeats.
    pub heartbeat_every: Millis,
    /// How long jobs may go on without a heartbeat that arrives.
    pub lease: Millis,
    /// After SIGTERM: how long running jobs may take to end.
    pub drain_grace: Millis,
    /// How long a job's record is kept after it ended.
    pub record_ttl: Millis,
}

impl Default for Config {
    fn default() -> Self {
        let Options {
            name,
            fleet,
            pools,
            docker,
            native,
            artifacts,
            socket_dir,
            heartbeat_every,
            lease,
            drain_grace,
            record_ttl,
        } = Options::default();
        Self {
            amqp: "amqp://guest:guest@127.0.0.1:5672/%2f".into(),
            redis: "redis://127.0.0.1:6379/".into(),
            redis_prefix: "thermae:".into(),
            listen: SocketAddr::from(([127, 0, 0, 1], 9465)),
            telemetry: telemetry::Options::default(),
            name,
            fleet,
            pools,
            docker,
            native,
            artifacts,
            socket_dir,
            heartbeat_every,
            lease,
            drain_grace,
            record_ttl,
        }
    }
}

impl Config {
    /// The worker's part.
    pub fn worker(&self) -> Options {
        Options {
            name: self.name.clone(),
            fleet: self.fleet.clone(),
            pools: self.pools.clone(),
            docker: self.docker.clone(),
            native: self.native.clone(),
            artifacts: self.artifacts.clone(),
            socket_dir: self.socket_dir.clone(),
            heartbeat_every: self.heartbeat_every,
            lease: self.lease,
            drain_grace: self.drain_grace,
            record_ttl: self.record_ttl,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn keys<T: JsonSchema>() -> Value {
        schemars::SchemaGenerator::default().into_root_schema_for::<T>().as_value()["properties"].clone()
    }

    #[test]
    fn every_option_of_the_worker_is_a_key_and_says_the_same() {
        let (of_program, of_worker) = (keys::<Config>(), keys::<Options>());
        for (key, option) in of_worker.as_object().unwrap() {
            assert_eq!(of_program[key], *option, "{key}");
        }
        assert_eq!(of_program.as_object().unwrap().len(), of_worker.as_object().unwrap().len() + 5);
    }

    #[test]
    fn the_workers_part_is_whole() {
        let config = Config { fleet: "f".into(), lease: Millis::from_secs(9), ..Config::default() };
        let expected = Options { fleet: "f".into(), lease: Millis::from_secs(9), ..Options::default() };
        assert_eq!(serde_json::to_value(config.worker()).unwrap(), serde_json::to_value(expected).unwrap());
    }
}
