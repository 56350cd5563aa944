//! Configuration of the program `thermae-worker`: where the fleet is, and the worker's own options beside it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thermae_backplane::bus::RabbitOptions;
use thermae_backplane::registry::RedisOptions;
use thermae_schemas::PoolName;
use thermae_service::secret::Secret;
use thermae_service::telemetry;
use thermae_service::tls::Tls;
use thermae_service::units::{ByteSize, Millis};

use crate::{ArtifactOptions, DockerOptions, NativeOptions, Options, PoolOptions};

/// Configuration of the program `thermae-worker`. All but the first eleven keys are the worker's [`Options`], spelled out: a structure
/// that is flattened into another can't refuse unknown keys, nor say where they stand.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// RabbitMQ: `amqp://user:password@host:port/vhost`, or `amqps://…` by TLS; `%2f` is the vhost `/`. The user needs every permission.
    /// Several hosts of one cluster stand with commas between them, `host:port,host:port`, and are tried in that order.
    pub amqp: Secret,
    /// Password for RabbitMQ, in place of the URL's.
    pub amqp_password: Option<Secret>,
    /// Redis: `redis://user:password@host:port/db`, or `rediss://…` by TLS; with Sentinel `redis+sentinel://user:password@host:port,host:port/name/db`
    /// (or `rediss+sentinel://…`), where `name` is what the sentinels call the primary.
    pub redis: Secret,
    /// Password for Redis, in place of the URL's.
    pub redis_password: Option<Secret>,
    /// Password for the sentinels, where they want one.
    pub redis_sentinel_password: Option<Secret>,
    /// PEM file of the authorities whose certificates are trusted, of RabbitMQ, Redis and the collector of traces; the system's where it is missing.
    pub tls_ca: Option<PathBuf>,
    /// PEM file of the certificate that is shown to servers that ask for one.
    pub tls_cert: Option<PathBuf>,
    /// PEM file of that certificate's private key.
    pub tls_key: Option<PathBuf>,
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
    /// Directory below which the worker makes one, readable by nobody else, for its containers' sockets; where it is missing, the user's
    /// `XDG_RUNTIME_DIR`, else the system's directory for temporary files. Socket paths are short: keep it so, too.
    pub socket_dir: Option<PathBuf>,
    /// Time between heartbeats.
    pub heartbeat_every: Millis,
    /// How long jobs may go on without a heartbeat that arrives.
    pub lease: Millis,
    /// After SIGTERM: how long running jobs may take to end.
    pub drain_grace: Millis,
    /// How long a job's record is kept after its last change; at least an hour longer than the schedulers' `message_max_age`.
    pub record_ttl: Millis,
    /// How long a job's whole outcome stays readable after it ended. Then only how and when it ended is known, for `record_ttl`.
    pub outcome_ttl: Millis,
    /// Bytes of outcomes that are kept readable at once, of all tenants; what is more is told once and not kept.
    pub outcome_bytes: ByteSize,
    /// The same of one tenant.
    pub tenant_outcome_bytes: ByteSize,
    /// Outcomes with more bytes are kept in the store that `artifacts.store` names, and not in Redis. Without one, all
    /// are kept in Redis.
    pub outcome_inline_bytes: ByteSize,
    /// Bytes of answers to tool calls that no call waits for, taken from one tenant a second, after 16 seconds' worth at once. Each counts
    /// as 4 KiB at least. A tenant that sends more of them gets a queue of its own; that queue waits, and RabbitMQ refuses what is
    /// published to it once it is full.
    pub refused_bytes: ByteSize,
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
            outcome_ttl,
            outcome_bytes,
            tenant_outcome_bytes,
            outcome_inline_bytes,
            refused_bytes,
        } = Options::default();
        Self {
            amqp: "amqp://guest:guest@127.0.0.1:5672/%2f".into(),
            amqp_password: None,
            redis: "redis://127.0.0.1:6379/".into(),
            redis_password: None,
            redis_sentinel_password: None,
            tls_ca: None,
            tls_cert: None,
            tls_key: None,
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
            outcome_ttl,
            outcome_bytes,
            tenant_outcome_bytes,
            outcome_inline_bytes,
            refused_bytes,
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
            outcome_ttl: self.outcome_ttl,
            outcome_bytes: self.outcome_bytes,
            tenant_outcome_bytes: self.tenant_outcome_bytes,
            outcome_inline_bytes: self.outcome_inline_bytes,
            refused_bytes: self.refused_bytes,
        }
    }

    /// Whom to trust, and what to show.
    pub fn tls(&self) -> Tls {
        Tls { ca: self.tls_ca.clone(), cert: self.tls_cert.clone(), key: self.tls_key.clone() }
    }

    /// How to reach RabbitMQ.
    pub fn rabbit(&self, name: &str) -> RabbitOptions {
        RabbitOptions {
            password: self.amqp_password.clone(),
            tls: self.tls(),
            ..RabbitOptions::new(self.amqp.expose(), name)
        }
    }

    /// How to reach Redis.
    pub fn registry(&self) -> RedisOptions {
        RedisOptions {
            prefix: self.redis_prefix.clone(),
            password: self.redis_password.clone(),
            sentinel_password: self.redis_sentinel_password.clone(),
            tls: self.tls(),
            ..RedisOptions::new(self.redis.expose())
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
        assert_eq!(of_program.as_object().unwrap().len(), of_worker.as_object().unwrap().len() + 11);
    }

    #[test]
    fn the_workers_part_is_whole() {
        let config = Config { fleet: "f".into(), lease: Millis::from_secs(9), ..Config::default() };
        let expected = Options { fleet: "f".into(), lease: Millis::from_secs(9), ..Options::default() };
        assert_eq!(serde_json::to_value(config.worker()).unwrap(), serde_json::to_value(expected).unwrap());
    }
}
