//! Random histories through both implementations: the answers must be the same.
//!
//! Time plays no part: leases, credit, outcomes and records last long, or end at once.

mod calls;

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use thermae_backplane::record::{Address, Record, Resolve, State};
use thermae_backplane::registry::{self, Admitted, Gone, Registry, Repeat, SessionAdmit};
use thermae_redis::{Redis, RedisOptions};
use thermae_schemas::{IfGone, RunningJob};

use super::{
    admit, beat, claim, end_unstarted, finish, held, job, pool, resolve, running, session, shelve, start, tenant,
    worker,
};
use crate::support::{server, unique};

use calls::{Call, FAR, JOBS, Submitted, WORKERS, call};

fn nonce(n: u8) -> String {
    format!("n{n}")
}

fn shown(answer: impl std::fmt::Debug) -> String {
    format!("{answer:?}")
}

/// A record without the moments when its lease passes and when it ended, which differ by nature.
fn timeless(record: Option<Record>) -> Option<Record> {
    record.map(|mut record| {
        match &mut record.state {
            State::Started { lease_until: moment, .. } | State::Terminal { at: moment, .. } => *moment = 0,
            State::Assigned => {}
        }
        record.taken = record.taken.map(|_| 0);
        record
    })
}

/// An answer without its times: when a job ended, and when its run was taken over.
fn undated(answer: &str) -> String {
    let mut parts = answer.split(", at: ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |before, after| {
        before + ", at " + after.trim_start_matches("Some(").trim_start_matches(|c: char| c.is_ascii_digit())
    })
}

/// Both implementations, emptied a moment ago.
struct Twins {
    local: Arc<registry::Local>,
    redis: Redis,
    prefix: String,
    connection: ::redis::aio::MultiplexedConnection,
}

impl Twins {
    async fn new() -> Self {
        let url = server("THERMAE_TEST_REDIS");
        let prefix = unique("test:") + ":";
        let options =
            RedisOptions { prefix: prefix.clone(), announce_grace: Duration::ZERO, ..RedisOptions::new(url.clone()) };
        let client = ::redis::Client::open(url).unwrap();
        let twins = Self {
            local: Arc::new(registry::Local::new()),
            redis: Redis::connect(options).await.unwrap(),
            prefix,
            connection: client.get_multiplexed_async_connection().await.unwrap(),
        };
        twins.local.empty();
        twins
    }

    async fn empty(&mut self) {
        self.local.empty();
        let mut keys = ::redis::cmd("KEYS");
        let keys: Vec<String> = keys.arg(format!("{}*", self.prefix)).query_async(&mut self.connection).await.unwrap();
        let _: () = ::redis::cmd("DEL").arg(keys).query_async(&mut self.connection).await.unwrap();
        self.redis.epoch().await.unwrap();
    }
}

