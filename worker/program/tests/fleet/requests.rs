//! Requests to sessions, with the real runner: commands and file operations beside a session's programs.

pub mod asker;

use std::collections::BTreeMap;
use std::time::Duration;

use thermae_schemas::{ErrorCode, EventBody, FileOp, JobId, Request, RequestEnd, RequestWork, Say, TenantName};
use thermae_service::units::Millis;

use crate::harness::{Fleet, options, pool_name, session_job, within};
use asker::{Asker, exec, input, read, request, write};

fn opened(events: &[EventBody]) -> bool {
    events.iter().any(|event| matches!(event, EventBody::Opened { .. }))
}

fn some_output(events: &[EventBody]) -> bool {
    events.iter().any(|event| matches!(event, EventBody::Output { .. }))
}

const OK: RequestEnd = RequestEnd::Exited { code: 0 };

#[tokio::test(flavor = "multi_thread")]
async fn commands_and_files_are_the_sessions_own() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    let mut asker = Asker::new(&mut fleet, &worker.id).await;
    assert_eq!(asker.ask(&write("a.txt", b"hello\n")).await.0.end, OK);
    let (done, out, err) = asker.ask(&exec("cat a.txt; echo oops >&2; exit 3")).await;
    assert_eq!((done.end, &out[..], &err[..]), (RequestEnd::Exited { code: 3 }, &b"hello\n"[..], &b"oops\n"[..]));
    let (done, out, _) = asker.ask(&Request { input: b"by itself".to_vec().into(), ..exec("cat") }).await;
    assert_eq!((done.end, &out[..]), (OK, &b"by itself"[..]));
    assert_eq!(asker.ask(&read("/workspace/a.txt")).await.1, b"hello\n");
    let stat = asker.ask(&request(RequestWork::File(FileOp::Stat { path: "a.txt".into(), link: false }))).await.0;
    assert_eq!(stat.value.unwrap()["size"], 6);
    let RequestEnd::Failed { errno, .. } = asker.ask(&read("nothing")).await.0.end else { panic!() };
    assert_eq!(errno, "ENOENT");
    let (done, ..) = asker.ask(&exec("kill -TERM $$")).await;
    assert_eq!(done.end, RequestEnd::Signaled { signal: 15 });
    let (done, ..) = asker.ask(&Request { timeout_ms: Some(100), ..exec("sleep 60") }).await;
    assert_eq!(done.end, RequestEnd::TimedOut {});
    let job = session_job("s", "print(x, open('a.txt').read())");
    asker.fleet.submit_to(&worker.id, &job).await;
    assert_eq!(asker.fleet.outcome(&job).await.stdout, "1 hello\n\n");
    assert_eq!(worker.count("thermae_worker_session_requests_total", "exited"), 5.0);
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_run_beside_a_program_and_beside_each_other() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    let mut asker = Asker::new(&mut fleet, &worker.id).await;
    let program =
        session_job("s", "import time\nwhile not __import__('os').path.exists('go'): time.sleep(0.01)\nprint(2)");
    asker.fleet.submit_to(&worker.id, &program).await;
    // Eight at once; each waits for the last one.
    let all: Vec<Request> =
        (0..8).map(|n| exec(&format!("touch r{n}; until [ -e r7 ]; do sleep 0.01; done; echo {n}"))).collect();
    for request in &all {
        asker.send(request).await;
    }
    for (n, request) in all.iter().enumerate() {
        assert_eq!(asker.done(request).await.1, format!("{n}\n").into_bytes());
    }
    assert_eq!(asker.ask(&write("go", b"")).await.0.end, OK);
    let result = asker.until(&request_of(&program), |events| matches!(events.last(), Some(EventBody::Result(_)))).await;
    let Some(EventBody::Result(outcome)) = result.events.pop() else { panic!() };
    assert_eq!(outcome.stdout, "2\n");
    worker.end().await;
}

