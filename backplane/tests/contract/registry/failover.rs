//! The primary changes: by Sentinel under load, and by an address that leads to another server.

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tempfile::TempDir;
use thermae_backplane::record::Start;
use thermae_backplane::registry::{Admitted, Error, Registry};
use thermae_redis::{Redis, RedisOptions};
use thermae_testkit::address;

use super::faults::{KEEPS, Server};
use super::{admit, claim, finish, start};
use crate::support::{Proxy, unique, until};

/// A sentinel for one test, which watches one primary.
struct Sentinel {
    process: Child,
    port: u16,
    _dir: TempDir,
}

impl Sentinel {
    async fn of(primary: u16) -> Self {
        let port = address::free().unwrap().port();
        let dir = TempDir::new().unwrap();
        let file = dir.path().join("sentinel.conf");
        let config = format!(
            "port {port}\nbind 127.0.0.1\ndir {}\nsentinel monitor main 127.0.0.1 {primary} 1\n\
             sentinel down-after-milliseconds main 500\nsentinel failover-timeout main 3000\n",
            dir.path().display()
        );
        std::fs::write(&file, config).unwrap();
        let process = Command::new("redis-server").arg(&file).arg("--sentinel").stdout(Stdio::null()).spawn().unwrap();
        until("the sentinel to listen", || async { tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok() })
            .await;
        Self { process, port, _dir: dir }
    }

    async fn knows_a_replica(&self) -> bool {
        let client = ::redis::Client::open(format!("redis://127.0.0.1:{}/", self.port)).unwrap();
        let Ok(mut connection) = client.get_multiplexed_async_connection().await else { return false };
        let answer = ::redis::cmd("SENTINEL").arg("MASTER").arg("main").query_async(&mut connection).await;
        answer.is_ok_and(|facts: BTreeMap<String, String>| facts.get("num-slaves").is_some_and(|n| n == "1"))
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A replica that has caught up with its primary.
async fn replica_of(primary: &Server) -> Server {
    let replica = Server::run(&KEEPS).await;
    replica.tell(&["REPLICAOF", "127.0.0.1", &primary.port.to_string()]).await;
    until("the replica to catch up", || async {
        format!("{:?}", replica.tell(&["INFO", "replication"]).await).contains("master_link_status:up")
    })
    .await;
    replica
}

fn options(url: String) -> RedisOptions {
    let deadline = Some(Duration::from_secs(15));
    RedisOptions { prefix: unique("test:") + ":", deadline, ..RedisOptions::new(url) }
}

/// How often the registry let each job start.
#[derive(Default)]
struct Starts(Mutex<BTreeMap<String, u32>>);

impl Starts {
    fn note(&self, job: &str, start: &Start) {
        if *start == Start::Go {
            *self.0.lock().unwrap().entry(job.to_owned()).or_default() += 1;
        }
    }
}

/// Repeats a call until it is answered. Every call may be repeated, whatever happened to the last one.
async fn answered<T, F: Future<Output = Result<T, Error>>>(mut call: impl FnMut() -> F) -> T {
    loop {
        match call().await {
            Ok(answer) => return answer,
            Err(Error::Corrupt(why)) => panic!("{why}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

/// One job: it is admitted, and two workers that both have a copy of it try to start it.
async fn one_job(registry: &Redis, name: &str, starts: &Starts) {
    let mut request = admit(name);
    request.credit = 100_000;
    let Admitted::Assigned { attempt, epoch, .. } = answered(|| registry.admit(&request)).await else { return };
    for (owner, nonce) in [("v", "n"), ("w", "o")] {
        let claim = claim(attempt, owner, nonce);
        let mut request = start(name, claim.clone(), &epoch);
        request.only_copy = false;
        let started = answered(|| registry.start(&request)).await;
        starts.note(name, &started.what);
        if started == Start::Go {
            let request = finish(name, claim, "done");
            answered(|| registry.finish(&request)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinel_moves_the_primary_under_load_and_nothing_starts_twice() {
    let mut first = Server::run(&KEEPS).await;
    let second = replica_of(&first).await;
    let sentinel = Sentinel::of(first.port).await;
    until("the sentinel to know the replica", || sentinel.knows_a_replica()).await;
    let url = format!("redis+sentinel://127.0.0.1:1,127.0.0.1:{}/main", sentinel.port);
    let registry = Arc::new(Redis::connect(options(url)).await.unwrap());
    let before = registry.epoch().await.unwrap();

    let starts = Arc::new(Starts::default());
    let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let load: Vec<_> = (0..8)
        .map(|task| {
            let (registry, starts, stop, count) = (registry.clone(), starts.clone(), stop.clone(), count.clone());
            tokio::spawn(async move {
                let mut n = 0;
                while !stop.load(Ordering::Relaxed) {
                    one_job(&registry, &format!("{task}-{n}"), &starts).await;
                    count.fetch_add(1, Ordering::Relaxed);
                    n += 1;
                }
            })
        })
        .collect();
    until("some jobs", || async { count.load(Ordering::Relaxed) > 100 }).await;
    first.kill();
    until("the next primary", || async { registry.epoch().await.is_ok_and(|epoch| epoch != before) }).await;
    let then = count.load(Ordering::Relaxed);
    until("jobs on the next primary", || async { count.load(Ordering::Relaxed) > then + 100 }).await;

    // The old primary returns, empty, and believes that it is the primary until the sentinel tells it otherwise.
    let after = registry.epoch().await.unwrap();
    first.start().await;
    let then = count.load(Ordering::Relaxed);
    until("jobs after its return", || async { count.load(Ordering::Relaxed) > then + 300 }).await;
    stop.store(true, Ordering::Relaxed);
    for task in load {
        task.await.unwrap();
    }
    assert_eq!(registry.epoch().await.unwrap(), after, "a returning primary is nobody's primary");
    let starts = starts.0.lock().unwrap();
    let twice: Vec<_> = starts.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "started twice: {twice:?}");
    assert!(starts.len() > 200, "{} started", starts.len());
    drop(second);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_became_a_replica_is_left_for_the_next() {
    let first = Server::run(&KEEPS).await;
    let second = replica_of(&first).await;
    let proxy = Proxy::to(&first.url()).await;
    let registry = Redis::connect(options(proxy.through(&first.url()))).await.unwrap();
    let before = registry.epoch().await.unwrap();
    registry.admit(&admit("a")).await.unwrap();
    // From now on, the address leads to the next primary. The connection to the old one stays open.
    second.tell(&["REPLICAOF", "NO", "ONE"]).await;
    first.tell(&["REPLICAOF", "127.0.0.1", &second.port.to_string()]).await;
    proxy.lead_to(&second.url());
    assert!(matches!(registry.admit(&admit("b")).await, Err(Error::Unfit(_))));
    until("the next primary", || async { registry.admit(&admit("b")).await.is_ok() }).await;
    assert_ne!(registry.epoch().await.unwrap(), before);
}
