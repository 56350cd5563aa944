//! The Docker backend: makes hardened containers, ahead of jobs.
//!
//! The engine removes every container when its runner exits, and a runner exits when its connection ends. So the
//! containers of a killed worker vanish without help. [`Backend::sweep`] removes what a crash of the engine leaves.
//!
//! The worker's library has no Docker backend: the program `thermae-worker` gives it this one. So the command line,
//! whose containers are native, is built without a client of the engine.

#![forbid(unsafe_code)]

mod spec;
mod uids;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use bollard::Docker as Client;
use bollard::errors::Error as EngineError;
use bollard::models::ContainerSummaryStateEnum;
use bollard::query_parameters::{CreateContainerOptions, ListContainersOptions, RemoveContainerOptions};
use thermae_worker::backend::{Backend, Container, Error, Identity, Leftover, Made, OwnDir, SocketDir, chain};
use thermae_worker::{DockerOptions, PoolOptions};
use tokio::sync::OnceCell;

use spec::{LABEL_FLEET, LABEL_WORKER};
use uids::{Uid, Uids};

/// The default seccomp profile of containers: Docker's own, with what a runner needs to make namespaces.
const SECCOMP: &str = include_str!("../../images/seccomp.json");

/// Name of the project's AppArmor profile, `images/apparmor/thermae`. The engine's own profile forbids the mounts that
/// sandboxes are made of.
const APPARMOR: &str = "thermae";

/// Label of an image that names the path of its interpreter.
const LABEL_PYTHON: &str = "thermae.python";

/// Makes Docker containers.
struct Docker {
    options: DockerOptions,
    sockets: SocketDir,
    seccomp: String,
    uids: Uids,
    client: OnceCell<Client>,
    /// Whether the engine's host has AppArmor.
    apparmor: OnceCell<bool>,
    /// Whether the engine refused the project's profile.
    unloaded: AtomicBool,
}

/// Makes the backend. The engine does not have to answer yet.
///
/// # Errors
/// The seccomp profile can't be used, or the user ids belong to somebody else.
pub fn backend(options: &DockerOptions, sockets: SocketDir) -> Result<Arc<dyn Backend>, Error> {
    let seccomp = match &options.seccomp {
        None => SECCOMP.to_owned(),
        Some(file) => std::fs::read_to_string(file).map_err(Error::system(format!("reading {}", file.display())))?,
    };
    let profile: serde_json::Value =
        serde_json::from_str(&seccomp).map_err(|e| Error::Unfit(format!("the seccomp profile is not JSON: {e}")))?;
    for table in ["/etc/subuid", "/etc/subgid"] {
        let text = std::fs::read_to_string(table).unwrap_or_default();
        if let Some(whom) = uids::lent(&text, options.first_uid, options.uids) {
            return Err(Error::Unfit(format!(
                "docker.first_uid: {table} gives user ids of this range to {whom}, whose own containers would \
                 share them: choose another range"
            )));
        }
    }
    Ok(Arc::new(Docker {
        options: options.clone(),
        sockets,
        seccomp: profile.to_string(),
        uids: Uids::new(options.first_uid, options.uids),
        client: OnceCell::new(),
        apparmor: OnceCell::new(),
        unloaded: AtomicBool::new(false),
    }))
}

impl Docker {
    /// The connection. The first call that succeeds makes it and negotiates its version.
    async fn client(&self) -> Result<&Client, Error> {
        self.client
            .get_or_try_init(|| async {
                let socket = self.options.socket.to_string_lossy();
                let seconds = self.options.timeout.0.as_secs().max(1);
                Client::connect_with_unix(&socket, seconds, bollard::API_DEFAULT_VERSION)?.negotiate_version().await
            })
            .await
            .map_err(Error::engine("connecting"))
    }

