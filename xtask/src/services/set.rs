//! One set of servers: starts and stops them, and gives the environment that tells tests where they are.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::{Running, Service, certs::Certs, docker, postgres, rabbitmq, redis};
use crate::{images, paths};

/// A folder with servers of its own.
#[derive(Debug)]
pub(crate) struct Set {
    dir: PathBuf,
    state: State,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct State {
    services: BTreeMap<Service, Running>,
}

impl Set {
    /// Opens a set by name, and reads its state file. The folder is made if it is missing.
    pub(crate) fn open(name: &str) -> Result<Self> {
        let dir = paths::services(name);
        fs::create_dir_all(dir.join("logs")).with_context(|| format!("create {}", dir.display()))?;
        let state = match fs::read(dir.join("state.json")) {
            Ok(bytes) => serde_json::from_slice(&bytes).context("read the state of the services")?,
            Err(_) => State::default(),
        };
        Ok(Self { dir, state })
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The servers in the state file, running or not.
    pub(crate) fn services(&self) -> impl Iterator<Item = (Service, &Running)> {
        self.state.services.iter().map(|(service, running)| (*service, running))
    }

    /// One server's entry, even if the server has died; `None` if it was never started, or was stopped with the set.
    pub(crate) fn get(&self, service: Service) -> Option<&Running> {
        self.state.services.get(&service)
    }

    /// The socket of the set's Docker engine.
    pub(crate) fn docker_socket(&self) -> Result<PathBuf> {
        let running = self.get(Service::Docker).context("this set has no Docker")?;
        Ok(PathBuf::from(running.fact("socket")?))
    }

    /// Sets the ports that a server gets when it is started for the first time.
    pub(crate) fn expect_at(&mut self, service: Service, place: Option<Running>) {
        if let Some(place) = place {
            self.state.services.entry(service).or_insert(place);
        }
    }

    /// Starts the servers that don't run. A server that was started before gets its old ports back.
    pub(crate) fn start(&mut self, wanted: &[Service]) -> Result<()> {
        for service in Service::ALL.into_iter().filter(|service| wanted.contains(service)) {
            let before = self.state.services.get(&service);
            if before.is_some_and(|running| running.main.alive()) {
                continue;
            }
            let running = match service {
                Service::Rabbitmq => rabbitmq::start(&self.dir, before),
                Service::Redis => redis::start(&self.dir, before),
                Service::Docker => docker::start(&self.dir, before),
                Service::Postgres => postgres::start(&self.dir, before),
            }?;
            self.state.services.insert(service, running);
            self.save()?;
        }
        Ok(())
    }

    /// Stops one server in order. Its entry stays, so that `start` gives it the same ports.
    pub(crate) fn pause(&mut self, service: Service) {
        if let Some(running) = self.state.services.get(&service) {
            match service {
                Service::Rabbitmq => rabbitmq::stop(running),
                Service::Redis => redis::stop(running),
                Service::Docker => docker::stop(&self.dir, running),
                Service::Postgres => postgres::stop(running),
            }
        }
    }

    /// Kills one server. Its entry stays.
    pub(crate) fn kill(&mut self, service: Service) {
        if let Some(running) = self.state.services.get(&service) {
            match service {
                Service::Rabbitmq => rabbitmq::kill(running.main),
                Service::Redis => redis::kill(running.main),
                Service::Docker => docker::kill(running.main),
                Service::Postgres => postgres::kill(running.main),
            }
        }
    }

    /// Raises or lowers RabbitMQ's memory alarm.
    pub(crate) fn alarm(&self, service: Service, on: bool) -> Result<()> {
        anyhow::ensure!(service == Service::Rabbitmq, "only RabbitMQ has alarms");
        let running = self.state.services.get(&service).context("it does not run")?;
        rabbitmq::alarm(&self.dir, running, on)
    }

    /// Stops all servers and removes their entries.
    pub(crate) fn stop(&mut self) -> Result<()> {
        for service in Service::ALL.into_iter().rev() {
            self.pause(service);
            self.state.services.remove(&service);
            self.save()?;
        }
        postgres::remove(&self.dir);
        Ok(())
    }

    /// What is left of this set after it was stopped: processes and mounts.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let mut found = Vec::new();
        for running in self.state.services.values() {
            for process in std::iter::once(running.main).chain(running.helpers.iter().copied()) {
                if process.alive() {
                    found.push(format!("process {} ({})", process.pid, crate::process::command_line(process.pid)));
                }
            }
        }
        for process in docker::children(&self.dir) {
            found.push(format!("process {} ({})", process.pid, crate::process::command_line(process.pid)));
        }
        found.extend(docker::mounts(&self.dir).iter().map(|path| format!("mount {}", path.display())));
        found
    }

    /// Environment variables that tell tests where the servers, programs and certificates are.
    pub(crate) fn environment(&self) -> Result<Vec<(&'static str, String)>> {
        let mut pairs = Vec::new();
        if let Some(running) = self.get(Service::Rabbitmq) {
            pairs.push(("THERMAE_TEST_AMQP", rabbitmq::url(running, "fleet")?));
            pairs.push(("THERMAE_TEST_AMQP_TENANT", rabbitmq::url(running, "acme")?));
            pairs.push(("THERMAE_TEST_AMQP_OTHER", rabbitmq::url(running, "globex")?));
            pairs.push(("THERMAE_TEST_AMQPS", rabbitmq::tls_url(running, "fleet")?));
            pairs.push(("THERMAE_TEST_AMQPS_TENANT", rabbitmq::tls_url(running, "acme")?));
        }
        if let Some(running) = self.get(Service::Redis) {
            pairs.push(("THERMAE_TEST_REDIS", redis::url(running)?));
            pairs.push(("THERMAE_TEST_REDISS", redis::tls_url(running)?));
        }
        if let Some(running) = self.get(Service::Docker) {
            pairs.push(("THERMAE_TEST_DOCKER", running.fact("socket")?.to_owned()));
            pairs.push(("THERMAE_TEST_IMAGE", images::PYTHON.to_owned()));
        }
        if let Some(running) = self.get(Service::Postgres) {
            pairs.push(("THERMAE_TEST_POSTGRES", postgres::url(running)?));
        }
        if self.get(Service::Rabbitmq).or(self.get(Service::Redis)).is_some() {
            let certs = Certs::of(&self.dir)?;
            pairs.push(("THERMAE_TEST_CA", certs.ca().display().to_string()));
            pairs.push(("THERMAE_TEST_CLIENT_CERT", certs.client().display().to_string()));
            pairs.push(("THERMAE_TEST_CLIENT_KEY", certs.client_key().display().to_string()));
        }
        pairs.push(("THERMAE_TEST_BIN", paths::release().display().to_string()));
        if let Some(program) = paths::find_program("prometheus") {
            pairs.push(("THERMAE_TEST_PROMETHEUS", program.display().to_string()));
        }
        if let Some(me) = paths::this_program() {
            pairs.push(("THERMAE_TEST_XTASK", me.display().to_string()));
        }
        if let Some(name) = self.dir.file_name() {
            pairs.push(("THERMAE_TEST_SET", name.to_string_lossy().into_owned()));
        }
        Ok(pairs)
    }

    fn save(&self) -> Result<()> {
        let file = self.dir.join("state.json");
        let next = self.dir.join("state.json.next");
        fs::write(&next, serde_json::to_vec_pretty(&self.state)?)?;
        fs::rename(&next, &file).with_context(|| format!("write {}", file.display()))
    }
}
