//! Checkpoints of sessions, with the real runner. A second fleet with the same store plays the fleet that has lost the
//! session's worker: nothing but the store is left to it.

use std::path::Path;

use thermae_backplane::registry::{Holder, Registry};
use thermae_schemas::{CheckpointWhen, ErrorCode, FileOp, IfGone, Job, Outcome, SessionName, SessionRequest, Status};
use thermae_schemas::{RequestEnd, TenantName};
use thermae_service::units::{ByteSize, Millis};
use thermae_worker::Options;

use crate::harness::{Fleet, Worker, options, pool_name, session_job, within};
use crate::requests::asker::{Asker, exec, request, write};

fn stored(folder: &Path) -> Options {
    let mut options = options();
    options.artifacts.store = Some(format!("file://{}", folder.display()));
    options
}

fn job(session: &str, code: &str, change: impl FnOnce(&mut SessionRequest)) -> Job {
    let mut job = session_job(session, code);
    change(job.session.as_mut().unwrap());
    job
}

fn after_job(session: &mut SessionRequest) {
    session.checkpoint = Some(CheckpointWhen::AfterJob);
}

fn restore(other: &str) -> impl FnOnce(&mut SessionRequest) {
    let other = SessionName::new(other).unwrap();
    move |session| session.restore = Some(other)
}

async fn at(fleet: &mut Fleet, worker: &Worker, job: &Job) -> Outcome {
    fleet.submit_to(&worker.id, job).await;
    fleet.outcome(job).await
}

async fn another(folder: &Path) -> (Fleet, Worker) {
    let fleet = Fleet::new().await;
    let worker = fleet.worker(stored(folder)).await;
    (fleet, worker)
}

