//! The worker on a real Docker engine. `THERMAE_TEST_DOCKER` (its socket) and `THERMAE_TEST_IMAGE` say which engine and
//! image to use; `cargo xtask test` sets them.

#![allow(unreachable_pub, dead_code, reason = "the harness is another test program's")]

#[path = "../fleet/harness.rs"]
mod harness;

use std::collections::HashMap;

use bollard::Docker;
use bollard::query_parameters::{ListContainersOptions, RemoveContainerOptions};
use thermae_backplane::registry::Registry;
use thermae_schemas::{ErrorCode, EventBody, Status, Stream};
use thermae_worker::{BackendKind, Options};

use harness::{Fleet, options, pool_name, python, session_job, within};

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run these tests by `cargo xtask test`"))
}

fn docker_options() -> Options {
    let mut options = options();
    options.docker.socket = variable("THERMAE_TEST_DOCKER").into();
    // Other fleets share the engine, so this test has its own.
    options.fleet = uuid::Uuid::new_v4().simple().to_string();
    let pool = options.pools.get_mut(&pool_name()).unwrap();
    pool.backend = BackendKind::Docker;
    pool.image = variable("THERMAE_TEST_IMAGE");
    options
}

async fn engine() -> Docker {
    let client = Docker::connect_with_unix(&variable("THERMAE_TEST_DOCKER"), 60, bollard::API_DEFAULT_VERSION).unwrap();
    client.negotiate_version().await.unwrap()
}

