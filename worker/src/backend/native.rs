//! The native backend: the runner itself makes the outer wall, from namespaces of this machine. No container engine is
//! needed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use thermae_runner::outer::Spec;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::Mutex as AsyncMutex;
use tokio_util::task::TaskTracker;

use super::socket::OwnDir;
use super::{Backend, Container, Error, Identity, Leftover, Made, SocketDir, chain, container_memory, container_pids};
use crate::options::{NativeOptions, PoolOptions};

/// Lines of a runner's log that are kept for the error message if it fails.
const LAST_WORDS: usize = 6;

/// Time after which a container that should be gone is killed.
const KILL_AFTER: Duration = Duration::from_secs(2);

/// Makes containers from namespaces.
pub struct Native {
    command: Vec<String>,
    show: Vec<PathBuf>,
    sockets: SocketDir,
    tasks: TaskTracker,
    /// Paths that were checked, each with what is hidden below it. They contain only directories, regular files and
    /// links. The lock is held during a check, so that nothing is checked twice.
    looked_at: AsyncMutex<BTreeSet<(String, Vec<String>)>>,
}

impl Native {
    /// Makes a backend with these options.
    ///
    /// # Errors
    /// No runner is configured, and this program's own path is not known.
    pub fn new(options: &NativeOptions, sockets: SocketDir, tasks: TaskTracker) -> Result<Self, Error> {
        let command = if options.runner.is_empty() {
            let exe = std::env::current_exe().map_err(Error::system("finding this program"))?;
            vec![exe.to_string_lossy().into_owned(), "__runner".to_owned()]
        } else {
            options.runner.clone()
        };
        Ok(Self { command, show: options.show.clone(), sockets, tasks, looked_at: AsyncMutex::default() })
    }

    /// The command that starts a runner behind this pool's outer wall, and the path of the interpreter inside. The
    /// caller adds the socket.
    fn command(&self, pool: &PoolOptions) -> Result<(Command, String), Error> {
        let spec = self.spec(pool)?;
        let outer = serde_json::to_string(&spec).map_err(|e| Error::Unfit(e.to_string()))?;
        let mut command = Command::new(&self.command[0]);
        command
            .args(&self.command[1..])
            .arg("--outer")
            .arg(outer)
            // Nothing of this process's environment may reach the code.
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .stdin(Stdio::null())
            // Ctrl-C in a terminal is for the worker, which then drains.
            .process_group(0);
        Ok((command, spec.interpreter))
    }

    /// What the outer wall of this pool's containers shows and allows.
    ///
    /// # Errors
    /// [`Error::Unfit`] if there is no interpreter, or a dataset can't be read.
    pub fn spec(&self, pool: &PoolOptions) -> Result<Spec, Error> {
        let mut spec = Spec::for_python(pool.python.as_deref()).map_err(|e| Error::Unfit(chain(&e)))?;
        // What the operator shows is shown whole.
        spec.hide.retain(|hidden| {
            !self.show.iter().any(|shown| shown.starts_with(hidden) || Path::new(hidden).starts_with(shown))
        });
        spec.show.extend(self.show.iter().map(|p| p.to_string_lossy().into_owned()));
        for (name, path) in &pool.datasets {
            if let Err(e) = std::fs::metadata(path) {
                return Err(Error::Unfit(format!("the dataset {name} can't be read at {}: {e}", path.display())));
            }
            spec.data.insert(name.clone(), path.to_string_lossy().into_owned());
        }
        spec.memory_bytes = Some(container_memory(pool));
        spec.pids = Some(container_pids(pool));
        spec.cpu_shares = Some(pool.cpu_shares);
        spec.cpu_quota = pool.cpu_quota;
        Ok(spec)
    }
}

#[async_trait]
impl Backend for Native {
    async fn create(&self, identity: &Identity, pool: &PoolOptions) -> Result<Made, Error> {
        let (mut command, python) = self.command(pool)?;
        let listening = self.sockets.listen(identity.serial)?;
        let child = command
            .arg("--connect")
            .arg(listening.socket())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(Error::system(format!("starting the runner {}", self.command[0])))?;
        let mut supervisor = Supervisor(child);
        let words = LastWords::default();
        if let Some(stderr) = supervisor.0.stderr.take() {
            let (words, name) = (words.clone(), identity.name());
            self.tasks.spawn(async move {
                let mut lines = BufReader::new(stderr).lines();
                while let Ok(Some(line)) = lines.next_line().await {
                    tracing::debug!(container = %name, "runner: {line}");
                    words.push(line);
                }
            });
        }
        let accepted = tokio::select! {
            accepted = listening.accept(pool.create_within.0) => accepted,
            status = supervisor.0.wait() => {
                let status = status.map_or_else(|e| e.to_string(), |s| s.to_string());
                // Its last line may still be on its way through the pipe.
                tokio::time::sleep(Duration::from_millis(20)).await;
                Err(Error::Runner(format!("it ended with {status}: {}", words.text())))
            }
        };
        let (stream, dir) = accepted?;
        let container = Process { name: identity.name(), supervisor, _dir: dir };
        Ok(Made { stream, container: Box::new(container), python })
    }

