//! The step `newer`: runs the contract suite again, on the RabbitMQ and Redis versions of `compose.yaml`.
//!
//! All other tests use servers from the machine's own distribution, which are older.

use std::{path::Path, time::Duration};

use anyhow::{Result, ensure};

use crate::{
    images::{engine::Engine, standins},
    paths, process,
    services::{free_port, rabbitmq, redis},
};

/// A cold RabbitMQ takes some ten seconds on a busy machine.
const START_LIMIT: Duration = Duration::from_secs(120);

/// The tests' engine has no default network, and ports can be published only from a network.
const NETWORK: &str = "thermae-newer";

/// The newer servers, in containers that are removed on drop.
pub(crate) struct Newer {
    engine: Engine,
    containers: Vec<String>,
    amqp_port: u16,
    redis_port: u16,
}

impl Newer {
    /// Starts both servers, RabbitMQ with the project's own settings, and waits until they answer.
    pub(crate) fn up(socket: &Path) -> Result<Self> {
        let engine = Engine { socket: socket.to_path_buf() };
        standins::ensure(&engine)?;
        let (amqp_port, redis_port) = (free_port()?, free_port()?);
        let mut newer = Self { engine, containers: Vec::new(), amqp_port, redis_port };
        newer.engine.run(&["network", "create", NETWORK])?;
        let settings = paths::root().join("images/rabbitmq");
        let mount = |file: &str, at: &str| format!("{}:{at}:ro", settings.join(file).display());
        newer.run(&[
            "--hostname=rabbitmq",
            &format!("--publish=127.0.0.1:{amqp_port}:5672"),
            &format!("--volume={}", mount("rabbitmq.conf", "/etc/rabbitmq/conf.d/20-thermae.conf")),
            &format!("--volume={}", mount("newer.conf", "/etc/rabbitmq/conf.d/30-thermae-newer.conf")),
            &format!("--volume={}", mount("definitions.json", "/etc/rabbitmq/definitions.json")),
            standins::RABBITMQ,
        ])?;
        newer.run(&[
            &format!("--publish=127.0.0.1:{redis_port}:6379"),
            standins::REDIS,
            "redis-server",
            "--maxmemory-policy",
            "noeviction",
            "--save",
            "",
            "--protected-mode",
            "no",
        ])?;
        let answer = process::wait_until(START_LIMIT, || rabbitmq::answers(amqp_port) && redis::answers(redis_port));
        ensure!(answer, "the newer servers did not answer within {} s:\n{}", START_LIMIT.as_secs(), newer.logs());
        Ok(newer)
    }

    /// The tests' environment, with these servers instead of the set's own.
    pub(crate) fn environment(&self, set: &[(&'static str, String)]) -> Vec<(&'static str, String)> {
        let amqp = |user: &str| format!("amqp://{user}:{user}@127.0.0.1:{}/%2f", self.amqp_port);
        set.iter()
            .map(|(name, value)| {
                let value = match *name {
                    "THERMAE_TEST_AMQP" => amqp("fleet"),
                    "THERMAE_TEST_AMQP_TENANT" => amqp("acme"),
                    "THERMAE_TEST_AMQP_OTHER" => amqp("globex"),
                    "THERMAE_TEST_REDIS" => format!("redis://127.0.0.1:{}/", self.redis_port),
                    _ => value.clone(),
                };
                (*name, value)
            })
            // `newer.conf` makes the broker stamp messages. The older servers don't.
            .chain([("THERMAE_TEST_STAMPS", "1".to_owned())])
            .collect()
    }

    fn run(&mut self, args: &[&str]) -> Result<()> {
        let id = self.engine.run(&[&["run", "--detach", "--network", NETWORK], args].concat())?;
        self.containers.push(id);
        Ok(())
    }

    /// The last lines of the servers' logs.
    fn logs(&self) -> String {
        let log = |id: &String| self.engine.output(&["logs", "--tail", "20", id]).ok();
        let text = |output: std::process::Output| {
            [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat()
        };
        self.containers.iter().filter_map(log).map(text).collect()
    }
}

impl Drop for Newer {
    fn drop(&mut self) {
        for id in &self.containers {
            let _ = self.engine.run(&["rm", "--force", "--volumes", id]);
        }
        let _ = self.engine.run(&["network", "rm", NETWORK]);
    }
}
