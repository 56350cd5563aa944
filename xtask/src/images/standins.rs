//! Stand-ins for the images that `compose.yaml` would pull or build, for machines without an image registry.
//!
//! They have the same names, but hold the servers from Debian's packages and this checkout's release binaries. An
//! existing image that was not made here is never replaced.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result, ensure};

use super::{engine::Engine, fingerprint, python, rootfs};
use crate::paths;

/// The Debian release that has RabbitMQ 4 and Redis 8.
const RELEASE: &str = "trixie";
/// Part of the cache's key; raise it when the recipe below makes something else.
const RECIPE: &str = "1";
const PACKAGES: [&str; 3] = ["prometheus", "rabbitmq-server", "redis-server"];
const LABEL: &str = "thermae.stands-in";

/// A stand-in's name, and what it does when it runs, in lines of a Dockerfile.
struct Image {
    name: &'static str,
    changes: &'static [&'static str],
}

/// Image of the broker in `compose.yaml`.
pub(crate) const RABBITMQ: &str = "rabbitmq:4.0-management";
/// Image of the registry in `compose.yaml`.
pub(crate) const REDIS: &str = "redis:8.0";

const SERVERS: [Image; 3] = [
    Image {
        name: RABBITMQ,
        changes: &[
            "ENV HOME=/var/lib/rabbitmq RABBITMQ_LOGS=- RUNNING_UNDER_SYSTEMD=true",
            "ENV PATH=/usr/lib/rabbitmq/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "ENTRYPOINT [\"/usr/lib/rabbitmq/bin/rabbitmq-server\"]",
        ],
    },
    Image { name: REDIS, changes: &["WORKDIR /data", "CMD [\"redis-server\"]"] },
    Image { name: "prom/prometheus:v3.5.0", changes: &["WORKDIR /prometheus", "ENTRYPOINT [\"/usr/bin/prometheus\"]"] },
];

/// Makes the missing and outdated images of `compose.yaml`, except those of Grafana and of the sandboxes.
pub(crate) fn ensure(engine: &Engine) -> Result<()> {
    let key = fingerprint(&[RELEASE.as_bytes(), RECIPE.as_bytes(), PACKAGES.join(",").as_bytes()]);
    let base = format!("thermae/servers-base:{key}");
    for Image { name, changes } in SERVERS {
        if there(engine, name, &key)? {
            continue;
        }
        if engine.label(&base, LABEL).as_deref() != Some(&key) {
            engine.import(&servers_tar(&key)?, &base, &[format!("LABEL {LABEL}={key}")])?;
        }
        let mut lines: Vec<String> = changes.iter().map(ToString::to_string).collect();
        lines.push(format!("LABEL {LABEL}={key}"));
        engine.add_files(&base, &[], name, &lines)?;
    }
    for program in ["scheduler", "gateway", "worker"] {
        fleet(engine, program)?;
    }
    Ok(())
}

/// Makes the image of `thermae-PROGRAM` from its release binary.
fn fleet(engine: &Engine, program: &str) -> Result<()> {
    let binary = paths::release().join(format!("thermae-{program}"));
    let bytes = fs::read(&binary).with_context(|| format!("read {}", binary.display()))?;
    let ready = paths::root().join("images/fleet/ready");
    let base = python::base(engine)?;
    let key = fingerprint(&[base.as_bytes(), &bytes, &fs::read(&ready)?]);
    let name = format!("thermae/{program}:dev");
    if there(engine, &name, &key)? {
        return Ok(());
    }
    let path = format!("/usr/local/bin/thermae-{program}");
    let changes = [format!("ENTRYPOINT [{path:?}]"), "CMD []".to_owned(), format!("LABEL {LABEL}={key}")];
    engine.add_files(&base, &[(&binary, &path), (&ready, "/usr/local/bin/ready")], &name, &changes)
}

/// Whether an image needs no work: it is the present stand-in, or it was not made here.
fn there(engine: &Engine, name: &str, key: &str) -> Result<bool> {
    let here = engine.output(&["image", "inspect", "--format", "{{.Id}}", name])?.status.success();
    Ok(here && engine.label(name, LABEL).is_none_or(|label| label == key))
}

fn servers_tar(key: &str) -> Result<PathBuf> {
    let folder = paths::images();
    let tar = folder.join(format!("servers-{key}.tar"));
    if tar.is_file() {
        return Ok(tar);
    }
    fs::create_dir_all(&folder)?;
    eprintln!("making the servers' root file system");
    let root = folder.join(format!("servers-{key}.root"));
    rootfs::debian(RELEASE, &PACKAGES, &root)?;
    fs::write(root.join("etc/rabbitmq/enabled_plugins"), "[rabbitmq_management,rabbitmq_prometheus].\n")?;
    fs::create_dir_all(root.join("etc/rabbitmq/conf.d"))?;
    for dir in ["data", "prometheus"] {
        fs::create_dir_all(root.join(dir))?;
    }
    // Installing the package made this cookie. Each broker must make its own.
    let _ = fs::remove_file(root.join("var/lib/rabbitmq/.erlang.cookie"));
    rootfs::pack(&root, &tar)?;
    Ok(tar)
}

/// The `docker-compose` from the package of the release `RELEASE`; the older release has no such package.
pub(crate) fn docker_compose() -> Result<PathBuf> {
    let program = paths::images().join("docker-compose");
    if !program.is_file() {
        let unpacked = rootfs::unpack(RELEASE, "docker-compose", &paths::images().join("docker-compose.d"))?;
        // One of these two is a relative link to the other, and would be broken in its new place.
        let found = ["usr/libexec/docker/cli-plugins/docker-compose", "usr/bin/docker-compose"]
            .map(|path| unpacked.join(path))
            .into_iter()
            .find(|path| path.is_file() && !path.is_symlink())
            .context("the package has no docker-compose program")?;
        fs::rename(found, &program)?;
        fs::remove_dir_all(unpacked)?;
    }
    ensure!(program.is_file(), "{} is missing", program.display());
    Ok(program)
}
