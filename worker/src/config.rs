//! Configuration of the program `thermae-worker`: how to reach RabbitMQ and Redis, and the worker's own options.

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

/// Configuration of the program `thermae-worker`. The first eleven keys are its own. All other keys repeat the worker's
/// [`Options`], because a structure that is flattened into another one can't refuse unknown keys, and can't say where
/// they are.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// URL of RabbitMQ: `amqp://user:password@host:port/vhost`, or `amqps://…` for TLS. `%2f` is the vhost `/`. The
    /// user needs all permissions in the vhost. To name several hosts of one cluster, separate them with commas
    /// (`host:port,host:port`); they are tried in that order.
    pub amqp: Secret,
    /// Password for RabbitMQ. It replaces the one in the URL.
    pub amqp_password: Option<Secret>,
    /// URL of Redis: `redis://user:password@host:port/db`, or `rediss://…` for TLS. With Sentinel:
    /// `redis+sentinel://user:password@host:port,host:port/name/db` (or `rediss+sentinel://…`), where `name` is the
    /// name that the sentinels use for the primary.
    pub redis: Secret,
    /// Password for Redis. It replaces the one in the URL.
    pub redis_password: Option<Secret>,
    /// Password for the sentinels, if they need one.
    pub redis_sentinel_password: Option<Secret>,
    /// PEM file of the authorities whose certificates are trusted, for RabbitMQ, Redis and the collector of traces. By
    /// default, the system's authorities.
    pub tls_ca: Option<PathBuf>,
    /// PEM file of the certificate that is shown to servers that ask for one.
    pub tls_cert: Option<PathBuf>,
    /// PEM file of the private key of `tls_cert`.
    pub tls_key: Option<PathBuf>,
    /// Prefix of every key in Redis. All processes of a fleet need the same prefix. Fleets that share a Redis need
    /// different ones.
    pub redis_prefix: String,
    /// Address at which `/healthz`, `/readyz` and `/metrics` are served, and artifacts under signed URLs.
    pub listen: SocketAddr,
    /// Logs and traces.
    pub telemetry: telemetry::Options,
    /// The worker's name. By default, the name of the host. The worker's id is this name and a random boot id.
    pub name: Option<String>,
    /// The fleet's name. Docker containers carry it as a label, so that a worker cleans up only after dead workers of
    /// its own fleet.
    pub fleet: String,
    /// The pools that this worker serves.
    pub pools: BTreeMap<PoolName, PoolOptions>,
    /// The Docker backend.
    pub docker: DockerOptions,
    /// The native backend.
    pub native: NativeOptions,
    /// Where artifacts are stored.
    pub artifacts: ArtifactOptions,
    /// Directory in which the worker makes its own directory for the sockets of its containers, which only the worker's
    /// user can read. By default, the user's `XDG_RUNTIME_DIR`, or else the system's directory for temporary files.
    /// Choose a short path, because the length of a socket's path is limited.
    pub socket_dir: Option<PathBuf>,
    /// Time between two heartbeats. With a heartbeat, the worker tells Redis that it is alive and what it runs.
    pub heartbeat_every: Millis,
    /// How long running jobs may continue after the last heartbeat that reached Redis. After that, the worker kills
    /// them. At least twice `heartbeat_every`.
    pub lease: Millis,
    /// How long running jobs may continue after SIGTERM. After that, the worker kills them.
    pub drain_grace: Millis,
    /// How long Redis keeps a job's record after its last change. Make it at least an hour longer than the schedulers'
    /// `message_max_age`.
    pub record_ttl: Millis,
    /// How long the whole outcome of a job stays readable after the job has ended. After that, and until `record_ttl`,
    /// only how and when the job ended is known.
    pub outcome_ttl: Millis,
    /// Largest total size of the outcomes that Redis keeps, for all tenants together. An outcome that does not fit is
    /// sent once, and Redis does not keep it.
    pub outcome_bytes: ByteSize,
    /// Largest total size of the outcomes that Redis keeps for one tenant. An outcome that does not fit is sent once,
    /// and Redis does not keep it.
    pub tenant_outcome_bytes: ByteSize,
    /// Outcomes that are larger than this are kept in the store that `artifacts.store` names, and not in Redis. If no
    /// store is named, Redis keeps all outcomes.
    pub outcome_inline_bytes: ByteSize,
    /// Bytes per second of tool answers that no call waits for, which the worker accepts from one tenant, after a burst
    /// of 16 seconds' worth. Each answer counts as at least 4 KiB. A tenant that has used half of the burst gets its
    /// own queue. Beyond the limit, that queue waits, and RabbitMQ refuses further answers once it is full.
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
    /// The worker's own options.
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

    /// The settings for TLS: which authorities to trust, and which certificate to show.
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
