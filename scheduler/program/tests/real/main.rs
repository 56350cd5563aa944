//! Jobs from the client to their end, through a RabbitMQ and a Redis of the test's own, which are killed under load.
//!
//! The test needs what `cargo xtask test` sets up. Without that, it fails and says so.

#[path = "../../../tests/flow/fleet.rs"]
#[allow(dead_code, reason = "the other suite uses more of it")]
mod fleet;
mod identity;
mod lanes;
mod reigns;

use std::collections::{HashMap, HashSet};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use fleet::{Connect, Servers, job, options, soon, tenant};
use thermae_backplane::bus::{Rabbit, RabbitOptions, SharedBus};
use thermae_backplane::registry::JobKey;
use thermae_redis::{Redis, RedisOptions};
use thermae_schemas::{Status, WorkerState};

/// Number of sets that this process has started, which makes their names unique.
static SETS: AtomicU32 = AtomicU32::new(0);

/// Servers for one test. They are stopped when the test ends, even if it fails.
struct Set {
    xtask: String,
    name: String,
}

impl Set {
    fn up() -> (Self, HashMap<String, String>) {
        Self::named("scheduler")
    }

    fn named(name: &str) -> (Self, HashMap<String, String>) {
        let xtask = std::env::var("THERMAE_TEST_XTASK")
            .expect("THERMAE_TEST_XTASK is not set: this test needs servers of its own; run it by `cargo xtask test`");
        let name = format!("{name}-{}-{}", std::process::id(), SETS.fetch_add(1, Ordering::Relaxed));
        let set = Self { xtask, name };
        let printed = set.run(&["test-up", "--only", "rabbitmq,redis", "--print-env"]);
        let lines = printed.lines().filter_map(|line| line.strip_prefix("export ")?.split_once('='));
        let facts = lines.map(|(name, value)| (name.to_owned(), value.trim_matches('\'').to_owned())).collect();
        (set, facts)
    }

    fn run(&self, args: &[&str]) -> String {
        let mut command = Command::new(&self.xtask);
        command.args(["services", args[0], "--set", &self.name]).args(&args[1..]).stderr(Stdio::inherit());
        let output = command.output().expect("xtask can be started");
        assert!(output.status.success(), "xtask {args:?}: {}", output.status);
        String::from_utf8(output.stdout).unwrap()
    }

    async fn control(self: &Arc<Self>, server: &'static str, verb: &'static str) {
        let set = self.clone();
        tokio::task::spawn_blocking(move || set.run(&["test-ctl", server, verb])).await.unwrap();
    }
}

impl Drop for Set {
    fn drop(&mut self) {
        let mut command = Command::new(&self.xtask);
        let _ = command.args(["services", "test-down", "--set", &self.name]).stdout(Stdio::null()).status();
    }
}

async fn servers(facts: &HashMap<String, String>) -> Servers {
    let (amqp, redis) = (facts["THERMAE_TEST_AMQP"].clone(), facts["THERMAE_TEST_REDIS"].clone());
    let connect: Connect = Arc::new(move || {
        let amqp = amqp.clone();
        Box::pin(async move {
            let bus: SharedBus = Arc::new(Rabbit::connect(RabbitOptions::new(amqp, "test")).await.unwrap());
            bus
        })
    });
    let registry = Redis::connect(RedisOptions::new(redis)).await.unwrap();
    Servers { bus: connect().await, registry: Arc::new(registry), connect }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_survive_the_servers_end() {
    let (set, facts) = tokio::task::spawn_blocking(Set::up).await.unwrap();
    let (set, servers) = (Arc::new(set), servers(&facts).await);
    let scheduler = servers.scheduler(options()).await;
    soon(scheduler.health.wait_ready()).await;
    let client = servers.client("acme").await;
    let worker = servers.worker("w1", 8).await;
    let mut order = worker.work("real\n").await;
    // The worker's heartbeats, so that a registry that lost its data learns of the worker again.
    let announced = servers.worker("w1", 8).await;
    let beats = tokio::spawn(async move {
        loop {
            announced.beat(WorkerState::Ready, Duration::from_secs(30)).await;
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    });

    let first = client.submit(job("first"), None).await.unwrap();
    assert_eq!(soon(first.result()).await.unwrap().stdout, "real\n");
    let again = client.submit(job("first"), None).await.unwrap();
    assert_eq!(soon(again.result()).await.unwrap().stdout, "real\n");
    let mut bad = job("bad");
    bad.pool = thermae_schemas::PoolName::new("nowhere").unwrap();
    let bad = client.submit(bad, None).await.unwrap();
    assert_eq!(soon(bad.result()).await.unwrap().status, Status::Rejected);

    // Another scheduler finds the queues that this one made.
    scheduler.stop().await;
    let scheduler = servers.scheduler(options()).await;
    let mut handles = Vec::new();
    for n in 0..100 {
        handles.push(client.submit(job(&n.to_string()), None).await.unwrap());
    }
    // Every half second, RabbitMQ writes down where the logs of new quorum queues are (Ra's directory, `auto_save`).
    // After a SIGKILL, a queue younger than that never has a leader again. The bus prevents this when it makes a queue
    // (`write_names` in `backplane/src/bus/rabbit/declare.rs`). The pause makes sure that no queue here is that young.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let restarted = tokio::spawn({
        let set = set.clone();
        async move {
            set.control("rabbitmq", "kill").await;
            set.control("rabbitmq", "start").await;
        }
    });
    // Jobs are on their way when RabbitMQ is killed.
    let mut n = 100;
    while !restarted.is_finished() {
        handles.push(client.submit(job(&n.to_string()), None).await.unwrap());
        n += 1;
    }
    restarted.await.unwrap();
    let last = n + 300;
    for n in n..last {
        handles.push(client.submit(job(&n.to_string()), None).await.unwrap());
        if n == last - 150 {
            set.control("redis", "stop").await;
            set.control("redis", "start").await;
        }
    }
    let mut statuses: HashMap<&str, u32> = HashMap::new();
    for handle in &handles {
        let Ok(outcome) = tokio::time::timeout(Duration::from_secs(120), handle.result()).await else {
            let record = servers.registry.lookup(&JobKey::new(tenant("acme"), handle.id().clone())).await;
            panic!("the job {} has no outcome; its record: {record:?}", handle.id());
        };
        let outcome = outcome.unwrap();
        *statuses.entry(outcome.status.as_str()).or_default() += 1;
    }
    let mut ran = HashSet::new();
    while let Ok((_, id)) = order.try_recv() {
        assert!(ran.insert(id.clone()), "{id} was started twice");
    }
    println!("{statuses:?}");
    assert_eq!(statuses.values().sum::<u32>(), handles.len() as u32);
    beats.abort();
    scheduler.stop().await;
}
