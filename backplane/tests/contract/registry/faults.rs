//! What only a real Redis can do.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use thermae_backplane::record::{Resolve, Start};
use thermae_backplane::registry::{self, Admitted, Error, Notice, RedisOptions, Registry};

use super::{
    admit, attempt, beat, claim, finish, held, in_order, job, redis, resolve, running, session, start, worker,
};
use crate::support::{Proxy, server, soon, until};

/// A Redis of a test's own.
struct Server {
    process: Option<Child>,
    port: u16,
    data: TempDir,
    options: Vec<String>,
}

impl Server {
    async fn run(options: &[&str]) -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let options = options.iter().map(ToString::to_string).collect();
        let mut server = Self { process: None, port, data: TempDir::new().unwrap(), options };
        server.start().await;
        server
    }

    async fn start(&mut self) {
        let process = Command::new("redis-server")
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--appendonly", "no", "--dir"])
            .arg(self.data.path())
            .args(&self.options)
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server: `cargo xtask test` installs it");
        self.process = Some(process);
        until("Redis to listen", || async { tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await.is_ok() })
            .await;
    }

    fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    async fn tell(&self, words: &[&str]) {
        let client = ::redis::Client::open(self.url()).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let mut command = ::redis::cmd(words[0]);
        for word in &words[1..] {
            command.arg(word);
        }
        let _: ::redis::Value = command.query_async(&mut connection).await.unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

const KEEPS: [&str; 2] = ["--maxmemory-policy", "noeviction"];

#[tokio::test]
async fn an_emptied_redis_begins_an_epoch_and_is_whole_after_one_heartbeat() {
    let server = Server::run(&KEEPS).await;
    let registry = redis(&server.url()).await;
    let before = registry.epoch().await.unwrap();
    let mut word = beat("w");
    (word.running, word.sessions) = (vec![running("a", 1, "n")], vec![held("s")]);
    registry.admit(&admit("a")).await.unwrap();
    assert_eq!(registry.start(&start("a", claim(1, "w", "n"), &before)).await.unwrap(), Start::Go);
    registry.heartbeat(&word, super::TTL).await.unwrap();

    let mut news = registry.notices();
    server.tell(&["FLUSHALL"]).await;
    // A copy of the running job comes first: it must not start.
    let mut copy = start("a", claim(1, "v", "o"), &before);
    copy.only_copy = false;
    assert_eq!(registry.start(&copy).await.unwrap(), Start::Resolve);
    assert_eq!(soon("news", in_order(&mut news, Notice::Epoch)).await, Notice::Epoch);
    let after = registry.epoch().await.unwrap();
    assert_ne!(before, after);
    let mut held_back = resolve("a", 1, 1);
    held_back.grace = Duration::from_secs(60);
    assert!(matches!(registry.resolve(&held_back).await.unwrap(), Resolve::Hold(_)));
    // A submit message from before, delivered again, makes a record that knows it may be wrong.
    let mut again = admit("b");
    again.first_submitted = Some(1);
    assert_eq!(attempt(&registry.admit(&again).await.unwrap()), Some(1));
    assert!(registry.lookup(&job("b")).await.unwrap().unwrap().doubtful);

    let answer = registry.heartbeat(&word, super::TTL).await.unwrap();
    assert_eq!((answer.epoch, answer.revoked), (after, vec![]));
    assert_eq!(registry.lookup(&job("a")).await.unwrap().unwrap().owner(), Some(&worker("w")));
    registry.finish(&finish("a", claim(1, "w", "n"), "done")).await.unwrap();
    assert_eq!(registry.resolve(&held_back).await.unwrap(), Resolve::Terminal("done".into()));
}

#[tokio::test]
async fn an_unknown_session_waits_for_its_worker_after_an_epoch_began() {
    let server = Server::run(&KEEPS).await;
    let options = RedisOptions { announce_grace: Duration::from_secs(60), ..RedisOptions::new(server.url()) };
    let registry = registry::Redis::connect(options).await.unwrap();
    let mut word = beat("w");
    registry.heartbeat(&word, super::TTL).await.unwrap();
    let mut request = admit("a");
    let candidate = Some(worker("w"));
    let if_gone = thermae_schemas::IfGone::Fail;
    request.session = Some(registry::SessionAdmit { session: session("s"), if_gone, candidate });
    assert_eq!(registry.admit(&request).await.unwrap(), Admitted::NoSessionWorker);
    word.sessions = vec![held("s")];
    registry.heartbeat(&word, super::TTL).await.unwrap();
    let found = registry.admit(&request).await.unwrap();
    let there = registry::Target::Worker { worker: worker("w"), create: false };
    assert!(matches!(found, Admitted::Assigned { to, .. } if to == there));
}

#[tokio::test]
async fn a_redis_that_restarts_from_an_older_copy_is_another_epoch() {
    let mut server = Server::run(&KEEPS).await;
    let registry = redis(&server.url()).await;
    let before = registry.epoch().await.unwrap();
    registry.admit(&admit("a")).await.unwrap();
    server.tell(&["SAVE"]).await;
    // This is lost with the crash.
    assert_eq!(registry.start(&start("a", claim(1, "w", "n"), &before)).await.unwrap(), Start::Go);
    server.kill();
    assert!(matches!(registry.start(&start("a", claim(1, "v", "o"), &before)).await, Err(Error::Disconnected(_))));
    server.start().await;
    until("the next connection", || async { registry.epoch().await.is_ok() }).await;
    assert_ne!(registry.epoch().await.unwrap(), before);
    let mut copy = start("a", claim(1, "v", "o"), &before);
    copy.only_copy = false;
    assert_eq!(registry.start(&copy).await.unwrap(), Start::Resolve);
    assert_eq!(registry.resolve(&resolve("a", 1, 1)).await.unwrap(), Resolve::Lost);
}

#[tokio::test]
async fn a_redis_that_forgot_the_scripts_is_told_them_again() {
    let server = Server::run(&KEEPS).await;
    let registry = redis(&server.url()).await;
    registry.admit(&admit("a")).await.unwrap();
    server.tell(&["SCRIPT", "FLUSH"]).await;
    assert!(matches!(registry.admit(&admit("a")).await.unwrap(), Admitted::Assigned { repeat: true, .. }));
}

#[tokio::test]
async fn a_redis_that_would_lose_records_is_unfit() {
    let server = Server::run(&["--maxmemory-policy", "allkeys-lru"]).await;
    let registry = redis(&server.url()).await;
    let error = registry.check().await.unwrap_err();
    assert!(matches!(&error, Error::Unfit(text) if text.contains("noeviction")), "{error}");
    server.tell(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]).await;
    registry.check().await.unwrap();
    server.tell(&["REPLICAOF", "127.0.0.1", "1"]).await;
    assert!(matches!(registry.check().await, Err(Error::Unfit(_))));
    assert!(matches!(registry.admit(&admit("a")).await, Err(Error::Unfit(_))));
}

