//! The backends: what makes the outer wall, and how.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thermae_service::units::Millis;

/// The options of the Docker backend.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DockerOptions {
    /// Path of the Unix socket of the Docker engine.
    pub socket: PathBuf,
    /// The runtime of the outer wall (`runc`, `crun`, `runsc`, …). By default, the engine's own default. With a name
    /// that contains `runsc`, `gvisor`, `kata` or `firecracker`, you declare that the runtime gives each container its
    /// own kernel. An inner wall is then not required.
    pub runtime: Option<String>,
    /// AppArmor profile, which must be loaded on the host. By default, `thermae` is tried if the host has AppArmor, and
    /// the engine's own profile is used if `thermae` is not loaded.
    pub apparmor: Option<String>,
    /// File with a seccomp profile (JSON) that replaces the built-in one.
    pub seccomp: Option<PathBuf>,
    /// The first of the user ids that containers run as. Nobody else may have these ids: no account, and no range in
    /// `/etc/subuid` (on most machines, these ranges begin at 100000). A worker in a container can read only its own
    /// `/etc/subuid` and `/etc/subgid`. In that case, compare the ids with the host's files yourself, or mount these
    /// into the container.
    pub first_uid: u32,
    /// Number of these user ids. Each container has one of its own.
    pub uids: u32,
    /// Path of `socket_dir` on the engine's host, if it differs from the path that the worker sees (because the worker
    /// itself runs in a container).
    pub socket_dir_host: Option<PathBuf>,
    /// How long one call to the engine may take, in whole seconds.
    pub timeout: Millis,
}

impl DockerOptions {
    /// Whether the outer wall is gVisor, which has its own kernel. The name under which the engine knows the runtime
    /// decides.
    pub fn is_gvisor(&self) -> bool {
        self.runtime_has(&["runsc", "gvisor"])
    }

    /// Whether the outer wall is declared to be a virtual machine or gVisor, so that each container has its own kernel.
    pub fn has_own_kernel(&self) -> bool {
        self.is_gvisor() || self.runtime_has(&["kata", "firecracker"])
    }

    fn runtime_has(&self, parts: &[&str]) -> bool {
        self.runtime.as_deref().is_some_and(|name| parts.iter().any(|part| name.contains(part)))
    }
}

impl Default for DockerOptions {
    fn default() -> Self {
        Self {
            socket: "/var/run/docker.sock".into(),
            runtime: None,
            apparmor: None,
            seccomp: None,
            first_uid: 2_100_000_000,
            uids: 50_000,
            socket_dir_host: None,
            timeout: Millis::from_secs(60),
        }
    }
}

/// The options of the native backend.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NativeOptions {
    /// Command line of the runner. If it is empty, the worker's program starts itself with `__runner`.
    pub runner: Vec<String>,
    /// More directories or files of this machine that sandboxes may read. They may contain only directories, regular
    /// files and links.
    pub show: Vec<PathBuf>,
}
