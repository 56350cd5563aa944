//! Stand-ins for the images that `compose.yaml` would pull or build, for machines with no image registry: the same
//! programs from Debian's packages, and the fleet's own release binaries, under the same names.
//!
//! An image that is there and was not made here is never replaced.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result, ensure};

use super::{engine::Engine, fingerprint, python, rootfs};
use crate::paths;

/// The Debian release that has RabbitMQ 4 and Redis 8.
const RELEASE: &str = "trixie";
/// Raised when the recipe below changes what comes out of it.
const RECIPE: &str = "1";
const PACKAGES: [&str; 3] = ["prometheus", "rabbitmq-server", "redis-server"];
const LABEL: &str = "thermae.stands-in";

/// What an image does when it is run, in lines of a Dockerfile.
struct Image {
    name: &'static str,
    changes: &'static [&'static str],
}

/// The broker of `compose.yaml`.
pub(crate) const RABBITMQ: &str = "rabbitmq:4.0-management";
/// The registry of `compose.yaml`.
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

/// Sees that the engine has every image of `compose.yaml` but Grafana's and the sandboxes' own.
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
    for program in ["scheduler", "worker"] {
        fleet(engine, program)?;
    }
    Ok(())
}

/// The image of one of the fleet's own programs, from its release binary.
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

/// Whether the image needs nothing done: the present stand-in, or one that comes from elsewhere.
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
    // Made on installation; each broker is to make its own.
    let _ = fs::remove_file(root.join("var/lib/rabbitmq/.erlang.cookie"));
    rootfs::pack(&root, &tar)?;
    Ok(tar)
}

/// The `docker-compose` of the same Debian release, taken out of its package: the older release has none.
pub(crate) fn docker_compose() -> Result<PathBuf> {
    let program = paths::images().join("docker-compose");
    if !program.is_file() {
        let unpacked = rootfs::unpack(RELEASE, "docker-compose", &paths::images().join("docker-compose.d"))?;
        // One of them is a link to the other, relative, which would point nowhere from its new place.
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