    /// Looks for sockets and the like. Each path is checked once, because it may have a million files.
    async fn vet(&self, pool: &PoolOptions) -> Result<(), Error> {
        let spec = self.spec(pool)?;
        let mut known = self.looked_at.lock().await;
        // A dataset is shown whole, even if an environment hides something at its original path.
        let datasets = spec.data.into_values().map(|path| (path, Vec::new()));
        for place in spec.show.into_iter().map(|path| (path, spec.hide.clone())).chain(datasets) {
            if known.contains(&place) {
                continue;
            }
            let looked = tokio::task::spawn_blocking(move || {
                thermae_runner::outer::only_files(Path::new(&place.0), &place.1).map(|()| place)
            });
            let looked = looked.await.map_err(|e| Error::Unfit(e.to_string()))?;
            known.insert(looked.map_err(|e| Error::Unfit(chain(&e)))?);
        }
        Ok(())
    }

    /// A runner ends with its connection, and so with its worker. There is nothing to remove.
    async fn sweep(&self, _: &mut (dyn for<'a> FnMut(Leftover<'a>) -> bool + Send)) -> Result<usize, Error> {
        Ok(0)
    }
}

/// A container made of namespaces.
struct Process {
    name: String,
    supervisor: Supervisor,
    _dir: OwnDir,
}

#[async_trait]
impl Container for Process {
    fn name(&self) -> &str {
        &self.name
    }

    async fn destroy(&mut self) {
        self.supervisor.end();
        if tokio::time::timeout(KILL_AFTER, self.supervisor.0.wait()).await.is_err() {
            if let Some(pid) = self.supervisor.pid() {
                let _ = kill_process_group(pid, Signal::KILL);
            }
            let _ = self.supervisor.0.wait().await;
        }
    }
}

/// The process that waits for a runner, outside of the runner's walls. Dropping it asks the process to end, but does
/// not kill it, because the process has to remove the control group.
struct Supervisor(Child);

impl Supervisor {
    /// `None` once the process has been waited for.
    fn pid(&self) -> Option<Pid> {
        self.0.id().and_then(|id| Pid::from_raw(id.cast_signed()))
    }

    /// Asks the process to end. It then kills the runner, and with it everything inside.
    fn end(&self) {
        if let Some(pid) = self.pid() {
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.end();
    }
}

#[derive(Debug, Clone, Default)]
struct LastWords(Arc<Mutex<Vec<String>>>);

impl LastWords {
    fn push(&self, line: String) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == LAST_WORDS {
            lines.remove(0);
        }
        lines.push(line);
    }

    fn text(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).join("; ")
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[tokio::test]
    async fn what_an_environment_hides_is_looked_through_where_something_else_shows_it() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        let packages = at("base/lib/python3.12/site-packages");
        for path in [&packages, &at("base/bin"), &at("venv/bin")] {
            fs::create_dir_all(path).unwrap();
        }
        fs::write(at("base/bin/python3"), "").unwrap();
        symlink(at("base/bin/python3"), at("venv/bin/python3")).unwrap();
        fs::write(at("venv/pyvenv.cfg"), format!("home = {}\n", at("base/bin").display())).unwrap();
        let _engine = UnixListener::bind(packages.join("engine.sock")).unwrap();

        let sockets = SocketDir::open(Some(dir.path()), "test").unwrap();
        let native = |options: &NativeOptions| Native::new(options, sockets.clone(), TaskTracker::new()).unwrap();
        let pool = |python: &str| PoolOptions { python: Some(at(python)), ..PoolOptions::default() };
        let environment = pool("venv/bin/python3");
        let one = native(&NativeOptions::default());
        one.vet(&environment).await.unwrap();
        let mut with_data = environment.clone();
        with_data.datasets.insert("packages".into(), at("base/lib"));
        for shows in [pool("base/bin/python3"), with_data] {
            let error = one.vet(&shows).await.unwrap_err().to_string();
            assert!(error.contains("engine.sock"), "{error}");
        }
        let operator = native(&NativeOptions { show: vec![packages], ..NativeOptions::default() });
        assert!(operator.vet(&environment).await.is_err());
        one.vet(&environment).await.unwrap();
    }
}
