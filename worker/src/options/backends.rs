//! What draws the outer wall, and how.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thermae_service::units::Millis;

/// The Docker backend.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DockerOptions {
    /// Path of the engine's Unix socket.
    pub socket: PathBuf,
    /// The runtime of the outer wall (`runc`, `crun`, `runsc`, …); the engine's default where it is missing. By a name
    /// with `runsc`, `gvisor`, `kata` or `firecracker` you declare that it gives each container a kernel of its own;
    /// then there need not be an inner wall.
    pub runtime: Option<String>,
    /// AppArmor profile, loaded on the host. Where it is missing and the host has AppArmor, `thermae` is tried.
    pub apparmor: Option<String>,
    /// File with another seccomp profile than the one built in.
    pub seccomp: Option<PathBuf>,
    /// First of the users that containers run as. Nobody else may have them: not people, and not those to whom
    /// `/etc/subuid` lends users (which begins at 100000 on most machines). A worker in a container reads its own `/etc/subuid` and
    /// `/etc/subgid`: compare the range with its host's yourself, or mount these there.
    pub first_uid: u32,
    /// Number of such users; each container has one of its own.
    pub uids: u32,
    /// Where the engine's host sees `socket_dir`, if it sees it elsewhere (a worker that is in a container itself).
    pub socket_dir_host: Option<PathBuf>,
    /// How long a call of the engine may take.
    pub timeout: Millis,
}

impl DockerOptions {
    /// Whether the outer wall is gVisor's, which has a kernel of its own: by the name under which the engine knows it.
    pub fn is_gvisor(&self) -> bool {
        self.runtime_has(&["runsc", "gvisor"])
    }

    /// Whether the outer wall is declared to be a virtual machine's or gVisor's.
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

/// The native backend.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NativeOptions {
    /// Command line of the runner; this program's own `__runner` where it is empty.
    pub runner: Vec<String>,
    /// Further directories or files of this machine that sandboxes may read.
    pub show: Vec<PathBuf>,
}
