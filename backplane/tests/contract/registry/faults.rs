//! What only a real Redis can do: restarts, cut connections, full memory.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tempfile::TempDir;
use thermae_backplane::record::{EndUnstarted, Ended, Finish, Resolve, Start};
use thermae_backplane::registry::{self, Admitted, Error, Notice, Registry, Repeat};
use thermae_redis::{Redis, RedisOptions};
use thermae_testkit::address;

use super::{
    admit, attempt, beat, claim, end_unstarted, finish, held, in_order, job, redis, resolve, running, session, start,
    worker,
};
use crate::support::{Proxy, server, soon, until};

/// A Redis server for one test.
pub struct Server {
    process: Option<Child>,
    pub port: u16,
    data: TempDir,
    options: Vec<String>,
}

impl Server {
    pub async fn run(options: &[&str]) -> Self {
        let port = address::free().unwrap().port();
        let options = options.iter().map(ToString::to_string).collect();
        let mut server = Self { process: None, port, data: TempDir::new().unwrap(), options };
        server.start().await;
        server
    }

    pub async fn start(&mut self) {
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

    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    async fn info(&self) -> String {
        let client = ::redis::Client::open(self.url()).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        ::redis::cmd("INFO").arg("stats").query_async(&mut connection).await.unwrap()
    }

    /// How many connections have subscribed to a channel.
    async fn subscribers(&self, channel: &str) -> u64 {
        let client = ::redis::Client::open(self.url()).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let (_, count): (String, u64) =
            ::redis::cmd("PUBSUB").arg("NUMSUB").arg(channel).query_async(&mut connection).await.unwrap();
        count
    }

    pub async fn tell(&self, words: &[&str]) -> ::redis::Value {
        let client = ::redis::Client::open(self.url()).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let mut command = ::redis::cmd(words[0]);
        for word in &words[1..] {
            command.arg(word);
        }
        command.query_async(&mut connection).await.unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

pub const KEEPS: [&str; 2] = ["--maxmemory-policy", "noeviction"];

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
    // First a copy of the running job is delivered. It must not start.
    let mut copy = start("a", claim(1, "v", "o"), &before);
    copy.only_copy = false;
    assert_eq!(registry.start(&copy).await.unwrap(), Start::Resolve);
    assert_eq!(soon("news", in_order(&mut news, Notice::Epoch)).await, Notice::Epoch);
    let after = registry.epoch().await.unwrap();
    assert_ne!(before, after);
    let mut held_back = resolve("a", 1, 1);
    held_back.grace = Duration::from_secs(60);
    assert!(matches!(registry.resolve(&held_back).await.unwrap().what, Resolve::Hold(_)));
    // A submit message from before, delivered again, makes a doubtful record.
    let mut again = admit("b");
    again.repeat = Some(Repeat { earliest: 1, said: None, first_epoch: None });
    assert_eq!(attempt(&registry.admit(&again).await.unwrap()), Some(1));
    assert!(registry.lookup(&job("b")).await.unwrap().unwrap().doubtful);
    // During the first epoch, only a message that says itself that it is older makes one.
    for (name, first, said, doubtful) in [
        ("c", &before, None, true),
        ("d", &after, None, false),
        ("e", &after, Some(1), true),
        ("f", &after, Some(1 << 50), false),
    ] {
        let mut again = admit(name);
        again.repeat = Some(Repeat { earliest: 1, said, first_epoch: Some(first.clone()) });
        registry.admit(&again).await.unwrap();
        assert_eq!(registry.lookup(&job(name)).await.unwrap().unwrap().doubtful, doubtful, "{name}");
    }

    let answer = registry.heartbeat(&word, super::TTL).await.unwrap();
    assert_eq!((answer.epoch, answer.revoked), (after, vec![]));
    assert_eq!(registry.lookup(&job("a")).await.unwrap().unwrap().owner(), Some(&worker("w")));
    registry.finish(&finish("a", claim(1, "w", "n"), "done")).await.unwrap();
    assert_eq!(registry.resolve(&held_back).await.unwrap(), Resolve::Terminal(Bytes::from("done").into()));
}

#[tokio::test]
async fn a_full_redis_takes_no_new_jobs_and_lets_those_under_way_end() {
    let server = Server::run(&KEEPS).await;
    let registry = redis(&server.url()).await;
    let epoch = registry.epoch().await.unwrap();
    for name in ["running", "assigned", "waiting", "lost"] {
        registry.admit(&admit(name)).await.unwrap();
    }
    let mut begin = start("lost", claim(1, "v", "o"), &epoch);
    begin.lease = Duration::ZERO;
    for begin in [start("running", claim(1, "w", "n"), &epoch), begin] {
        assert_eq!(registry.start(&begin).await.unwrap(), Start::Go);
    }
    server.tell(&["CONFIG", "SET", "maxmemory", "1"]).await;
    registry.check().await.unwrap();

    assert!(matches!(registry.admit(&admit("new")).await, Err(Error::Full)));
    assert_eq!(registry.lookup(&job("new")).await.unwrap(), None);
    let mut word = beat("w");
    (word.running, word.sessions) = (vec![running("running", 1, "n")], vec![held("s")]);
    assert_eq!(registry.heartbeat(&word, super::TTL).await.unwrap().revoked, []);
    assert!(registry.lead("0", "a", super::TTL).await.unwrap());
    assert_eq!(registry.start(&start("assigned", claim(1, "w", "m"), &epoch)).await.unwrap(), Start::Go);
    // All these jobs end. Their outcomes are not kept.
    for (name, nonce) in [("running", "n"), ("assigned", "m")] {
        assert_eq!(registry.finish(&finish(name, claim(1, "w", nonce), "done")).await.unwrap(), Finish::Won);
    }
    assert_eq!(registry.end_unstarted(&end_unstarted("waiting", "cancelled")).await.unwrap(), EndUnstarted::Won);
    assert_eq!(registry.resolve(&resolve("lost", 1, 1)).await.unwrap(), Resolve::Lost);
    for name in ["running", "assigned", "waiting", "lost"] {
        let left = registry.lookup(&job(name)).await.unwrap().unwrap().ended();
        assert!(matches!(left, Some(Ended::Tombstone(_))), "{name}: {left:?}");
    }
    // A refusal is remembered for a short time. The cancel of a job that waits must be remembered for longer, so it
    // fails until there is room.
    assert_eq!(registry.end_unstarted(&end_unstarted("refused", "rejected")).await.unwrap(), EndUnstarted::Won);
    let mut cancel = end_unstarted("unknown", "cancelled");
    cancel.cancel = true;
    assert!(matches!(registry.end_unstarted(&cancel).await, Err(Error::Full)));

    server.tell(&["CONFIG", "SET", "maxmemory", "0"]).await;
    assert_eq!(attempt(&registry.admit(&admit("new")).await.unwrap()), Some(1));
    assert_eq!(registry.end_unstarted(&cancel).await.unwrap(), EndUnstarted::Won);
}

#[tokio::test]
async fn an_unknown_session_waits_for_its_worker_after_an_epoch_began() {
    let server = Server::run(&KEEPS).await;
    let options = RedisOptions { announce_grace: Duration::from_secs(60), ..RedisOptions::new(server.url()) };
    let registry = Redis::connect(options).await.unwrap();
    let mut word = beat("w");
    registry.heartbeat(&word, super::TTL).await.unwrap();
    let mut request = admit("a");
    let candidate = Some(worker("w"));
    let if_gone = thermae_schemas::IfGone::Fail;
    request.session = Some(registry::SessionAdmit { session: session("s"), if_gone, candidate });
    assert_eq!(registry.admit(&request).await.unwrap(), Admitted::NoSessionWorker);
    let (of, name) = (super::tenant("acme"), session("s"));
    assert_eq!(registry.session_holder(&of, &name).await.unwrap(), registry::Holder::Unsettled);
    word.sessions = vec![held("s")];
    registry.heartbeat(&word, super::TTL).await.unwrap();
    let found = registry.admit(&request).await.unwrap();
    let there = registry::Target::Worker { worker: worker("w"), create: false };
    assert!(matches!(found, Admitted::Assigned { to, .. } if to == there));
    assert_eq!(registry.session_holder(&of, &name).await.unwrap(), registry::Holder::Worker(worker("w")));
}

#[tokio::test]
async fn a_redis_that_restarts_from_an_older_copy_is_another_epoch() {
    let mut server = Server::run(&KEEPS).await;
    let registry = redis(&server.url()).await;
    let before = registry.epoch().await.unwrap();
    registry.admit(&admit("a")).await.unwrap();
    server.tell(&["SAVE"]).await;
    // The crash loses this start.
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
    for url in [wrong.as_str(), "not a url", &server.url()] {
        let error = soon("an answer", Redis::connect(RedisOptions::new(url))).await.err().unwrap();
        assert!(matches!(error, Error::Unfit(_)), "{error:?}");
        assert!(!error.to_string().contains("not-the-password"));
    }
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
    assert!(matches!(Redis::connect(options).await.err(), Some(Error::Disconnected(_))));
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

#[tokio::test]
async fn a_heartbeat_that_cannot_be_read_hides_no_other() {
    let server = Server::run(&KEEPS).await;
    // The default prefix, because the test writes some keys itself.
    let connect = || Redis::connect(RedisOptions::new(server.url()));
    let registry = connect().await.unwrap();
    registry.heartbeat(&beat("w"), super::TTL).await.unwrap();
    // Heartbeats with a state that only a newer release knows, and with a language that no other worker has.
    let (mut state, mut language) = (beat("state"), beat("language"));
    for word in [&state, &language] {
        registry.heartbeat(word, super::TTL).await.unwrap();
    }
    let prefix = RedisOptions::new(server.url()).prefix;
    let plant = |name: &'static str, json: String| {
        let key = format!("{prefix}w");
        let server = &server;
        async move { server.tell(&["HSET", &key, name, &json]).await }
    };
    let json = serde_json::to_string(&state).unwrap();
    plant("state", json.replace("\"ready\"", "\"hibernating\"")).await;
    let json = serde_json::to_string(&language).unwrap();
    plant("language", json.replace("\"python\"", "\"cobol\",\"python\"")).await;
    plant("broken", "{\"of another\": \"shape\"}".to_owned()).await;
    server.tell(&["ZADD", &format!("{prefix}wa"), "99999999999999", "broken"]).await;
    state.state = thermae_schemas::WorkerState::Unknown;
    let cobol = "cobol".parse().unwrap();
    language.pools.values_mut().for_each(|pool| pool.languages.insert(0, Clone::clone(&cobol)));
    let seen = connect().await.unwrap();
    assert_eq!(seen.workers().await.unwrap(), [language, state, beat("w")]);
    assert_eq!(seen.unreadable_workers(), [worker("broken")]);
    assert_eq!(seen.workers().await.unwrap().len(), 3, "and again");
}

#[tokio::test]
async fn only_heartbeats_that_changed_are_moved() {
    let server = Server::run(&KEEPS).await;
    let registry = redis(&server.url()).await;
    let mut beats: Vec<_> = (0..200).map(|n| beat(&format!("w{n:03}"))).collect();
    for word in &beats {
        registry.heartbeat(word, super::TTL).await.unwrap();
    }
    assert_eq!(registry.workers().await.unwrap(), beats);
    let moved = |answer: String| -> u64 {
        answer.lines().find_map(|line| line.strip_prefix("total_net_output_bytes:")).unwrap().trim().parse().unwrap()
    };
    let before = moved(server.info().await);
    for round in 0..10u32 {
        beats[7].pools.values_mut().for_each(|pool| pool.busy = round % 2);
        registry.heartbeat(&beats[7], super::TTL).await.unwrap();
        assert_eq!(registry.workers().await.unwrap(), beats);
    }
    // A heartbeat has about 200 bytes, so ten looks at all of them would move 400 kB.
    let moved = moved(server.info().await) - before;
    assert!(moved < 60_000, "{moved} bytes");
}

#[tokio::test]
async fn who_does_not_want_notices_is_sent_none() {
    let server = Server::run(&KEEPS).await;
    let deaf = RedisOptions { notices: false, ..RedisOptions::new(server.url()) };
    let deaf = Redis::connect(deaf).await.unwrap();
    let hears = Redis::connect(RedisOptions::new(server.url())).await.unwrap();
    let prefix = RedisOptions::new(server.url()).prefix;
    assert_eq!(server.subscribers(&format!("{prefix}n")).await, 1, "of two connections");
    // It notices the loss of its connection all the same.
    let mut news = hears.notices();
    deaf.heartbeat(&beat("w"), super::TTL).await.unwrap();
    assert_eq!(soon("news", in_order(&mut news, Notice::Workers)).await, Notice::Workers);
}