/// Makes a call and prints the answer, without what differs by nature.
async fn ask(registry: &dyn Registry, call: &Call) -> String {
    let epoch = registry.epoch().await.unwrap();
    match call.clone() {
        Call::Admit {
            job: name,
            credit,
            limit,
            share,
            key,
            digest,
            session: place,
            max,
            submitted,
            first_epoch,
            brief,
        } => {
            let mut request = admit(JOBS[name]);
            (request.credit, request.tenant_limit, request.max_attempts) = (credit, limit, max);
            request.tenant_share = share;
            request.idempotency_key = key.then(|| "key".to_owned());
            request.digest = digest.to_string();
            let first_epoch = first_epoch.then(|| epoch.clone());
            request.repeat = match submitted {
                Submitted::Once => None,
                Submitted::Undated => Some(Repeat { earliest: 1, said: None, first_epoch }),
                Submitted::Before => Some(Repeat { earliest: 1, said: Some(2), first_epoch }),
                Submitted::Within => Some(Repeat { earliest: 1, said: Some(1 << 50), first_epoch }),
                Submitted::After => Some(Repeat { earliest: 1 << 50, said: Some(1 << 50), first_epoch }),
            };
            if brief {
                request.credit_ttl = Duration::ZERO;
            }
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
        Call::Finish { job: name, worker, attempt, nonce: n, outcome, kept } => {
            let claim = claim(attempt, WORKERS[worker], &nonce(n));
            let mut request = finish(JOBS[name], claim, &format!("outcome {outcome}"));
            request.keep = kept.keep();
            shown(registry.finish(&request).await.unwrap())
        }
        Call::Resolve { job: name, attempt, max, grace, kept } => {
            let mut request = resolve(JOBS[name], attempt, max);
            request.grace = if grace { FAR } else { Duration::ZERO };
            request.keep = kept.keep();
            let mut answer = registry.resolve(&request).await.unwrap();
            if let Resolve::Hold(time) = &mut answer.what {
                *time = Duration::ZERO;
            }
            shown(answer)
        }
        Call::EndUnstarted { job: name, outcome, pool: with_pool, digest, cancel, kept } => {
            let mut request = end_unstarted(JOBS[name], &format!("unstarted {outcome}"));
            request.pool = with_pool.then(pool);
            request.digest = digest.map(|digest| digest.to_string());
            (request.cancel, request.keep) = (cancel, kept.keep());
            shown(registry.end_unstarted(&request).await.unwrap())
        }
        Call::Shelve { job: name, outcome } => {
            shown(registry.shelve(&shelve(JOBS[name], &format!("outcome {outcome}"))).await.unwrap())
        }
        Call::Abandon { job: name, worker, attempt, nonce: n } => {
            let claim = claim(attempt, WORKERS[worker], &nonce(n));
            shown(registry.abandon(&job(JOBS[name]), &claim).await.unwrap())
        }
        Call::TakeOver { job: name, client, mark } => {
            let to = Address {
                // The first is the client that submits the jobs.
                reply_key: ["acme.c", "acme.d", "acme.e"][usize::from(client)].to_owned(),
                correlation_id: mark.map(|mark| ["mark", "other"][usize::from(mark)].to_owned()),
            };
            shown(registry.take_over(&job(JOBS[name]), &to).await.unwrap())
        }
        Call::Heartbeat { worker, running: jobs, sessions } => {
            let mut word = beat(WORKERS[worker]);
            let one = |job: &calls::Running| RunningJob {
                paused: job.paused,
                ..running(JOBS[job.job], job.attempt, &nonce(job.nonce))
            };
            word.running = jobs.iter().map(one).collect();
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
            let gone = [Gone::Expired, Gone::Lost, Gone::Closed, Gone::Evicted][usize::from(gone)];
            let (tenant, session) = (tenant("acme"), session("s"));
            registry.end_session(&tenant, &session, &worker(WORKERS[at]), None, gone).await.unwrap();
            String::new()
        }
        // The caller does this.
        Call::Empty => String::new(),
        Call::Lead { who } => shown(registry.lead("0", &who.to_string(), FAR).await.unwrap()),
    }
}

/// Everything that the registry can be asked, printed.
async fn look(registry: &dyn Registry) -> String {
    let mut seen = shown(registry.credit_used(&pool()).await.unwrap());
    for name in JOBS {
        seen += &shown(timeless(registry.lookup(&job(name)).await.unwrap()));
    }
    seen += &shown(registry.session_holder(&tenant("acme"), &session("s")).await.unwrap());
    seen += &shown(registry.workers().await.unwrap());
    seen + &shown(registry.dead_workers().await.unwrap())
}

async fn compare(calls: Vec<Call>) {
    let mut twins = Twins::new().await;
    for (n, call) in calls.iter().enumerate() {
        if matches!(call, Call::Empty) {
            twins.empty().await;
        }
        let (here, there) = (ask(&*twins.local, call).await, ask(&twins.redis, call).await);
        assert_eq!(undated(&here), undated(&there), "call {n} of {calls:#?}");
        let (here, there) = (look(&*twins.local).await, look(&twins.redis).await);
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
