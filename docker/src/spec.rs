//! What a Docker container is made of. Every hardening option is set here.

use std::collections::HashMap;
use std::path::Path;

use bollard::models::{
    ContainerCreateBody, HostConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig, Mount, MountType,
    ResourcesUlimits,
};
use thermae_worker::backend::{Identity, container_memory, container_pids};
use thermae_worker::{DockerOptions, PoolOptions};

/// Label with the fleet of the worker that made a container.
pub(super) const LABEL_FLEET: &str = "thermae.fleet";

/// Label with the id of that worker.
pub(super) const LABEL_WORKER: &str = "thermae.worker";

/// Label with the container's pool.
const LABEL_POOL: &str = "thermae.pool";

/// Where a container sees the directory of its socket.
const SOCKETS: &str = "/run/thermae";

/// Where a container sees its pool's datasets.
const DATA: &str = "/data";

/// Threads that gVisor itself has in a container, with room to spare: 80 were counted in idle ones, including those of
/// the processes inside (gVisor of Debian 12).
const GVISOR_PIDS: i64 = 200;

/// What a container is made of.
pub(super) struct Parts<'a> {
    pub(super) identity: &'a Identity,
    pub(super) pool: &'a PoolOptions,
    pub(super) options: &'a DockerOptions,
    pub(super) uid: u32,
    /// Directory of the socket, as the engine's host sees it.
    pub(super) sockets: &'a Path,
    pub(super) seccomp: &'a str,
    pub(super) apparmor: Option<&'a str>,
}

