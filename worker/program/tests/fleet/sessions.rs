//! Sessions, with the real runner.

use thermae_backplane::bus::Message;
use thermae_backplane::registry::{Gone, Holder, Registry};
use thermae_schemas::{
    ErrorCode, EventBody, IfGone, Outcome, SessionName, Status, Stream, TenantName, ToolReply, ToolSpec, names,
};
use thermae_service::units::Millis;

use crate::harness::{Fleet, options, pool_name, python, session_job, within};

#[tokio::test(flavor = "multi_thread")]
async fn variables_last_from_job_to_job_and_jobs_run_in_their_order() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    let jobs: Vec<_> =
        (0..10).map(|n| session_job("s", if n == 0 { "x = []" } else { "x.append(len(x))\nprint(x[-1])" })).collect();
    for job in &jobs {
        fleet.submit_to(&worker.id, job).await;
    }
    for (n, job) in jobs.iter().enumerate() {
        let outcome = fleet.outcome(job).await;
        assert_eq!(outcome.status, Status::Succeeded, "{outcome:?}");
        let state = outcome.session.unwrap();
        assert_eq!((state.fresh, state.alive), (n == 0, true));
        assert_eq!(outcome.stdout, if n == 0 { String::new() } else { format!("{}\n", n - 1) });
    }
    assert_eq!(fleet.run(&python("print('x' in dir())")).await.stdout, "False\n", "nobody else sees it");
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_code_does_wrong_leaves_the_session_alive() {
    let mut fleet = Fleet::new().await;
    let mut patient = options();
    patient.pools.get_mut(&pool_name()).unwrap().limits.grace = Millis::from_secs(60);
    let worker = fleet.worker(patient).await;
    let mut slow = session_job("s", "while True: pass");
    slow.limits.wall_ms = Some(200);
    let jobs = [
        (session_job("s", "x = 7"), Status::Succeeded),
        (session_job("s", "raise ValueError"), Status::Failed),
        (session_job("s", "import sys; sys.exit(2)"), Status::Failed),
        (slow, Status::TimedOut),
        (session_job("s", "print(x)"), Status::Succeeded),
    ];
    let mut last = None;
    for (job, status) in jobs {
        fleet.submit_to(&worker.id, &job).await;
        let outcome = fleet.outcome(&job).await;
        assert_eq!(outcome.status, status, "{outcome:?}");
        assert!(outcome.session.as_ref().unwrap().alive);
        last = Some(outcome);
    }
    assert_eq!(last.unwrap().stdout, "7\n");
    worker.end().await;
}