/// Ids of a fleet's containers.
async fn containers(engine: &Docker, fleet: &str) -> Vec<String> {
    let filters = HashMap::from([("label".to_owned(), vec![format!("thermae.fleet={fleet}")])]);
    let options = ListContainersOptions { all: true, filters: Some(filters), ..Default::default() };
    let all = engine.list_containers(Some(options)).await.unwrap();
    all.into_iter().filter_map(|c| c.id).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_run_behind_both_walls_and_nothing_is_left() {
    let (mut fleet, options, engine) = (Fleet::new().await, docker_options(), engine().await);
    let name = options.fleet.clone();
    let worker = fleet.worker(options).await;
    let code = "import os\nprint(os.getuid(), os.path.exists('/var/run/docker.sock'), os.listdir('/sys'))\nopen('/tmp/x', 'x')";
    for _ in 0..5 {
        let outcome = fleet.run(&python(code)).await;
        assert_eq!(outcome.status, Status::Succeeded, "{outcome:?}");
        assert!(outcome.stdout.contains("False []"), "{}", outcome.stdout);
    }
    let network = fleet.run(&python("import socket\nsocket.create_connection(('127.0.0.1', 1), 1)")).await;
    assert_eq!(network.status, Status::Failed);
    let mut users = Vec::new();
    for id in containers(&engine, &name).await {
        let found = engine.inspect_container(&id, None).await.unwrap();
        let host = found.host_config.unwrap();
        assert_eq!(host.network_mode.as_deref(), Some("none"));
        assert_eq!((host.readonly_rootfs, host.privileged), (Some(true), Some(false)));
        users.push(found.config.unwrap().user.unwrap());
    }
    users.sort();
    let all = users.len();
    users.dedup();
    assert!(all >= 2 && users.len() == all && !users[0].starts_with('0'), "a user of its own each: {users:?}");
    worker.end().await;
    within("the containers' end", gone(&engine, &name)).await;
}

/// gVisor has no namespaces from which a runner could make sandboxes. A worker finds that out, and uses one container
/// per job.
#[tokio::test(flavor = "multi_thread")]
async fn gvisor_draws_the_outer_wall() {
    let (mut fleet, mut options, engine) = (Fleet::new().await, docker_options(), engine().await);
    let known = engine.info().await.unwrap().runtimes.unwrap_or_default();
    assert!(
        known.contains_key("runsc"),
        "the engine has no runtime runsc: install gVisor's package (Debian's is `runsc`)"
    );
    options.docker.runtime = Some("runsc".into());
    let name = options.fleet.clone();
    let worker = fleet.worker(options).await;
    let code = "import os\nprint(open('/proc/version').read().split()[2], os.listdir('/tmp'))\nopen('/tmp/x', 'x')";
    for _ in 0..3 {
        let outcome = fleet.run(&python(code)).await;
        assert_eq!(outcome.status, Status::Succeeded, "{outcome:?}");
        assert_eq!(outcome.stdout, "4.4.0 ['main.py']\n", "gVisor's kernel, and nothing of the last job");
    }
    worker.end().await;
    within("the containers' end", gone(&engine, &name)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_go_in_and_out_and_datasets_are_shown() {
    let data = tempfile::tempdir().unwrap();
    std::fs::write(data.path().join("sales.csv"), "a,b").unwrap();
    for path in [data.path().to_owned(), data.path().join("sales.csv")] {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    let (mut fleet, mut options) = (Fleet::new().await, docker_options());
    options.pools.get_mut(&pool_name()).unwrap().datasets.insert("sales".into(), data.path().to_owned());
    let worker = fleet.worker(options).await;
    let code = "
import os
print(open('in/a').read(), sorted(os.listdir('/work')), os.listdir('/session'), os.listdir('/data'), open('/data/sales/sales.csv').read())
try: open('/data/sales/sales.csv', 'a')
except OSError as e: print(e.errno)
open('/work/artifacts/out', 'w').write('left')
os.symlink('/etc/shadow', 'artifacts/shadow')
";
    let mut job = python(code);
    job.files = vec![thermae_schemas::InputFile::text("in/a", "given")];
    job.artifacts.inline = true;
    let outcome = fleet.run(&job).await;
    let expected = "given ['artifacts', 'in', 'main.py'] ['artifacts'] ['sales'] a,b\n30\n";
    assert_eq!(outcome.stdout, expected, "{outcome:?}");
    let left: Vec<_> = outcome.artifacts.iter().map(|a| (a.path.as_str(), a.base64.as_deref())).collect();
    assert_eq!(left, [("/workspace/artifacts/out", Some("bGVmdA=="))]);
    assert_eq!(outcome.artifacts_left_out[0].path, "/workspace/artifacts/shadow");
    worker.end().await;
}

async fn gone(engine: &Docker, fleet: &str) {
    while !containers(engine, fleet).await.is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_is_killed_under_the_code_is_lost_and_replaced() {
    let (mut fleet, options, engine) = (Fleet::new().await, docker_options(), engine().await);
    let name = options.fleet.clone();
    let worker = fleet.worker(options).await;
    let mut job = python("print('on', flush=True)\nwhile True: pass");
    job.stream = vec![Stream::Output];
    fleet.submit(&job).await;
    assert!(matches!(fleet.event_of(&job).await, EventBody::Stdout { .. }));
    for id in containers(&engine, &name).await {
        let force = RemoveContainerOptions { force: true, ..Default::default() };
        let _ = engine.remove_container(&id, Some(force)).await;
    }
    let outcome = fleet.outcome(&job).await;
    assert_eq!((outcome.status, outcome.error.unwrap().code), (Status::Lost, ErrorCode::SandboxLost));
    assert_eq!(outcome.stdout, "on\n", "what had come before is kept");
    assert_eq!(fleet.run(&python("print(1)")).await.stdout, "1\n");
    worker.end().await;
    within("the containers' end", gone(&engine, &name)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_and_memory_limits_hold() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(docker_options()).await;
    for (n, code) in ["x = 1", "x += 1", "print(x)"].into_iter().enumerate() {
        let job = session_job("s", code);
        fleet.submit_to(&worker.id, &job).await;
        let outcome = fleet.outcome(&job).await;
        assert_eq!(outcome.stdout, if n == 2 { "2\n" } else { "" }, "{outcome:?}");
    }
    let hog = fleet.run(&python("x = bytearray(1 << 30)\nx[::4096] = b'x' * (1 << 18)")).await;
    assert_eq!(hog.status, Status::OutOfMemory, "{hog:?}");
    assert_eq!(fleet.run(&python("print(1)")).await.stdout, "1\n");
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_image_is_named_and_loses_nothing() {
    let (fleet, mut options) = (Fleet::new().await, docker_options());
    options.pools.get_mut(&pool_name()).unwrap().image = "thermae/no-such-image:1".into();
    let worker = fleet.start_unready(options, fleet.registry.clone(), None);
    fleet.until_state(&worker.id, thermae_schemas::WorkerState::Unhealthy).await;
    let detail = worker.health.states()["pools"].detail.clone();
    assert!(detail.contains("thermae/no-such-image:1"), "{detail}");
    worker.end().await;
    assert!(fleet.registry.workers().await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dead_boot_of_this_worker_left_is_swept_away() {
    let (fleet, options, engine) = (Fleet::new().await, docker_options(), engine().await);
    let name = options.fleet.clone();
    // A crash of the engine leaves this: a container of an earlier boot that never started.
    let labels = [("thermae.fleet", name.as_str()), ("thermae.worker", "test-000000000000")];
    let body = bollard::models::ContainerCreateBody {
        image: Some(variable("THERMAE_TEST_IMAGE")),
        labels: Some(labels.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect()),
        ..Default::default()
    };
    let left = engine.create_container(None, body).await.unwrap().id;
    let worker = fleet.worker(options).await;
    let swept = async {
        while containers(&engine, &name).await.contains(&left) {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    within("the sweep", swept).await;
    worker.end().await;
}

/// Many machines forbid nested namespaces. There, a worker refuses to start, unless its options give each job its own
/// container.
#[tokio::test(flavor = "multi_thread")]
async fn where_nested_namespaces_are_forbidden_each_job_has_its_own_container() {
    let (mut fleet, mut options, engine) = (Fleet::new().await, docker_options(), engine().await);
    let dir = tempfile::tempdir().unwrap();
    let profile = dir.path().join("no-namespaces.json");
    let forbid =
        r#"{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["unshare"], "action": "SCMP_ACT_ERRNO"}]}"#;
    std::fs::write(&profile, forbid).unwrap();
    options.docker.seccomp = Some(profile);
    let error = fleet.start_unready(options.clone(), fleet.registry.clone(), None).refusal().await;
    assert!(matches!(error, thermae_worker::Error::NoInnerWall { .. }), "{error}");
    options.pools.get_mut(&pool_name()).unwrap().reuse = thermae_worker::Reuse::Job;
    let name = options.fleet.clone();
    let worker = fleet.worker(options).await;
    // The image's layers are mounted again for each container.
    let code = "import os\nroot = next(l for l in open('/proc/self/mountinfo') if ' / / ' in l)\nprint(__import__('zlib').crc32(root.encode()), os.path.exists('/tmp/left'))\nopen('/tmp/left', 'w').close()";
    let mut roots = Vec::new();
    for _ in 0..4 {
        let outcome = fleet.run(&python(code)).await;
        let (root, found) = outcome.stdout.trim().split_once(' ').unwrap_or_else(|| panic!("{outcome:?}"));
        assert_eq!(found, "False", "the job before left something");
        roots.push(root.to_owned());
    }
    roots.sort();
    roots.dedup();
    assert_eq!(roots.len(), 4, "a container each: {roots:?}");
    assert_eq!(worker.count("thermae_worker_containers_quarantined_total", ""), 0.0, "retired, not distrusted");
    worker.end().await;
    within("the containers' end", gone(&engine, &name)).await;
}

/// The state of a zygote that is still loading is no measure for one that has loaded.
#[tokio::test(flavor = "multi_thread")]
async fn a_zygote_that_starts_beside_the_jobs_makes_no_container_unclean() {
    let (mut fleet, mut options) = (Fleet::new().await, docker_options());
    let pool = options.pools.get_mut(&pool_name()).unwrap();
    (pool.slots, pool.warm) = (Some(1), Some(1));
    (pool.preload, pool.preload_eager) = (vec!["numpy".into(), "pandas".into()], false);
    let worker = fleet.worker(options).await;
    let verified = "thermae_worker_containers_verified_total";
    let code = "import sys\nprint('pandas' in sys.modules)\nif len(sys.argv) > 9:\n    import pandas";
    // The first job starts the zygote. Each further job is a chance to look at it while it loads. The last look is
    // after that.
    let loaded = async {
        let mut loaded = false;
        while !loaded {
            let proofs = worker.count(verified, "");
            loaded = fleet.run(&python(code)).await.stdout == "True\n";
            while worker.count(verified, "") == proofs {
                tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            }
            assert_eq!(worker.count(verified, "unclean") + worker.count(verified, "none"), 0.0);
        }
    };
    within("a loaded zygote", loaded).await;
    assert_eq!(worker.count("thermae_worker_containers_quarantined_total", ""), 0.0);
    worker.end().await;
}