/// The request to the engine that makes the container.
pub(super) fn container(parts: Parts<'_>) -> ContainerCreateBody {
    let Parts { identity, pool, options, uid, sockets, seccomp, apparmor } = parts;
    let memory = container_memory(pool).cast_signed();
    let mut security = vec!["no-new-privileges".to_owned(), format!("seccomp={seccomp}")];
    security.extend(apparmor.map(|profile| format!("apparmor={profile}")));
    ContainerCreateBody {
        image: Some(pool.image.clone()),
        // The image's entry point is the runner.
        cmd: Some(vec!["--connect".into(), format!("{SOCKETS}/sock")]),
        // Its own user: two containers with the same user would share the kernel's per-user limits.
        user: Some(format!("{uid}:{uid}")),
        hostname: Some("thermae".into()),
        working_dir: Some("/".into()),
        labels: Some(labels(identity)),
        network_disabled: Some(true),
        host_config: Some(HostConfig {
            network_mode: Some("none".into()),
            ipc_mode: Some("private".into()),
            // Otherwise, /proc/self/cgroup shows the container's id, and where the machine keeps it.
            cgroupns_mode: Some(HostConfigCgroupnsModeEnum::PRIVATE),
            readonly_rootfs: Some(true),
            privileged: Some(false),
            cap_drop: Some(vec!["ALL".into()]),
            security_opt: Some(security),
            // `systempaths=unconfined`: otherwise, the kernel refuses a fresh /proc below. The runner masks its own.
            masked_paths: Some(Vec::new()),
            readonly_paths: Some(Vec::new()),
            pids_limit: Some(pids(pool, options)),
            memory: Some(memory),
            cpu_shares: Some(pool.cpu_shares.into()),
            nano_cpus: pool.cpu_quota.map(|percent| i64::from(percent) * 10_000_000),
            // The same value, so that there is no swap in addition.
            memory_swap: Some(memory),
            oom_score_adj: Some(200),
            shm_size: Some(1 << 20),
            // With the value 1, and only with it, the kernel starts no crash handler of the machine.
            ulimits: Some(vec![limit("core", 1), limit("rtprio", 0), limit("nice", 0)]),
            // The kernel remembers a closed connection for a minute, so that the next job could not bind its port.
            // gVisor has its own network.
            sysctls: (!options.is_gvisor())
                .then(|| [("net.ipv4.tcp_max_tw_buckets".to_owned(), "0".to_owned())].into()),
            tmpfs: Some([("/tmp".to_owned(), "rw,nosuid,nodev,size=4m,mode=1777".to_owned())].into()),
            // The runner is process 1 and reaps.
            init: Some(false),
            // The engine removes a container that ends, even if its worker is gone.
            auto_remove: Some(true),
            runtime: options.runtime.clone(),
            mounts: Some(
                std::iter::once(shown(sockets, SOCKETS.into()))
                    .chain(pool.datasets.iter().map(|(name, path)| shown(path, format!("{DATA}/{name}"))))
                    .collect(),
            ),
            log_config: Some(HostConfigLogConfig {
                typ: Some("json-file".into()),
                config: Some([("max-size".to_owned(), "1m".to_owned())].into()),
            }),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// Labels that say who made the container.
fn labels(identity: &Identity) -> HashMap<String, String> {
    let labels = [
        (LABEL_FLEET, identity.fleet.clone()),
        (LABEL_WORKER, identity.worker.to_string()),
        (LABEL_POOL, identity.pool.to_string()),
    ];
    labels.map(|(label, value)| (label.to_owned(), value)).into()
}

fn limit(name: &str, value: i64) -> ResourcesUlimits {
    ResourcesUlimits { name: Some(name.to_owned()), soft: Some(value), hard: Some(value) }
}

/// Most processes and threads of a container. gVisor's own threads count, too. They can be as many as those inside,
/// because gVisor has one for each thread inside.
fn pids(pool: &PoolOptions, options: &DockerOptions) -> i64 {
    let inside = i64::from(container_pids(pool));
    if options.is_gvisor() { 2 * inside + GVISOR_PIDS } else { inside }
}

/// A read-only mount of something on the engine's host.
fn shown(source: &Path, target: String) -> Mount {
    Mount {
        target: Some(target),
        source: Some(source.to_string_lossy().into_owned()),
        typ: Some(MountType::BIND),
        read_only: Some(true),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thermae_schemas::{PoolName, WorkerId};

    #[test]
    fn every_hardening_option_is_asked_for() {
        let identity = Identity {
            worker: WorkerId::new("w-1").unwrap(),
            fleet: "f".into(),
            pool: PoolName::new("p").unwrap(),
            serial: 1,
        };
        let datasets = [("sales".to_owned(), "/srv/sales".into())].into();
        let (pool, options) = (PoolOptions { datasets, ..PoolOptions::default() }, DockerOptions::default());
        let sockets = Path::new("/host/sockets/1");
        let (identity, options) = (&identity, &options);
        let under = |pool, options, apparmor| {
            container(Parts { identity, pool, options, uid: 2_100_000_000, sockets, seccomp: "{}", apparmor })
        };
        let security = under(&pool, options, Some("thermae")).host_config.unwrap().security_opt.unwrap();
        assert!(security.contains(&"apparmor=thermae".to_owned()), "{security:?}");
        let body = under(&pool, options, None);
        assert_eq!(body.user.as_deref(), Some("2100000000:2100000000"));
        let host = body.host_config.unwrap();
        assert_eq!(host.network_mode.as_deref(), Some("none"));
        assert_eq!(host.readonly_rootfs, Some(true));
        assert_eq!(host.cgroupns_mode, Some(HostConfigCgroupnsModeEnum::PRIVATE));
        assert_eq!(host.cap_drop, Some(vec!["ALL".to_owned()]));
        assert_eq!(host.security_opt, Some(vec!["no-new-privileges".to_owned(), "seccomp={}".to_owned()]));
        assert_eq!(host.memory, host.memory_swap);
        let limits: Vec<_> =
            host.ulimits.unwrap().into_iter().map(|l| (l.name.unwrap(), l.soft.unwrap(), l.hard.unwrap())).collect();
        assert_eq!(limits, [("core".to_owned(), 1, 1), ("rtprio".to_owned(), 0, 0), ("nice".to_owned(), 0, 0)]);
        assert_eq!(host.sysctls.unwrap()["net.ipv4.tcp_max_tw_buckets"], "0");
        assert_eq!((host.cpu_shares, host.nano_cpus), (Some(1024), None));
        assert!(host.memory.unwrap() > pool.limits.ceiling.memory.0.cast_signed() + pool.disk.0.cast_signed());
        let mounts = host.mounts.unwrap();
        assert!(mounts.iter().all(|mount| mount.read_only == Some(true)));
        let places: Vec<_> =
            mounts.iter().map(|m| (m.source.as_deref().unwrap(), m.target.as_deref().unwrap())).collect();
        assert_eq!(places, [("/host/sockets/1", "/run/thermae"), ("/srv/sales", "/data/sales")]);
        assert_eq!(body.env, None, "nothing of the worker's environment goes in");
        let pids_limit = host.pids_limit.unwrap();
        assert!(pids_limit < 200);
        let half = PoolOptions { cpu_quota: Some(50), cpu_shares: 512, ..PoolOptions::default() };
        let host = under(&half, options, None).host_config.unwrap();
        assert_eq!((host.cpu_shares, host.nano_cpus), (Some(512), Some(500_000_000)));
        let gvisor = DockerOptions { runtime: Some("runsc".into()), ..options.clone() };
        assert!(pids(&pool, &gvisor) > 2 * pids_limit, "gVisor's threads count in");
    }
}
