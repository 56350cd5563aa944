//! Jobs, with the real runner.

use thermae_schemas::{ErrorCode, EventBody, LimitRequest, Status, Stream, TenantName, names};

use crate::harness::{Fleet, options, pool_name, python};

#[tokio::test(flavor = "multi_thread")]
async fn a_job_runs_in_a_fresh_sandbox_and_its_outcome_returns() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    let job = python("print(1 + 1)\n40 + 2");
    let outcome = fleet.run(&job).await;
    assert_eq!((outcome.status, outcome.stdout.as_str()), (Status::Succeeded, "2\n"), "{outcome:?}");
    assert_eq!(outcome.value.unwrap()["text/plain"].raw().get(), "\"42\"");
    assert_eq!((outcome.exit_code, outcome.worker.as_ref()), (Some(0), Some(&worker.id)));
    assert!(outcome.usage.wall_ms > 0.0 && outcome.limits.unwrap().memory_bytes == 256 << 20);
    assert!(fleet.recorded(&job).await.is_some(), "recorded before it was published");
    assert_eq!(worker.count("thermae_worker_jobs_total", "succeeded"), 1.0);
    worker.end().await;
    assert!(fleet.registry_is_empty().await, "a worker that ends by itself is forgotten at once");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_jobs_leave_nothing_to_each_other() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    let code = "import os, builtins\nprint(os.path.exists('/tmp/x'), hasattr(builtins, 'x'))\nopen('/tmp/x', 'w'); builtins.x = 1";
    let jobs: Vec<_> = (0..40).map(|_| python(code)).collect();
    for job in &jobs {
        fleet.submit(job).await;
    }
    for job in &jobs {
        assert_eq!(fleet.outcome(job).await.stdout, "False False\n");
    }
    assert_eq!(worker.count("thermae_worker_jobs_total", "succeeded"), 40.0);
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_say_what_to_do() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    let raised = fleet.run(&python("x = 1\nraise ValueError('bad\\nthing')")).await;
    let error = raised.error.unwrap();
    assert_eq!((raised.status, error.code), (Status::Failed, ErrorCode::CodeRaised));
    assert_eq!(error.exception.as_deref(), Some("ValueError"));
    assert!(error.traceback.unwrap().contains("line 2"));

    let exited = fleet.run(&python("import sys; sys.exit(3)")).await;
    assert_eq!((exited.status, exited.exit_code), (Status::Failed, Some(3)));

    let mut slow = python("while True: pass");
    slow.limits.wall_ms = Some(200);
    let slow = fleet.run(&slow).await;
    assert_eq!((slow.status, slow.error.unwrap().code), (Status::TimedOut, ErrorCode::WallTimeout));

    let mut loud = python("while True: print('x' * 1000)");
    loud.limits.output_bytes = Some(10_000);
    let loud = fleet.run(&loud).await;
    assert_eq!(loud.status, Status::OutputLimit);
    assert_eq!(loud.stdout.len(), 10_000);

    let odd = fleet.run(&python("import sys; sys.stdout.buffer.write(b'a\\xff\\r\\n\\n')")).await;
    assert_eq!((odd.stdout.as_str(), odd.stdout_base64.as_deref()), ("a\u{fffd}\r\n\n", Some("Yf8NCgo=")));
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_pool_does_not_run_is_rejected_and_recorded() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    let mut javascript = python("1");
    javascript.language = "javascript".parse().unwrap();
    let mut greedy = python("1");
    greedy.limits = LimitRequest { memory_bytes: Some(1 << 50), ..LimitRequest::default() };
    let mut late = python("1");
    late.start_within_ms = Some(1);
    for (job, code) in [(javascript, ErrorCode::UnsupportedLanguage), (greedy, ErrorCode::LimitTooHigh)] {
        let outcome = fleet.run(&job).await;
        assert_eq!((outcome.status, outcome.error.unwrap().code), (Status::Rejected, code));
        assert!(fleet.recorded(&job).await.is_some());
    }
    // The second message is older than the record of its job may be. If the job started, nothing would show that it ran
    // before.
    for (job, header, code) in [
        (late, names::H_DEADLINE, ErrorCode::DeadlineExceeded),
        (python("print('again')"), names::H_EXPIRES, ErrorCode::SubmissionExpired),
    ] {
        let mut message = fleet.assign(&fleet.tenant.clone(), &job, None).await;
        message.headers.set_int(header, 1);
        fleet.bus.publish(message).await.unwrap().wait().await.unwrap();
        let outcome = fleet.outcome(&job).await;
        assert_eq!((outcome.stdout.as_str(), outcome.error.unwrap().code), ("", code));
    }
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn output_streams_while_the_code_runs_when_it_was_asked_for() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    let mut job = python("import sys\nprint('é', flush=True)\ninput()\nprint('b', file=sys.stderr)\ndisplay(1)");
    job.stream = vec![Stream::Lifecycle, Stream::Output, Stream::Display];
    job.stdin = Some("go\n".into());
    fleet.submit(&job).await;
    let (mut seen, mut next) = (Vec::new(), 0);
    let outcome = loop {
        match fleet.event_of(&job).await {
            EventBody::Started { worker: at } => {
                assert_eq!(at, worker.id);
                seen.push("started".to_owned());
            }
            EventBody::Stdout { seq, text } => {
                assert_eq!(seq, next);
                next += 1;
                seen.push(format!("out {text}"));
            }
            EventBody::Stderr { seq, text } => {
                assert_eq!(seq, next);
                next += 1;
                seen.push(format!("err {text}"));
            }
            EventBody::Display { .. } => seen.push("display".into()),
            EventBody::Result(outcome) => break outcome,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(seen[0], "started");
    // Each of these comes through its own pipe, so their order is not fixed.
    seen.sort();
    assert_eq!(seen, ["display", "err b\n", "out é\n", "started"]);
    assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str(), outcome.displays.len()), ("é\n", "b\n", 1));
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_job_is_cancelled() {
    let mut fleet = Fleet::new().await;
    let worker = fleet.worker(options()).await;
    let mut job = python("print('on', flush=True)\nwhile True: pass");
    job.stream = vec![Stream::Output];
    fleet.submit(&job).await;
    assert!(matches!(fleet.event_of(&job).await, EventBody::Stdout { .. }));
    fleet.cancel(&worker.id, &job).await;
    let outcome = fleet.outcome(&job).await;
    assert_eq!((outcome.status, outcome.error.unwrap().code), (Status::Cancelled, ErrorCode::Cancelled));
    assert_eq!(outcome.stdout, "on\n", "what it printed before is kept");
    assert_eq!(fleet.run(&python("print(1)")).await.stdout, "1\n", "its container goes on");
    worker.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_is_one_tenants() {
    let mut fleet = Fleet::new().await;
    let mut options = options();
    let pool = options.pools.get_mut(&pool_name()).unwrap();
    (pool.slots, pool.warm) = (Some(1), Some(1));
    let worker = fleet.worker(options).await;
    // There are more tenants than the pool has room for containers. Each displaces the container that was used longest
    // ago.
    for round in 0..2 {
        for tenant in ["acme", "globex", "initech", "umbrella"] {
            let job = python("print('in')");
            fleet.submit_as(&TenantName::new(tenant).unwrap(), &job).await;
            assert_eq!(fleet.outcome(&job).await.stdout, "in\n", "{tenant} in round {round}");
        }
    }
    worker.end().await;
}