    async fn python(&self, client: &Client, pool: &PoolOptions) -> Result<String, Error> {
        if let Some(python) = &pool.python {
            return Ok(python.to_string_lossy().into_owned());
        }
        let image = client.inspect_image(&pool.image).await.map_err(|source| match source {
            EngineError::DockerResponseServerError { status_code: 404, .. } => {
                Error::Unfit(format!("the engine has no image {:?}: build it or pull it", pool.image))
            }
            source => Error::engine("inspecting the image")(source),
        })?;
        let label = image.config.and_then(|c| c.labels).and_then(|mut l| l.remove(LABEL_PYTHON));
        Ok(label.unwrap_or_else(|| "/usr/bin/python3".to_owned()))
    }

    /// The path at which the engine's host sees a directory of ours.
    fn on_host(&self, dir: &Path) -> PathBuf {
        match (&self.options.socket_dir_host, dir.strip_prefix(self.sockets.root())) {
            (Some(host), Ok(rest)) => host.join(rest),
            _ => dir.to_path_buf(),
        }
    }

    /// Whether to try the project's profile. Only root on the host knows whether it is loaded.
    async fn may_have_profile(&self, client: &Client) -> Result<bool, Error> {
        if self.options.apparmor.is_some() || self.unloaded.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let asked = self.apparmor.get_or_try_init(|| async {
            let info = client.info().await.map_err(Error::engine("asking about the host"))?;
            Ok(info.security_options.unwrap_or_default().iter().any(|option| option.contains("apparmor")))
        });
        asked.await.copied()
    }

    async fn create_under(
        &self,
        client: &Client,
        identity: &Identity,
        pool: &PoolOptions,
        apparmor: Option<&str>,
    ) -> Result<Made, Error> {
        let python = self.python(client, pool).await?;
        let listening = self.sockets.listen(identity.serial)?;
        let uid = self.uids.take().ok_or_else(|| Error::Unfit("docker.uids: every user id is in use".into()))?;
        let name = identity.name();
        let body = spec::container(spec::Parts {
            identity,
            pool,
            options: &self.options,
            uid: uid.number(),
            sockets: &self.on_host(listening.dir()),
            seccomp: &self.seccomp,
            apparmor,
        });
        let options = CreateContainerOptions { name: Some(name.clone()), ..Default::default() };
        let made = client.create_container(Some(options), body).await;
        made.map_err(Error::engine("creating a container"))?;
        // From here on, the container is removed in any case, even if this future is dropped.
        let mut created = Engine { client: client.clone(), name: name.clone(), uid: Some(uid), dir: None, gone: false };
        if let Err(source) = client.start_container(&name, None).await {
            created.destroy().await;
            return Err(Error::engine("starting a container")(source));
        }
        match listening.accept(pool.create_within.0).await {
            Ok((stream, dir)) => {
                created.dir = Some(dir);
                Ok(Made { stream, container: Box::new(created), python })
            }
            Err(e) => {
                let words = last_words(client, &name).await;
                created.destroy().await;
                Err(match (e, words) {
                    (Error::Runner(why), Some(words)) => Error::Runner(format!("{why}; its log: {words}")),
                    (e, _) => e,
                })
            }
        }
    }
}

/// Whether the engine refused the AppArmor profile, and not the container. The engine has no code for this. Only the
/// text tells.
fn is_about_apparmor(error: &Error) -> bool {
    let text = chain(error).to_lowercase();
    matches!(error, Error::Engine { .. }) && text.contains("apparmor")
}

#[async_trait]
impl Backend for Docker {
    async fn create(&self, identity: &Identity, pool: &PoolOptions) -> Result<Made, Error> {
        let client = self.client().await?;
        if self.may_have_profile(client).await? {
            match self.create_under(client, identity, pool, Some(APPARMOR)).await {
                Err(e) if is_about_apparmor(&e) => {
                    self.unloaded.store(true, Ordering::Relaxed);
                    tracing::warn!(
                        error = chain(&e),
                        "the engine's host has AppArmor, but not the profile thermae; load it with `apparmor_parser -r \
                         images/apparmor/thermae`"
                    );
                }
                made => return made,
            }
        }
        self.create_under(client, identity, pool, self.options.apparmor.as_deref()).await
    }

