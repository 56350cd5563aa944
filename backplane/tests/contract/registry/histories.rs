//! Random histories through both twins: the answers must be the same.
//!
//! Time is left out: leases are either far in the future, or have passed at once.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use thermae_backplane::record::{Record, Resolve, State};
use thermae_backplane::registry::{self, Admitted, Gone, Registry, SessionAdmit};
use thermae_schemas::IfGone;

use super::{
    admit, beat, claim, finish, held, job, pool, real, resolve, running, session, settle, start, tenant, worker,
};

const JOBS: [&str; 3] = ["a", "b", "c"];
const WORKERS: [&str; 2] = ["w", "v"];
const FAR: Duration = Duration::from_secs(3600);

#[derive(Debug, Clone)]
enum Call {
    Admit {
        job: usize,
        credit: u32,
        limit: Option<u32>,
        key: bool,
        digest: bool,
        session: Option<(usize, bool)>,
        max: u32,
    },
    Start {
        job: usize,
        worker: usize,
        attempt: u32,
        nonce: u8,
        only_copy: bool,
        this_epoch: bool,
        lease: bool,
    },
    Finish {
        job: usize,
        worker: usize,
        attempt: u32,
        nonce: u8,
        outcome: u8,
    },
    Resolve {
        job: usize,
        attempt: u32,
        max: u32,
    },
    Settle {
        job: usize,
        outcome: u8,
        pool: bool,
    },
    Abandon {
        job: usize,
        worker: usize,
        attempt: u32,
        nonce: u8,
    },
    Heartbeat {
        worker: usize,
        running: Vec<(usize, u32, u8)>,
        sessions: bool,
    },
    Leave {
        worker: usize,
    },
    Bury {
        worker: usize,
    },
    EndSession {
        worker: usize,
        gone: u8,
    },
    Lead {
        who: u8,
    },
}

fn call() -> impl Strategy<Value = Call> {
    let (job, who) = (|| 0..JOBS.len(), || 0..WORKERS.len());
    let (attempt, nonce) = (|| 1u32..4, || 0u8..2);
    let session = || prop::option::weighted(0.4, (0..WORKERS.len(), any::<bool>()));
    prop_oneof![
        4 => (job(), 1u32..4, prop::option::of(1u32..3), any::<bool>(), any::<bool>(), session(), 1u32..4).prop_map(
            |(job, credit, limit, key, digest, session, max)| Call::Admit { job, credit, limit, key, digest, session, max }
        ),
        4 => (job(), who(), attempt(), nonce(), any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
            |(job, worker, attempt, nonce, only_copy, this_epoch, lease)| Call::Start {
                job, worker, attempt, nonce, only_copy, this_epoch, lease
            }
        ),
        2 => (job(), who(), attempt(), nonce(), 0u8..2)
            .prop_map(|(job, worker, attempt, nonce, outcome)| Call::Finish { job, worker, attempt, nonce, outcome }),
        4 => (job(), attempt(), 1u32..4).prop_map(|(job, attempt, max)| Call::Resolve { job, attempt, max }),
        1 => (job(), 0u8..2, any::<bool>()).prop_map(|(job, outcome, pool)| Call::Settle { job, outcome, pool }),
        2 => (job(), who(), attempt(), nonce())
            .prop_map(|(job, worker, attempt, nonce)| Call::Abandon { job, worker, attempt, nonce }),
        3 => (who(), prop::collection::vec((job(), attempt(), nonce()), 0..3), any::<bool>())
            .prop_map(|(worker, running, sessions)| Call::Heartbeat { worker, running, sessions }),
        1 => who().prop_map(|worker| Call::Leave { worker }),
        1 => who().prop_map(|worker| Call::Bury { worker }),
        1 => (who(), 0u8..3).prop_map(|(worker, gone)| Call::EndSession { worker, gone }),
        1 => (0u8..2).prop_map(|who| Call::Lead { who }),
    ]
}

fn nonce(n: u8) -> String {
    format!("n{n}")
}

fn shown(answer: impl std::fmt::Debug) -> String {
    format!("{answer:?}")
}

/// A record without what differs by nature: the moment its lease passes.
fn timeless(record: Option<Record>) -> Option<Record> {
    record.map(|mut record| {
        if let State::Started { lease_until, .. } = &mut record.state {
            *lease_until = 0;
        }
        record
    })
}