/// Stands for a job in [`Asker::until`].
fn request_of(job: &thermae_schemas::Job) -> Request {
    Request { id: job.id.clone(), ..exec("") }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_waits_for_the_first_program_of_its_session() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    let first = session_job("s", "import time\nwhile not __import__('os').path.exists('go'): time.sleep(0.01)");
    fleet.submit_to(&worker.id, &first).await;
    let mut asker = Asker { fleet: &mut fleet, worker: worker.id.clone(), heard: BTreeMap::new() };
    // The session exists for the worker as soon as the job has come.
    let mut go = write("go", b"");
    while !matches!(asker.ask(&go).await.0.end, RequestEnd::Exited { .. }) {
        go = Request { id: JobId::random(), ..go };
    }
    asker.until(&request_of(&first), |events| matches!(events.last(), Some(EventBody::Result(_)))).await;
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_flow_by_credit_in_both_directions() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    let mut asker = Asker::new(&mut fleet, &worker.id).await;
    let content: Vec<u8> = (0..300_000u32).flat_map(u32::to_le_bytes).collect();
    let cat = Request { window: 64 << 10, more_input: true, ..exec("cat") };
    asker.send(&cat).await;
    asker.until(&cat, opened).await;
    let (mut sent, mut allowed, mut credit, mut out) = (0, 64 << 10, 64 << 10, Vec::new());
    loop {
        while sent < content.len() && sent < allowed {
            let end = content.len().min(allowed).min(sent + (32 << 10));
            asker.say(&cat, input(sent as u64, &content[sent..end], end == content.len())).await;
            // What comes twice changes nothing.
            asker.say(&cat, input(sent as u64, &content[sent..end], false)).await;
            sent = end;
        }
        match asker.fleet.event().await.body {
            EventBody::Output { data, .. } => {
                out.extend_from_slice(&data);
                assert!(out.len() <= credit, "more than was allowed");
                if credit - out.len() < 32 << 10 {
                    credit = out.len() + (64 << 10);
                    asker.say(&cat, Say::Credit(credit as u64)).await;
                }
            }
            EventBody::Credit { input } => allowed = input as usize,
            EventBody::Done(done) => {
                assert_eq!((done.end, done.output), (OK, content.len() as u64));
                break;
            }
            _ => {}
        }
    }
    assert!(out == content);
    // Without credit, the output waits, and holds up nothing else.
    let yes = Request { window: 10, ..exec("yes") };
    asker.send(&yes).await;
    asker.until(&yes, some_output).await;
    assert_eq!(asker.ask(&exec("echo 1")).await.1, b"1\n");
    asker.say(&yes, Say::Cancel {}).await;
    let (done, out, _) = asker.done(&yes).await;
    assert_eq!((done.end, out.len()), (RequestEnd::Cancelled {}, 10));
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_breaks_the_rules_ends_its_request_alone() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    let mut asker = Asker::new(&mut fleet, &worker.id).await;
    let other = Request { more_input: true, ..exec("cat") };
    asker.send(&other).await;
    let cases = [
        (input(1, b"x", false), ErrorCode::RequestInterrupted),
        (input(0, &[0; 11], false), ErrorCode::SchemaViolation),
    ];
    for (say, code) in cases {
        let cat = Request { window: 10, more_input: true, ..exec("cat") };
        asker.send(&cat).await;
        asker.until(&cat, opened).await;
        asker.say(&cat, say).await;
        assert_eq!(asker.error(&cat).await, code);
    }
    // Another tenant can neither speak for a request nor see it.
    let (globex, acme) = (TenantName::new("globex").unwrap(), asker.fleet.tenant.clone());
    asker.say_as(&globex, &other, Say::Cancel {}).await;
    let foreign = Request { id: other.id.clone(), ..exec("cat /workspace/*") };
    asker.send_as(&globex, &foreign).await;
    let lost = |events: &[EventBody]| {
        events
            .iter()
            .any(|event| matches!(event, EventBody::Done(done) if matches!(done.end, RequestEnd::Error { .. })))
    };
    asker.until(&other, lost).await.events.clear();
    asker.say_as(&acme, &other, input(0, b"mine", true)).await;
    assert_eq!(asker.done(&other).await.1, b"mine");
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_comes_again_is_not_carried_out_again() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    let mut asker = Asker::new(&mut fleet, &worker.id).await;
    let add = exec("echo x >> log; cat");
    let add = Request { more_input: true, ..add };
    for _ in 0..3 {
        asker.send(&add).await;
    }
    // Each time, it is told how far the request is.
    let caught_up = |events: &[EventBody]| events.iter().filter(|e| matches!(e, EventBody::Output { .. })).count() == 2;
    asker.until(&add, caught_up).await;
    asker.say(&add, input(0, b"", true)).await;
    let first = asker.done(&add).await.0;
    asker.send(&add).await;
    assert_eq!(asker.done(&add).await.0, first);
    assert_eq!(asker.ask(&exec("cat log")).await.1, b"x\n");
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn signals_reach_the_command_and_what_it_leaves_lives_on() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    let mut asker = Asker::new(&mut fleet, &worker.id).await;
    let trap = exec("trap 'echo caught; exit 5' USR1; echo ready; while :; do sleep 0.01; done");
    asker.send(&trap).await;
    asker.until(&trap, some_output).await;
    asker.say(&trap, Say::Signal(10)).await;
    let (done, out, _) = asker.done(&trap).await;
    assert_eq!((done.end, &out[..]), (RequestEnd::Exited { code: 5 }, &b"ready\ncaught\n"[..]));
    let leaves = exec("setsid sh -c 'until [ -e go ]; do sleep 0.01; done; touch gone' >/dev/null 2>&1 & echo left");
    assert_eq!(asker.ask(&leaves).await.1, b"left\n");
    let waits = exec("touch go; until [ -e gone ]; do sleep 0.01; done");
    assert_eq!(asker.ask(&waits).await.0.end, OK);
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_keep_a_session_and_end_with_it() {
    let mut fleet = Fleet::new().await;
    let mut options = options();
    options.pools.get_mut(&pool_name()).unwrap().session_idle = Millis::from_secs(8);
    let worker = fleet.worker(options).await;
    let mut asker = Asker::new(&mut fleet, &worker.id).await;
    assert_eq!(asker.ask(&exec("sleep 9")).await.0.end, OK, "longer than the session may be idle");
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(asker.ask(&request(RequestWork::Keepalive {})).await.0.end, OK);
    }
    let sleeps = exec("echo 1; sleep 60");
    asker.send(&sleeps).await;
    asker.until(&sleeps, some_output).await;
    let close = session_job("s", "pass");
    let session = thermae_schemas::SessionRequest { close: true, ..close.session.clone().unwrap() };
    let close = thermae_schemas::Job { session: Some(session), ..close };
    asker.fleet.submit_to(&worker.id, &close).await;
    assert_eq!(asker.error(&sleeps).await, ErrorCode::SessionLost);
    let late = exec("echo 1");
    asker.send(&late).await;
    assert_eq!(asker.error(&late).await, ErrorCode::SessionLost);
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_waits_for_requests_and_takes_no_new_ones() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    let mut asker = Asker::new(&mut fleet, &worker.id).await;
    let cat = Request { more_input: true, ..exec("cat") };
    asker.send(&cat).await;
    asker.until(&cat, opened).await;
    worker.drain.cancel();
    let late = exec("echo 1");
    within("a refusal", async {
        loop {
            let late = Request { id: JobId::random(), ..late.clone() };
            asker.send(&late).await;
            match asker.done(&late).await.0.end {
                RequestEnd::Error { error } => return assert_eq!(error.code, ErrorCode::WorkerStopped),
                end => assert_eq!(end, OK),
            }
        }
    })
    .await;
    asker.say(&cat, input(0, b"last words", true)).await;
    assert_eq!(asker.done(&cat).await.1, b"last words");
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_can_not_make_the_worker_hold_too_much() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    let mut asker = Asker::new(&mut fleet, &worker.id).await;
    // Fifteen such windows fit.
    let large = |shell: &str| Request { window: Request::MAX_WINDOW, more_input: true, ..exec(shell) };
    let all: Vec<Request> = (0..15).map(|_| large("cat")).collect();
    for request in &all {
        asker.send(request).await;
        asker.until(request, opened).await;
    }
    let more = large("cat");
    asker.send(&more).await;
    assert_eq!(asker.error(&more).await, ErrorCode::QuotaExceeded);
    for request in &all {
        asker.say(request, Say::Cancel {}).await;
        assert_eq!(asker.done(request).await.0.end, RequestEnd::Cancelled {});
    }
    assert_eq!(asker.ask(&Request { more_input: false, ..large("echo 1") }).await.1, b"1\n");
    worker.end().await;
}