    fn has_own_kernel(&self) -> bool {
        self.options.has_own_kernel()
    }

    async fn sweep(&self, orphaned: &mut (dyn for<'a> FnMut(Leftover<'a>) -> bool + Send)) -> Result<usize, Error> {
        let client = self.client().await?;
        let filters = [("label".to_owned(), vec![LABEL_WORKER.to_owned()])].into();
        let options = ListContainersOptions { all: true, filters: Some(filters), ..Default::default() };
        let all = client.list_containers(Some(options)).await;
        let all = all.map_err(Error::engine("listing containers"))?;
        let mut removed = 0;
        for container in all {
            let labels = container.labels.unwrap_or_default();
            let label = |key| labels.get(key).map_or("", String::as_str);
            let running = container.state == Some(ContainerSummaryStateEnum::RUNNING);
            let leftover = Leftover { fleet: label(LABEL_FLEET), worker: label(LABEL_WORKER), running };
            let Some(id) = container.id else { continue };
            if orphaned(leftover) {
                tracing::info!(container.id = %id, worker = leftover.worker, "removing a dead worker's container");
                match client.remove_container(&id, Some(force())).await {
                    Ok(()) => removed += 1,
                    Err(e) => tracing::debug!(container.id = %id, error = %e, "can't remove a dead worker's container"),
                }
            }
        }
        Ok(removed)
    }
}

fn force() -> RemoveContainerOptions {
    RemoveContainerOptions { force: true, v: true, ..Default::default() }
}

/// The end of a container's log, which only its runner writes.
async fn last_words(client: &Client, name: &str) -> Option<String> {
    use futures::TryStreamExt;
    let options =
        bollard::query_parameters::LogsOptions { stdout: true, stderr: true, tail: "5".into(), ..Default::default() };
    let lines: Vec<_> = client.logs(name, Some(options)).try_collect().await.ok()?;
    let text: Vec<_> = lines.iter().map(|l| l.to_string().trim().to_owned()).filter(|l| !l.is_empty()).collect();
    (!text.is_empty()).then(|| text.join("; "))
}

/// A Docker container.
struct Engine {
    client: Client,
    name: String,
    uid: Option<Uid>,
    dir: Option<OwnDir>,
    gone: bool,
}

impl Engine {
    async fn remove(client: &Client, name: &str) {
        match client.remove_container(name, Some(force())).await {
            // The engine itself removes the container as soon as its runner is dead.
            Ok(()) | Err(EngineError::DockerResponseServerError { status_code: 404 | 409, .. }) => {}
            Err(e) => tracing::warn!(container = name, error = %e, "can't remove a container"),
        }
    }
}

#[async_trait]
impl Container for Engine {
    fn name(&self) -> &str {
        &self.name
    }

    async fn destroy(&mut self) {
        Self::remove(&self.client, &self.name).await;
        self.gone = true;
        self.dir = None;
        self.uid = None;
    }
}

impl Drop for Engine {
    /// Does something only if [`Container::destroy`] was not called, because making the container was given up.
    fn drop(&mut self) {
        if self.gone {
            return;
        }
        let held = Arc::new((self.uid.take(), self.dir.take()));
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (client, name) = (self.client.clone(), self.name.clone());
            runtime.spawn(async move {
                Self::remove(&client, &name).await;
                drop(held);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(message: &str) -> Error {
        let source = EngineError::DockerResponseServerError { status_code: 500, message: message.into() };
        Error::engine("starting a container")(source)
    }

    #[test]
    fn a_profile_that_is_not_loaded_is_told_from_other_troubles() {
        let unloaded = "OCI runtime create failed: runc create failed: unable to start container process: error during container init: \
            unable to apply apparmor profile: apparmor failed to apply profile: write /proc/thread-self/attr/apparmor/exec: no such file or directory";
        assert!(is_about_apparmor(&refused(unloaded)));
        assert!(!is_about_apparmor(&refused("no space left on device")));
        assert!(!is_about_apparmor(&Error::Unfit("apparmor".into())));
    }
}