/// Makes a call and shows the answer, without what differs by nature.
async fn ask(registry: &dyn Registry, call: &Call) -> String {
    let epoch = registry.epoch().await.unwrap();
    match call.clone() {
        Call::Admit { job: name, credit, limit, key, digest, session: place, max } => {
            let mut request = admit(JOBS[name]);
            (request.credit, request.tenant_limit, request.max_attempts) = (credit, limit, max);
            request.idempotency_key = key.then(|| "key".to_owned());
            request.digest = digest.to_string();
            request.session = place.map(|(at, anew)| SessionAdmit {
                session: session("s"),
                if_gone: if anew { IfGone::New } else { IfGone::Fail },
                candidate: Some(worker(WORKERS[at])),
            });
            match registry.admit(&request).await.unwrap() {
                Admitted::Assigned { attempt, epoch: in_epoch, to, repeat } => {
                    assert_eq!(in_epoch, epoch);
                    shown((attempt, to, repeat))
                }
                other => shown(other),
            }
        }
        Call::Start { job: name, worker, attempt, nonce: n, only_copy, this_epoch, lease } => {
            let other = registry::Epoch("another".to_owned());
            let claim = claim(attempt, WORKERS[worker], &nonce(n));
            let mut request = start(JOBS[name], claim, if this_epoch { &epoch } else { &other });
            request.only_copy = only_copy;
            request.lease = if lease { FAR } else { Duration::ZERO };
            shown(registry.start(&request).await.unwrap())
        }
        Call::Finish { job: name, worker, attempt, nonce: n, outcome } => {
            let claim = claim(attempt, WORKERS[worker], &nonce(n));
            shown(registry.finish(&finish(JOBS[name], claim, &format!("outcome {outcome}"))).await.unwrap())
        }
        Call::Resolve { job: name, attempt, max } => {
            match registry.resolve(&resolve(JOBS[name], attempt, max)).await.unwrap() {
                Resolve::Hold(_) => "hold".to_owned(),
                other => shown(other),
            }
        }
        Call::Settle { job: name, outcome, pool: with_pool } => {
            let mut request = settle(JOBS[name], &format!("settled {outcome}"));
            request.pool = with_pool.then(pool);
            shown(registry.settle(&request).await.unwrap())
        }
        Call::Abandon { job: name, worker, attempt, nonce: n } => {
            let claim = claim(attempt, WORKERS[worker], &nonce(n));
            shown(registry.abandon(&job(JOBS[name]), &claim).await.unwrap())
        }
        Call::Heartbeat { worker, running: jobs, sessions } => {
            let mut word = beat(WORKERS[worker]);
            word.running = jobs.iter().map(|(name, attempt, n)| running(JOBS[*name], *attempt, &nonce(*n))).collect();
            word.sessions = if sessions { vec![held("s")] } else { Vec::new() };
            shown(registry.heartbeat(&word, FAR).await.unwrap().revoked)
        }
        Call::Leave { worker: at } => {
            registry.leave(&worker(WORKERS[at])).await.unwrap();
            String::new()
        }
        Call::Bury { worker: at } => {
            registry.bury(&worker(WORKERS[at])).await.unwrap();
            String::new()
        }
        Call::EndSession { worker: at, gone } => {
            let gone = [Gone::Expired, Gone::Lost, Gone::Closed][usize::from(gone)];
            let (tenant, session) = (tenant("acme"), session("s"));
            registry.end_session(&tenant, &session, &worker(WORKERS[at]), gone).await.unwrap();
            String::new()
        }
        Call::Lead { who } => shown(registry.lead("0", &who.to_string(), FAR).await.unwrap()),
    }
}

/// Everything that can be looked at.
async fn look(registry: &dyn Registry) -> String {
    let mut seen = shown(registry.credit_used(&pool()).await.unwrap());
    for name in JOBS {
        seen += &shown(timeless(registry.lookup(&job(name)).await.unwrap()));
    }
    seen += &shown(registry.workers().await.unwrap());
    seen + &shown(registry.dead_workers().await.unwrap())
}

async fn compare(calls: Vec<Call>) {
    let local: Arc<dyn Registry> = Arc::new(registry::Local::new());
    let redis = real().await;
    for (n, call) in calls.iter().enumerate() {
        let (here, there) = (ask(&*local, call).await, ask(&*redis, call).await);
        assert_eq!(here, there, "call {n} of {calls:#?}");
        let (here, there) = (look(&*local).await, look(&*redis).await);
        assert_eq!(here, there, "after call {n} of {calls:#?}");
    }
}

#[test]
fn both_answer_the_same() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let config = ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    runner
        .run(&prop::collection::vec(call(), 1..40), |calls| {
            runtime.block_on(compare(calls));
            Ok(())
        })
        .unwrap();
}