#[tokio::test]
async fn wrong_credentials_are_refused_at_once_and_not_repeated() {
    let server = Server::run(&["--requirepass", "right"]).await;
    let wrong = server.url().replace("redis://", "redis://:not-the-password@");
    let begun = Instant::now();
    for url in [wrong.as_str(), "not a url", &server.url()] {
        let error = registry::Redis::connect(RedisOptions::new(url)).await.err().unwrap();
        assert!(matches!(error, Error::Unfit(_)), "{error:?}");
        assert!(!error.to_string().contains("not-the-password"));
    }
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert!(!format!("{:?}", RedisOptions::new(wrong)).contains("not-the-password"));
    redis(&server.url().replace("redis://", "redis://:right@")).await.check().await.unwrap();
}

#[tokio::test]
async fn a_redis_that_is_absent_is_waited_for() {
    let url = server("THERMAE_TEST_REDIS");
    let proxy = Proxy::to(&url).await;
    proxy.set_open(false);
    let through = proxy.through(&url);
    let options = RedisOptions { deadline: Some(Duration::from_millis(500)), ..RedisOptions::new(&through) };
    assert!(matches!(registry::Redis::connect(options).await.err(), Some(Error::Disconnected(_))));
    let waiting = tokio::spawn(async move { redis(&through).await });
    tokio::task::yield_now().await;
    proxy.set_open(true);
    soon("the connection", waiting).await.unwrap().check().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_cut_in_the_middle_of_commands_heals_and_every_command_may_be_repeated() {
    let url = server("THERMAE_TEST_REDIS");
    let proxy = Proxy::to(&url).await;
    let registry = Arc::new(redis(&proxy.through(&url)).await);
    let epoch = registry.epoch().await.unwrap();
    let mut lost = 0;
    for round in 0..15 {
        let calls: Vec<_> = (0..20)
            .map(|n| {
                let registry = registry.clone();
                tokio::spawn(async move { registry.admit(&admit(&format!("{round}/{n}"))).await })
            })
            .collect();
        proxy.cut();
        for (n, call) in calls.into_iter().enumerate() {
            match soon("an answer", call).await.unwrap() {
                Ok(answer) => assert!(matches!(answer, Admitted::Assigned { .. } | Admitted::NoCredit)),
                Err(Error::Disconnected(_)) => {
                    lost += 1;
                    let mut request = admit(&format!("{round}/{n}"));
                    request.credit = 1000;
                    until("the same call again", || async {
                        matches!(registry.admit(&request).await, Ok(Admitted::Assigned { attempt: 1, .. }))
                    })
                    .await;
                }
                Err(other) => panic!("{other:?}"),
            }
        }
    }
    assert!(lost > 0, "no reply was ever lost: the test proves nothing");
    assert_eq!(registry.epoch().await.unwrap(), epoch, "the same Redis, the same epoch");
    // Notices come through the new connection, too.
    let mut news = registry.notices();
    registry.heartbeat(&beat("w"), super::TTL).await.unwrap();
    soon("news", in_order(&mut news, Notice::Workers)).await;
}