async fn at(fleet: &mut Fleet, worker: &thermae_schemas::WorkerId, job: &thermae_schemas::Job) -> Outcome {
    fleet.submit_to(worker, job).await;
    fleet.outcome(job).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_whose_process_dies_is_lost_and_says_so() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    at(&mut fleet, &worker.id, &session_job("s", "x = 1")).await;
    let (dying, next) = (session_job("s", "import os; os._exit(0)"), session_job("s", "print(x)"));
    // Both are on their way before the first one dies.
    let (first, second) = (
        fleet.assign(&fleet.tenant.clone(), &dying, None).await,
        fleet.assign(&fleet.tenant.clone(), &next, None).await,
    );
    for message in [first, second] {
        fleet.bus.publish(message).await.unwrap().wait().await.unwrap();
    }
    let outcome = fleet.outcome(&dying).await;
    assert!(!outcome.session.unwrap().alive);
    let outcome = fleet.outcome(&next).await;
    assert_eq!((outcome.status, outcome.error.unwrap().code), (Status::Rejected, ErrorCode::SessionLost));
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_session_expires_and_a_job_on_its_way_hears_that() {
    let mut fleet = Fleet::new().await;
    let mut options = options();
    options.pools.get_mut(&pool_name()).unwrap().session_idle = Millis::from_millis(300);
    let worker = fleet.worker(options).await;
    // The session is in use until the other jobs are on their way.
    let mut first = session_job("s", "x = await look()");
    first.tools = vec![ToolSpec::new("look")];
    fleet.submit_to(&worker.id, &first).await;
    let call = fleet.tool_call(&first).await;
    let late = session_job("s", "print(x)");
    let anew = with("s", "print(x)", |s| s.if_gone = IfGone::New);
    let (message, anew) = (
        fleet.assign(&fleet.tenant.clone(), &late, None).await,
        fleet.assign(&fleet.tenant.clone(), &anew, None).await,
    );
    fleet.answer(&call, ToolReply::Ok(serde_json::json!(1).into())).await;
    assert_eq!(fleet.outcome(&first).await.status, Status::Succeeded);
    within("the session's end", async {
        while worker.count("thermae_worker_sessions_ended_total", "expired") < 1.0 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
    fleet.bus.publish(message).await.unwrap().wait().await.unwrap();
    let outcome = fleet.outcome(&late).await;
    assert_eq!((outcome.status, outcome.error.unwrap().code), (Status::Rejected, ErrorCode::SessionExpired));
    // A scheduler places a job that accepts a new session again. This worker must not do that on its own.
    fleet.bus.publish(anew.clone()).await.unwrap().wait().await.unwrap();
    let resolved = fleet.resolved().await.message;
    assert_eq!(*resolved, Message { exchange: names::RESOLVE.into(), key: String::new(), mandatory: false, ..anew });
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_at_its_bound_gives_up_the_session_it_used_longest_ago() {
    let mut fleet = Fleet::new().await;
    let mut options = options();
    let pool = options.pools.get_mut(&pool_name()).unwrap();
    (pool.max_sessions, pool.max_sessions_per_tenant) = (2, Some(2));
    pool.session_min_idle = Millis::from_millis(0);
    let worker = fleet.worker(options).await;
    for name in ["a", "b", "c"] {
        let outcome = at(&mut fleet, &worker.id, &session_job(name, "x = 1")).await;
        assert_eq!(outcome.status, Status::Succeeded, "{name}: {outcome:?}");
    }
    assert_eq!(at(&mut fleet, &worker.id, &session_job("b", "print(x)")).await.stdout, "1\n");
    // Another tenant can't end any of them.
    let other = TenantName::new("globex").unwrap();
    let job = session_job("z", "1");
    let message = fleet.assign(&other, &job, Some(worker.id.clone())).await;
    fleet.bus.publish(message).await.unwrap().wait().await.unwrap();
    let outcome = fleet.outcome(&job).await;
    assert_eq!((outcome.status, outcome.error.unwrap().code), (Status::Rejected, ErrorCode::SessionLimit));
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_loses_sessions_plainly() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    at(&mut fleet, &worker.id, &session_job("s", "x = 1")).await;
    let id = worker.id.clone();
    worker.end().await;
    let (tenant, session) = (fleet.tenant.clone(), SessionName::new("s").unwrap());
    // The worker has told the registry itself. Telling it again changes nothing.
    fleet.registry.end_session(&tenant, &session, &id, None, Gone::Lost).await.unwrap();
    let job = session_job("s", "print(x)");
    let admit = fleet.admit(&tenant, &job, Some(id)).await;
    assert_eq!(admit, thermae_backplane::registry::Admitted::SessionGone(Gone::Lost));
}

fn with(session: &str, code: &str, change: impl FnOnce(&mut thermae_schemas::SessionRequest)) -> thermae_schemas::Job {
    let mut job = session_job(session, code);
    change(job.session.as_mut().unwrap());
    job
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_begins_anew_under_the_same_name() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    at(&mut fleet, &worker.id, &session_job("s", "x = 1")).await;
    let outcome = at(&mut fleet, &worker.id, &with("s", "print('x' in dir())\ny = 2", |s| s.reset = true)).await;
    assert_eq!(outcome.stdout, "False\n", "{outcome:?}");
    let state = outcome.session.unwrap();
    assert!(state.fresh && state.alive);
    let outcome = at(&mut fleet, &worker.id, &session_job("s", "print(y)")).await;
    assert_eq!((outcome.stdout.as_str(), outcome.session.unwrap().fresh), ("2\n", false));
    // A job that never starts does not reset its session.
    let mut late = with("s", "print(1)", |s| s.reset = true);
    late.limits.wall_ms = Some(u64::MAX);
    assert_eq!(at(&mut fleet, &worker.id, &late).await.status, Status::Rejected);
    assert_eq!(at(&mut fleet, &worker.id, &session_job("s", "print(y)")).await.stdout, "2\n");
    assert_eq!(worker.count("thermae_worker_sessions", ""), 1.0);
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_session_frees_its_name_and_its_container() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    at(&mut fleet, &worker.id, &session_job("s", "x = 1")).await;
    let registry = fleet.registry.clone();
    let listed = async || registry.workers().await.unwrap().into_iter().flat_map(|beat| beat.sessions).count();
    within("a heartbeat that names the session", async {
        while listed().await == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
    // A job that fails closes its session, too.
    let outcome = at(&mut fleet, &worker.id, &with("s", "print(x); raise ValueError", |s| s.close = true)).await;
    assert_eq!((outcome.status, outcome.stdout.as_str()), (Status::Failed, "1\n"));
    assert!(!outcome.session.unwrap().alive);
    assert_eq!(listed().await, 0, "whoever hears of the end finds the session gone");
    within("the session's end", async {
        while worker.count("thermae_worker_sessions_ended_total", "closed") < 1.0 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
    // The end is counted a moment before the registry is told. Telling it again changes nothing.
    let (tenant, session) = (fleet.tenant.clone(), SessionName::new("s").unwrap());
    fleet.registry.end_session(&tenant, &session, &worker.id, None, Gone::Closed).await.unwrap();
    let outcome = at(&mut fleet, &worker.id, &session_job("s", "print('x' in dir())")).await;
    assert_eq!((outcome.stdout.as_str(), outcome.session.unwrap().fresh), ("False\n", true));
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_may_ask_for_a_shorter_idle_time() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    let too_long = with("too-long", "1", |s| s.idle_ms = Some(24 * 3600 * 1000));
    let outcome = at(&mut fleet, &worker.id, &too_long).await;
    assert_eq!((outcome.status, outcome.error.unwrap().code), (Status::Rejected, ErrorCode::LimitTooHigh));
    at(&mut fleet, &worker.id, &with("s", "x = 1", |s| s.idle_ms = Some(100))).await;
    within("the session's end", async {
        while worker.count("thermae_worker_sessions_ended_total", "expired") < 1.0 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenants_own_bound_holds_below_the_pools() {
    let mut fleet = Fleet::new().await;
    let mut options = options();
    let pool = options.pools.get_mut(&pool_name()).unwrap();
    (pool.max_sessions_per_tenant, pool.session_min_idle) = (Some(1), Millis::from_millis(0));
    let worker = fleet.worker(options).await;
    for name in ["a", "b"] {
        assert_eq!(at(&mut fleet, &worker.id, &session_job(name, "x = 1")).await.status, Status::Succeeded);
    }
    let busy = session_job("b", "await wait()");
    let mut busy = busy;
    busy.tools = vec![ToolSpec::new("wait")];
    fleet.submit_to(&worker.id, &busy).await;
    let call = fleet.tool_call(&busy).await;
    let outcome = at(&mut fleet, &worker.id, &session_job("c", "1")).await;
    let error = outcome.error.unwrap();
    assert_eq!((outcome.status, error.code), (Status::Rejected, ErrorCode::SessionLimit));
    assert!(error.message.contains("(max_sessions_per_tenant)"), "{error:?}");
    fleet.answer(&call, ToolReply::Ok(serde_json::Value::Null.into())).await;
    assert_eq!(fleet.outcome(&busy).await.status, Status::Succeeded);
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_makes_room_keeps_its_files_and_is_told_apart() {
    let mut fleet = Fleet::new().await;
    let store = tempfile::tempdir().unwrap();
    let mut options = options();
    options.artifacts.store = Some(format!("file://{}", store.path().display()));
    let pool = options.pools.get_mut(&pool_name()).unwrap();
    (pool.max_sessions, pool.max_sessions_per_tenant) = (1, Some(1));
    pool.session_min_idle = Millis::from_millis(0);
    let worker = fleet.worker(options).await;
    at(&mut fleet, &worker.id, &session_job("a", "x = 1\nopen('/session/kept', 'w').close()")).await;
    let late = session_job("a", "print(x)");
    let message = fleet.assign(&fleet.tenant.clone(), &late, None).await;
    assert_eq!(at(&mut fleet, &worker.id, &session_job("b", "x = 2")).await.status, Status::Succeeded);
    // It may still be storing its files. What comes meanwhile waits, and is told.
    fleet.bus.publish(message).await.unwrap().wait().await.unwrap();
    let outcome = fleet.outcome(&late).await;
    assert_eq!((outcome.status, outcome.error.unwrap().code), (Status::Rejected, ErrorCode::SessionEvicted));
    assert_eq!(worker.count("thermae_worker_sessions_ended_total", "evicted"), 1.0);
    let again = fleet.admit(&fleet.tenant.clone(), &session_job("a", ""), Some(worker.id.clone())).await;
    assert_eq!(again, thermae_backplane::registry::Admitted::SessionGone(Gone::Evicted));
    let look = "import os\nprint('x' in dir(), os.path.exists('/session/kept'))";
    let outcome = at(&mut fleet, &worker.id, &with("a", look, |s| s.if_gone = IfGone::New)).await;
    assert_eq!(outcome.stdout, "False True\n", "{outcome:?}");
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_was_used_lately_makes_no_room() {
    let mut fleet = Fleet::new().await;
    let mut options = options();
    let pool = options.pools.get_mut(&pool_name()).unwrap();
    assert_eq!((pool.max_sessions, pool.session_min_idle), (16, Millis::from_secs(30)));
    (pool.max_sessions, pool.max_sessions_per_tenant) = (1, Some(1));
    pool.session_min_idle = Millis::from_secs(3600);
    let worker = fleet.worker(options).await;
    at(&mut fleet, &worker.id, &session_job("a", "x = 1")).await;
    let outcome = at(&mut fleet, &worker.id, &session_job("b", "x = 2")).await;
    let error = outcome.error.unwrap();
    assert_eq!((outcome.status, error.code), (Status::Rejected, ErrorCode::SessionLimit));
    assert!(
        error.message.contains("(max_sessions)") && error.message.contains("3600 s (session_min_idle)"),
        "{error:?}"
    );
    assert_eq!(at(&mut fleet, &worker.id, &session_job("a", "print(x)")).await.stdout, "1\n");
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_drain_a_sessions_files_move_and_its_memory_is_lost_plainly() {
    let mut fleet = Fleet::new().await;
    let store = tempfile::tempdir().unwrap();
    let options = || {
        let mut options = options();
        options.artifacts.store = Some(format!("file://{}", store.path().display()));
        options
    };
    let first = fleet.worker(options()).await;
    let code = "import os\nx = 1\nos.makedirs('/session/sub')\nopen('/session/sub/run.sh', 'w').write('#!/bin/sh\\necho kept\\n')\nos.chmod('/session/sub/run.sh', 0o755)\nopen('/workspace/gone', 'w').close()";
    assert_eq!(at(&mut fleet, &first.id, &session_job("s", code)).await.status, Status::Succeeded);
    assert_eq!(at(&mut fleet, &first.id, &session_job("other", "y = 1")).await.status, Status::Succeeded);
    let drained = first.id.clone();
    first.end().await;

    let second = fleet.worker(options()).await;
    let plain = fleet.admit(&fleet.tenant.clone(), &session_job("s", "print(x)"), Some(second.id.clone())).await;
    assert_eq!(plain, thermae_backplane::registry::Admitted::SessionGone(Gone::Lost), "{drained} is gone");
    let look = "import subprocess\nprint('x' in dir(), subprocess.run(['/session/sub/run.sh'], capture_output=True, text=True).stdout, end='')";
    let outcome = at(&mut fleet, &second.id, &with("s", look, |s| s.if_gone = IfGone::New)).await;
    assert_eq!(outcome.stdout, "False kept\n", "{outcome:?}");
    let state = outcome.session.unwrap();
    assert_eq!((state.fresh, state.restored_files), (true, 2), "with the one in /workspace");
    // Files that were put back are the session's own: a session that comes after it does not find them.
    let anew =
        at(&mut fleet, &second.id, &with("s", "import os\nprint(os.listdir('/session'))", |s| s.reset = true)).await;
    assert_eq!((anew.stdout.as_str(), anew.session.unwrap().restored_files), ("['artifacts']\n", 0));
    let empty = at(&mut fleet, &second.id, &with("other", "1", |s| s.if_gone = IfGone::New)).await;
    assert_eq!(empty.session.unwrap().restored_files, 0, "it had none");
    second.end().await;
}

/// Runs a session's job until it has printed something, cancels it, and returns its outcome.
async fn cancelled(fleet: &mut Fleet, worker: &thermae_schemas::WorkerId, code: &str) -> Outcome {
    let mut job = session_job("s", code);
    job.stream = vec![Stream::Output];
    fleet.submit_to(worker, &job).await;
    while !matches!(fleet.event_of(&job).await, EventBody::Stdout { .. }) {}
    fleet.cancel(worker, &job).await;
    let outcome = fleet.outcome(&job).await;
    assert_eq!((outcome.status, outcome.error.as_ref().unwrap().code), (Status::Cancelled, ErrorCode::Cancelled));
    outcome
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_job_keeps_its_session_or_at_least_its_files() {
    let mut fleet = Fleet::new().await;
    let store = tempfile::tempdir().unwrap();
    let options = |grace, lasting: bool| {
        let mut options = options();
        options.pools.get_mut(&pool_name()).unwrap().limits.grace = grace;
        options.artifacts.store = lasting.then(|| format!("file://{}", store.path().display()));
        options
    };
    let worker = fleet.worker(options(Millis::from_secs(60), false)).await;
    at(&mut fleet, &worker.id, &session_job("s", "x = 41\nopen('kept', 'w').write('kept')")).await;
    let heeds = "open('artifacts/a', 'w').write('a')\nprint('on', flush=True)\nwhile True: pass";
    let outcome = cancelled(&mut fleet, &worker.id, heeds).await;
    assert!(outcome.session.as_ref().unwrap().alive, "{outcome:?}");
    assert_eq!(
        outcome.error.unwrap().message,
        "The job was cancelled, and its code interrupted. The session keeps its variables and files."
    );
    assert_eq!(outcome.artifacts.len(), 1, "as at a time-out");
    assert_eq!(
        at(&mut fleet, &worker.id, &session_job("s", "print(x, open('kept').read())")).await.stdout,
        "41 kept\n"
    );
    worker.end().await;

    let defies = "open('kept', 'w').write('kept')\nwhile True:\n    try:\n        print('on', flush=True)\n        while True: pass\n    except KeyboardInterrupt: pass";
    let look = "import os\nprint('x' in dir(), os.path.exists('kept'))";
    for lasting in [true, false] {
        let worker = fleet.worker(options(Millis::from_millis(100), lasting)).await;
        at(&mut fleet, &worker.id, &with("s", "x = 41", |s| s.if_gone = IfGone::New)).await;
        let outcome = cancelled(&mut fleet, &worker.id, defies).await;
        let state = outcome.session.as_ref().unwrap();
        assert_eq!((state.alive, state.checkpointed, state.checkpoint_error.is_some()), (false, lasting, false));
        let told = if lasting { "Its files are kept" } else { "variables, processes and files are lost" };
        assert!(outcome.error.as_ref().unwrap().message.contains(told), "{outcome:?}");
        let name = SessionName::new("s").unwrap();
        within("the session's end", async {
            while fleet.registry.session_holder(&fleet.tenant, &name).await.unwrap() != Holder::Gone(Gone::Lost) {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        })
        .await;
        let outcome = at(&mut fleet, &worker.id, &with("s", look, |s| s.if_gone = IfGone::New)).await;
        assert_eq!(outcome.stdout, if lasting { "False True\n" } else { "False False\n" });
        at(&mut fleet, &worker.id, &with("s", "", |s| s.close = true)).await;
        worker.end().await;
    }
}
