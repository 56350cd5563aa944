//! Files of jobs: into the sandbox, out of it, and from one job to the next.

use base64::Engine;
use thermae_schemas::{ArtifactRequest, ErrorCode, InputFile, Job, LeftOutWhy, Status, TenantName};

use crate::harness::{Fleet, options, pool_name, python, session_job};

fn inline(job: Job) -> Job {
    Job { artifacts: ArtifactRequest { inline: true }, ..job }
}

fn content(base64: Option<&String>) -> Vec<u8> {
    base64::engine::general_purpose::STANDARD.decode(base64.expect("it is inline")).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_jobs_files_go_in_and_come_out_and_into_the_next_job() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    let code = "text = open('in/a.txt').read()\nopen('artifacts/up.txt', 'w').write(text.upper())";
    let job = inline(Job { files: vec![InputFile::text("in/a.txt", "hello")], ..python(code) });
    let outcome = fleet.run(&job).await;
    assert_eq!(outcome.status, Status::Succeeded, "{outcome:?}");
    let artifact = &outcome.artifacts[0];
    assert_eq!((artifact.path.as_str(), artifact.size), ("/workspace/artifacts/up.txt", 5));
    assert_eq!(artifact.media_type, "text/plain");
    assert_eq!(content(artifact.base64.as_ref()), b"HELLO");
    assert_eq!(outcome.artifact_map["/workspace/artifacts/up.txt"], artifact.id);
    assert_eq!(worker.count("thermae_worker_artifacts_total", "stored"), 1.0);
    assert_eq!(worker.count("thermae_worker_artifact_bytes_total", ""), 5.0);

    let file =
        InputFile { text: None, reference: Some(artifact.id.parse().unwrap()), ..InputFile::text("again.txt", "") };
    let next = Job { files: vec![file], ..python("print(open('again.txt').read())") };
    assert_eq!(fleet.run(&next).await.stdout, "HELLO\n");
    // For another tenant, the reference leads to nothing.
    let globex = TenantName::new("globex").unwrap();
    let stolen = Job { id: thermae_schemas::JobId::random(), ..next };
    fleet.submit_as(&globex, &stolen).await;
    let outcome = fleet.outcome(&stolen).await;
    assert_eq!((outcome.status, outcome.error.unwrap().code), (Status::Rejected, ErrorCode::UnknownRef));
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_not_go_in_is_rejected_and_what_can_not_come_out_is_told() {
    let mut fleet = Fleet::new().await;
    let mut options = options();
    let pool = options.pools.get_mut(&pool_name()).unwrap();
    pool.disk = thermae_service::units::ByteSize::mib(4);
    pool.artifacts.max_bytes = thermae_service::units::ByteSize(1000);
    let worker = fleet.worker(options).await;
    let large = Job { files: vec![InputFile::text("x", "x".repeat(5 << 20))], ..python("print(1)") };
    let outcome = fleet.run(&large).await;
    assert_eq!((outcome.status, outcome.error.unwrap().code), (Status::Rejected, ErrorCode::FilesTooLarge));
    let clash = vec![InputFile::text("x", ""), InputFile::text("x/y", "")];
    let outcome = fleet.run(&Job { files: clash, ..python("print(1)") }).await;
    assert_eq!((outcome.status, outcome.error.unwrap().code), (Status::Rejected, ErrorCode::FileNotPlaced));
    assert_eq!(outcome.stdout, "");

    let code = "import os\nopen('artifacts/a', 'w').write('x' * 2000)\nos.symlink('/etc/passwd', 'artifacts/b')\nopen('artifacts/c', 'w')";
    let outcome = fleet.run(&python(code)).await;
    assert_eq!((outcome.status, outcome.artifacts.len()), (Status::Succeeded, 1));
    let told: Vec<_> = outcome.artifacts_left_out.iter().map(|l| (l.path.rsplit('/').next().unwrap(), l.why)).collect();
    assert_eq!(told, [("a", LeftOutWhy::TooLarge), ("b", LeftOutWhy::Link)]);
    assert_eq!(outcome.artifacts_left_out[0].size, Some(2000));
    assert_eq!(worker.count("thermae_worker_artifacts_total", "left_out"), 2.0);
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_tells_what_is_new_and_files_reach_it() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    let id = worker.id.clone();
    let run = async |fleet: &mut Fleet, job: Job| {
        fleet.submit_to(&id, &job).await;
        fleet.outcome(&job).await
    };
    let outcome = run(&mut fleet, inline(session_job("s", "open('/session/artifacts/a', 'w').write('1')"))).await;
    assert_eq!(outcome.artifacts[0].path, "/session/artifacts/a");
    let next = Job { files: vec![InputFile::text("in", "x")], ..session_job("s", "print(open('in').read())") };
    let outcome = run(&mut fleet, next).await;
    assert_eq!((outcome.stdout.as_str(), outcome.artifacts.len()), ("x\n", 0));
    let clash = Job { files: vec![InputFile::text("in/deep", "x")], ..session_job("s", "print(1)") };
    let outcome = run(&mut fleet, clash).await;
    assert_eq!(outcome.error.unwrap().code, ErrorCode::FileNotPlaced);
    assert!(outcome.session.unwrap().alive);
    assert_eq!(run(&mut fleet, session_job("s", "print(open('in').read())")).await.stdout, "x\n");
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_inputs_go_as_fast_as_the_runner_takes_them() {
    let mut fleet = Fleet::new().await;
    let mut options = options();
    options.pools.get_mut(&pool_name()).unwrap().disk = thermae_service::units::ByteSize::mib(128);
    let worker = fleet.worker(options).await;
    let files = (0..10).map(|n| InputFile::text(format!("f{n}"), "x".repeat(10 << 20))).collect();
    let job = Job { files, ..python("import os\nprint(sum(os.stat(f'f{n}').st_size for n in range(10)) >> 20)") };
    assert_eq!(fleet.run(&job).await.stdout, "100\n");
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pools_datasets_are_shown_and_can_not_be_changed() {
    let data = tempfile::tempdir().unwrap();
    std::fs::write(data.path().join("sales.csv"), "a,b\n").unwrap();
    for path in [data.path().to_owned(), data.path().join("sales.csv")] {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    let mut fleet = Fleet::new().await;
    let mut options = options();
    let pool = options.pools.get_mut(&pool_name()).unwrap();
    pool.datasets.insert("sales".into(), data.path().to_owned());
    pool.datasets.insert("one.csv".into(), data.path().join("sales.csv"));
    let worker = fleet.worker(options).await;
    let code = "
import os
print(sorted(os.listdir('/data')), open('/data/sales/sales.csv').read(), open('/data/one.csv').read())
for path in ['/data/sales/new', '/data/sales/sales.csv', '/data/one.csv', '/data/new']:
    try: open(path, 'w')
    except OSError as e: print(e.errno)
";
    let outcome = fleet.run(&python(code)).await;
    assert_eq!(outcome.stdout, "['one.csv', 'sales'] a,b\n a,b\n\n30\n30\n30\n30\n", "{outcome:?}");
    worker.end().await;
}
