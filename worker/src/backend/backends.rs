//! The backends of one worker, by kind.

use std::sync::Arc;

use thermae_schemas::PoolName;
use tokio_util::task::TaskTracker;

use super::native::Native;
use super::{Backend, MakeDocker, SocketDir};
use crate::error::Error;
use crate::options::{BackendKind, Invalid, Options};

/// Makes each backend at most once.
pub(crate) struct Backends<'a> {
    pub(crate) options: &'a Options,
    pub(crate) sockets: &'a SocketDir,
    pub(crate) tasks: &'a TaskTracker,
    /// Makes all containers, if there is one.
    pub(crate) given: Option<Arc<dyn Backend>>,
    pub(crate) docker: Option<MakeDocker>,
    pub(crate) made: [Option<Arc<dyn Backend>>; 2],
}

impl Backends<'_> {
    /// The backend of a pool.
    ///
    /// # Errors
    /// The backend can't be made with these options, or this program has none of the kind.
    pub(crate) fn get(&mut self, pool: &PoolName, kind: BackendKind) -> Result<Arc<dyn Backend>, Error> {
        if let Some(given) = &self.given {
            return Ok(Arc::clone(given));
        }
        let slot = &mut self.made[kind as usize];
        if let Some(made) = slot {
            return Ok(Arc::clone(made));
        }
        let sockets = self.sockets.clone();
        let made = match (kind, self.docker) {
            (BackendKind::Docker, Some(make)) => make(&self.options.docker, sockets),
            (BackendKind::Docker, None) => {
                return Err(Error::Options(Invalid {
                    key: format!("pools.{pool}.backend"),
                    problem: "this program has no Docker backend: choose native, or let thermae-worker serve the pool"
                        .to_owned(),
                }));
            }
            (BackendKind::Native, _) => Native::new(&self.options.native, sockets, self.tasks.clone())
                .map(|native| Arc::new(native) as Arc<dyn Backend>),
        };
        let made = made.map_err(|source| Error::Backend { pool: pool.clone(), source })?;
        Ok(Arc::clone(slot.insert(made)))
    }
}

#[cfg(test)]
mod tests {
    use thermae_backplane::{bus, registry};
    use thermae_service::health::Health;

    use super::*;
    use crate::Service;

    #[test]
    fn a_pool_on_docker_needs_a_docker_backend() {
        let sockets = tempfile::tempdir().unwrap();
        let mut options = Options { socket_dir: Some(sockets.path().to_owned()), ..Options::default() };
        options.pools.values_mut().for_each(|pool| pool.backend = BackendKind::Docker);
        let (bus, registry) = (Arc::new(bus::Local::new()), Arc::new(registry::Local::new()));
        let service = Service::new(options, bus, registry, &prometheus::Registry::new(), Health::new());
        let Err(Error::Options(invalid)) = service else { panic!("the options can be used") };
        assert_eq!(invalid.key, "pools.default.backend");
    }
}