/// Waits until a session is gone from the registry, so that its name is free.
async fn until_free(fleet: &Fleet, session: &str) {
    let session = SessionName::new(session).unwrap();
    within("the session's end", async {
        while let Holder::Worker(_) = fleet.registry.session_holder(&fleet.tenant, &session).await.unwrap() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
}

fn code(outcome: &Outcome) -> ErrorCode {
    assert_eq!((outcome.status, outcome.stdout.as_str()), (Status::Rejected, ""), "{outcome:?}");
    outcome.error.as_ref().unwrap().code
}

const MAKE: &str = "
import os
x = 1
open('/workspace/tool', 'w').write('#!/bin/sh\\necho kept\\n')
os.chmod('/workspace/tool', 0o755)
os.symlink('tool', '/workspace/link')
os.makedirs('/session/empty/deep')
open('/session/big', 'wb').write(b'b' * (6 << 20))
";
const LOOK: &str = "
import os, subprocess
print('x' in dir(), oct(os.stat('/workspace/tool').st_mode), os.readlink('/workspace/link'),
      os.listdir('/session/empty'), os.stat('/session/big').st_size,
      subprocess.run(['/workspace/link'], capture_output=True, text=True).stdout, end='')
";
const LOOKS: &str = "False 0o100755 tool ['deep'] 6291456 kept\n";

#[tokio::test(flavor = "multi_thread")]
async fn what_a_job_left_is_there_without_its_worker() {
    let store = tempfile::tempdir().unwrap();
    let (mut fleet, first) = another(store.path()).await;
    let outcome = at(&mut fleet, &first, &job("s", MAKE, after_job)).await;
    let state = outcome.session.clone().unwrap();
    assert!(state.checkpointed && state.checkpoint_error.is_none() && state.checkpoint_left_out == 0, "{outcome:?}");
    assert!(state.checkpoint_expires_at.is_some());
    // The wish lasts, also for a job that fails and for one that says nothing of it.
    let failed =
        at(&mut fleet, &first, &session_job("s", "open('/session/second', 'w').close()\nraise ValueError")).await;
    assert_eq!((failed.status, failed.session.unwrap().checkpointed), (Status::Failed, true));
    let other = at(&mut fleet, &first, &session_job("other", "1")).await;
    assert!(!other.session.unwrap().checkpointed, "it did not ask for it");

    let (mut fleet, second) = another(store.path()).await;
    let found = at(&mut fleet, &second, &job("s", LOOK, after_job)).await;
    assert_eq!(found.stdout, LOOKS, "{found:?}");
    let state = found.session.unwrap();
    assert_eq!((state.fresh, state.restored_files, state.checkpointed), (true, 4, true));
    assert_eq!(found.artifacts.len(), 0);
    first.end().await;
    second.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_lost_its_session_overwrites_nothing_of_the_next() {
    let store = tempfile::tempdir().unwrap();
    let (mut fleet, first) = another(store.path()).await;
    at(&mut fleet, &first, &job("s", "open('/session/f', 'w').write('old')", after_job)).await;
    let (mut later, second) = another(store.path()).await;
    let found = at(
        &mut later,
        &second,
        &job("s", "print(open('/session/f').read())\nopen('/session/f', 'w').write('new')", after_job),
    )
    .await;
    assert_eq!(found.stdout, "old\n", "{found:?}");
    // The first fleet still believes to hold it, and so does its worker when it drains.
    let late = at(&mut fleet, &first, &session_job("s", "open('/session/f', 'w').write('late')")).await;
    assert_eq!(late.status, Status::Succeeded);
    first.end().await;
    let (mut last, third) = another(store.path()).await;
    assert_eq!(at(&mut last, &third, &session_job("s", "print(open('/session/f').read())")).await.stdout, "new\n");
    second.end().await;
    third.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_stored_once_and_goes_back_as_often_as_it_likes() {
    let store = tempfile::tempdir().unwrap();
    let (mut fleet, worker) = another(store.path()).await;
    let once = |code: &str, reset: bool| {
        job("s", code, |s| {
            s.checkpoint = Some(CheckpointWhen::Once);
            (s.reset, s.restore) = (reset, reset.then(|| s.id.clone()));
        })
    };
    let write = |text: &str| format!("open('/session/f', 'w').write('{text}')");
    let checkpointed = |outcome: &Outcome| outcome.session.as_ref().unwrap().checkpointed;
    assert!(checkpointed(&at(&mut fleet, &worker, &once(&write("one"), false)).await));
    assert!(!checkpointed(&at(&mut fleet, &worker, &session_job("s", &write("two"))).await), "for that job alone");
    for _ in 0..2 {
        let back = at(&mut fleet, &worker, &once("print(open('/session/f').read())", true)).await;
        assert_eq!((back.stdout.as_str(), checkpointed(&back)), ("one\n", true), "{back:?}");
        assert!(!checkpointed(&at(&mut fleet, &worker, &session_job("s", &write("three"))).await));
    }
    // A job that came too late to restore it does not replace it.
    let mut late = once("", true);
    late.session.as_mut().unwrap().reset = false;
    assert!(!checkpointed(&at(&mut fleet, &worker, &late).await));
    let back = at(&mut fleet, &worker, &once("print(open('/session/f').read())", true)).await;
    assert_eq!(back.stdout, "one\n");
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_session_begins_with_the_checkpoint_of_another() {
    let store = tempfile::tempdir().unwrap();
    let (mut fleet, worker) = another(store.path()).await;
    let closing = job("a", MAKE, |s| {
        after_job(s);
        s.close = true;
    });
    assert!(at(&mut fleet, &worker, &closing).await.session.unwrap().checkpointed, "a closed session's stays");
    for copy in ["b", "c"] {
        let found = at(&mut fleet, &worker, &job(copy, LOOK, restore("a"))).await;
        assert_eq!((found.stdout.as_str(), found.session.unwrap().restored_files), (LOOKS, 3), "{copy}");
    }
    // A session that lives does not begin, so it goes on as it is.
    let lives = at(&mut fleet, &worker, &job("b", "print(2)", restore("no-such"))).await;
    assert_eq!(lives.stdout, "2\n", "{lives:?}");
    let missing = at(&mut fleet, &worker, &job("d", "print(1)", restore("no-such"))).await;
    assert_eq!(code(&missing), ErrorCode::CheckpointMissing);
    // A reset begins without its own.
    until_free(&fleet, "a").await;
    let own = |s: &mut SessionRequest| s.reset = true;
    at(&mut fleet, &worker, &job("a", "1", own)).await;
    let gone = at(&mut fleet, &worker, &job("e", "print(1)", restore("a"))).await;
    assert_eq!(code(&gone), ErrorCode::CheckpointMissing, "a reset forgets the checkpoint");
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_tenant_finds_what_another_has() {
    let store = tempfile::tempdir().unwrap();
    let (mut fleet, worker) = another(store.path()).await;
    at(&mut fleet, &worker, &job("s", "open('/session/secret', 'w').write('x')", after_job)).await;
    worker.end().await;
    let mut globex = Fleet::of("globex").await;
    let worker = globex.worker(stored(store.path())).await;
    assert_eq!(globex.tenant, TenantName::new("globex").unwrap());
    let look = "import os\nprint(os.listdir('/session'))";
    let same_name = at(&mut globex, &worker, &job("s", look, after_job)).await;
    assert_eq!((same_name.stdout.as_str(), same_name.session.unwrap().restored_files), ("['artifacts']\n", 0));
    let by_name = at(&mut globex, &worker, &job("t", look, restore("s2"))).await;
    assert_eq!(code(&by_name), ErrorCode::CheckpointMissing);
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checkpoint_that_fails_is_told_and_fails_no_job() {
    let store = tempfile::tempdir().unwrap();
    let (mut fleet, worker) = another(store.path()).await;
    let first = at(&mut fleet, &worker, &job("s", "open('/session/f', 'w').write('kept')", after_job)).await;
    assert!(first.session.unwrap().checkpointed);
    let sparse = "import os
for n in range(2):
    with open(f'/session/sparse{n}', 'w') as file:
        os.ftruncate(file.fileno(), 40 << 20)";
    let large = at(&mut fleet, &worker, &session_job("s", sparse)).await;
    assert_eq!(large.status, Status::Succeeded, "{large:?}");
    let state = large.session.unwrap();
    assert_eq!((state.checkpointed, state.checkpoint_error.unwrap().code), (false, ErrorCode::CheckpointTooLarge));
    // The store takes nothing any more: a file is where a folder has to be.
    let tenant = store.path().join("acme");
    std::fs::rename(tenant.join("checkpoints"), store.path().join("aside")).unwrap();
    std::fs::write(tenant.join("checkpoints"), "in the way").unwrap();
    let refused = at(
        &mut fleet,
        &worker,
        &session_job(
            "s",
            "[os.unlink(f'/session/sparse{n}') for n in range(2)]\nopen('/session/g', 'w').write('g')\nprint(1)",
        ),
    )
    .await;
    assert_eq!((refused.status, refused.stdout.as_str()), (Status::Succeeded, "1\n"));
    let state = refused.session.unwrap();
    let error = state.checkpoint_error.unwrap();
    assert_eq!((state.checkpointed, error.code), (false, ErrorCode::CheckpointFailed));
    assert!(!error.message.contains(store.path().to_str().unwrap()), "{}", error.message);
    // A session that dies with its job keeps its last checkpoint.
    std::fs::remove_file(tenant.join("checkpoints")).unwrap();
    std::fs::rename(store.path().join("aside"), tenant.join("checkpoints")).unwrap();
    let died = at(&mut fleet, &worker, &session_job("s", "os._exit(3)")).await;
    let state = died.session.unwrap();
    assert_eq!((state.alive, state.checkpoint_error.unwrap().code), (false, ErrorCode::CheckpointFailed));
    until_free(&fleet, "s").await;
    let again = job("s", "print(open('/session/f').read())", |s| s.if_gone = IfGone::New);
    assert_eq!(at(&mut fleet, &worker, &again).await.stdout, "kept\n");
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn checkpoints_expire_and_no_job_may_keep_one_for_too_long() {
    let store = tempfile::tempdir().unwrap();
    let (mut fleet, worker) = another(store.path()).await;
    let short = job("s", "open('/session/f', 'w').write('x')", |s| {
        after_job(s);
        (s.checkpoint_ttl_ms, s.close) = (Some(1), true);
    });
    assert!(at(&mut fleet, &worker, &short).await.session.unwrap().checkpointed);
    let late = at(&mut fleet, &worker, &job("t", "1", restore("s"))).await;
    until_free(&fleet, "t").await;
    assert_eq!(code(&late), ErrorCode::CheckpointMissing);
    let too_long = job("u", "1", |s| s.checkpoint_ttl_ms = Some(u64::MAX));
    assert_eq!(code(&at(&mut fleet, &worker, &too_long).await), ErrorCode::LimitTooHigh);
    let none = job("v", "1", |s| s.checkpoint_ttl_ms = Some(0));
    assert_eq!(code(&at(&mut fleet, &worker, &none).await), ErrorCode::SchemaViolation);
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_lasting_store_or_enough_room_nothing_runs() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    assert_eq!(
        code(&at(&mut fleet, &worker, &job("s", "print(1)", after_job)).await),
        ErrorCode::CheckpointUnsupported
    );
    let from = job("r", "print(1)", restore("t"));
    assert_eq!(code(&at(&mut fleet, &worker, &from).await), ErrorCode::CheckpointUnsupported);
    worker.end().await;

    let store = tempfile::tempdir().unwrap();
    let (mut fleet, worker) = another(store.path()).await;
    assert!(at(&mut fleet, &worker, &job("s", MAKE, after_job)).await.session.unwrap().checkpointed);
    worker.end().await;
    let mut small = stored(store.path());
    small.pools.get_mut(&pool_name()).unwrap().disk = ByteSize::mib(4);
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(small).await;
    assert_eq!(code(&at(&mut fleet, &worker, &session_job("s", "print(1)")).await), ErrorCode::CheckpointTooLarge);
    until_free(&fleet, "s").await;
    let anew = job("s", "print(1)", |s| s.reset = true);
    assert_eq!(at(&mut fleet, &worker, &anew).await.stdout, "1\n", "without it");
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_ends_requests_first_and_keeps_what_they_did() {
    let store = tempfile::tempdir().unwrap();
    let mut fleet = Fleet::new().await;
    let mut options = stored(store.path());
    options.drain_grace = Millis::from_secs(12);
    let worker = fleet.worker(options).await;
    let mut asker = Asker::new(&mut fleet, &worker.id).await;
    assert_eq!(asker.ask(&write("/session/by-request", b"x")).await.0.end, RequestEnd::Exited { code: 0 });
    let forever = exec("touch /session/begun; while :; do echo more >> /session/log; sleep 0.01; done");
    asker.send(&forever).await;
    let begun =
        request(thermae_schemas::RequestWork::File(FileOp::Stat { path: "/session/begun".into(), link: false }));
    within("the command's start", async {
        while !matches!(
            asker.ask(&thermae_schemas::Request { id: thermae_schemas::JobId::random(), ..begun.clone() }).await.0.end,
            RequestEnd::Exited { code: 0 }
        ) {}
    })
    .await;
    worker.end().await;
    let (mut fleet, second) = another(store.path()).await;
    let look = "
import os
print(sorted(os.listdir('/session')))
print(set(open('/session/log').read().split()))";
    let found = at(&mut fleet, &second, &session_job("s", look)).await;
    assert_eq!(found.stdout, "['artifacts', 'begun', 'by-request', 'log']\n{'more'}\n", "{found:?}");
    second.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_did_not_change_is_not_stored_again() {
    let store = tempfile::tempdir().unwrap();
    let (mut fleet, worker) = another(store.path()).await;
    at(&mut fleet, &worker, &job("s", "import os\nopen('/session/big', 'wb').write(os.urandom(20 << 20))", after_job))
        .await;
    let size = || {
        let (mut sum, mut left) = (0, vec![store.path().to_owned()]);
        while let Some(at) = left.pop() {
            for entry in std::fs::read_dir(at).unwrap().map(Result::unwrap) {
                let meta = entry.metadata().unwrap();
                if meta.is_dir() { left.push(entry.path()) } else { sum += meta.len() }
            }
        }
        sum
    };
    let before = size();
    assert!(before > 20 << 20, "{before}");
    for n in 0..3 {
        let change = session_job("s", &format!("open('/session/small', 'w').write('{n}' * 1000)"));
        assert!(at(&mut fleet, &worker, &change).await.session.unwrap().checkpointed);
    }
    assert!(size() - before < 12 << 20, "three checkpoints of 20 MiB took {} bytes", size() - before);
    worker.end().await;
}
