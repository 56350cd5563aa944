//! The connections: one for commands (multiplexed), one for notices. They are made, checked and replaced together.
//!
//! The client library has a manager that reconnects on its own. It isn't used: after a reconnect and before the next
//! command, this code must know whether this is still the Redis that was written to (by its run id), and whether it was
//! emptied.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use redis::aio::{MultiplexedConnection, PubSub};
use redis::{AsyncConnectionConfig, ErrorKind, RedisError, RedisResult, Script, ServerErrorKind, Value};
use thermae_schemas::PoolName;
use thermae_service::backoff::Backoff;
use tokio::sync::{broadcast, watch};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::options::{RedisOptions, Servers, Target};
use super::scripts::EPOCH;
use super::wire::{self, mapped};
use thermae_backplane::registry::{Epoch, Error, Notice};

/// How long one attempt to connect may take.
const ATTEMPT: Duration = Duration::from_secs(5);
/// How often the log says that it still waits.
const REMIND: Duration = Duration::from_secs(10);
/// How many notices a slow receiver may be behind before it loses some.
const NOTICES: usize = 256;

/// A connection for commands, which was checked when it was made.
#[derive(Clone)]
pub(super) struct Link {
    commands: MultiplexedConnection,
    lost: CancellationToken,
}

/// State that all parts of one [`super::Redis`] share.
pub(super) struct Shared {
    pub(super) options: RedisOptions,
    target: Target,
    link: watch::Sender<Option<Link>>,
    /// The epoch that this process saw last.
    epoch: Mutex<Option<Epoch>>,
    pub(super) notices: broadcast::Sender<Notice>,
    pub(super) closed: CancellationToken,
    pub(super) tasks: TaskTracker,
}

/// Whether this Redis answers, but is not the primary any more: it is a replica (since a failover) that refuses writes.
/// A primary without its replicas refuses them, too, but only sentinels can name another primary then. The next
/// connection looks for the primary again.
fn demoted(error: &RedisError, target: &Target) -> bool {
    match error.code() {
        Some("READONLY" | "MASTERDOWN") => true,
        Some("NOREPLICAS") => matches!(target.servers, Servers::Sentinels { .. }),
        _ => false,
    }
}

/// A field of the answer to `INFO`.
fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// The bytes that Redis uses and those that it may use, from its `INFO`.
pub(super) fn memory(info: &str) -> (u64, u64) {
    let bytes = |name| field(info, name).and_then(|bytes| bytes.parse().ok()).unwrap_or(0);
    (bytes("used_memory"), bytes("maxmemory"))
}

async fn info(connection: &mut MultiplexedConnection) -> RedisResult<String> {
    redis::cmd("INFO").query_async(connection).await
}

/// Whether this Redis accepts writes, from its `INFO`.
fn is_primary(info: &str) -> bool {
    field(info, "role").is_none_or(|role| role == "master")
}

impl Shared {
    pub(super) fn new(options: RedisOptions) -> Result<Self, Error> {
        let target = options.target()?;
        Ok(Self {
            options,
            target,
            link: watch::channel(None).0,
            epoch: Mutex::new(None),
            notices: broadcast::channel(NOTICES).0,
            closed: CancellationToken::new(),
            tasks: TaskTracker::new(),
        })
    }

    fn at(&self) -> String {
        self.target.to_string()
    }

    fn link(&self) -> Result<Link, Error> {
        match &*self.link.borrow() {
            Some(link) if !link.lost.is_cancelled() => Ok(link.clone()),
            _ => Err(Error::Disconnected("not connected".to_owned())),
        }
    }

    /// Runs a script by its digest. If Redis doesn't know the script (yet, or since it restarted), it is loaded first.
    pub(super) async fn call(&self, script: &Script, fill: impl Fn(&mut redis::Cmd)) -> Result<Value, Error> {
        let mut link = self.link()?;
        // Each remedy is tried once. If the script is unknown again, or the epoch is missing again, the call fails.
        let (mut loaded, mut begun) = (false, false);
        loop {
            let mut command = redis::cmd("EVALSHA");
            command.arg(script.get_hash()).arg(0).arg(&self.options.prefix);
            fill(&mut command);
            let error = match command.query_async::<Value>(&mut link.commands).await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) && !loaded {
                loaded = true;
                script.load_async(&mut link.commands).await.map_err(|error| self.failed(&link, &error))?;
            } else if error.code() == Some("EPOCH") && !begun {
                begun = true;
                self.begin(&mut link.commands).await.map_err(|error| self.failed(&link, &error))?;
            } else {
                return Err(self.failed(&link, &error));
            }
        }
    }

    /// Redis's answer to `INFO`.
    pub(super) async fn info(&self) -> Result<String, Error> {
        let mut link = self.link()?;
        let answer = redis::cmd("INFO").query_async(&mut link.commands).await;
        answer.map_err(|error| self.failed(&link, &error))
    }

    /// Whether Redis is fit to hold records, by its `INFO`.
    pub(super) fn fitness(info: &str) -> Result<(), Error> {
        if !is_primary(info) {
            return Err(Error::Unfit("this Redis is a replica: it can't be written".to_owned()));
        }
        match field(info, "maxmemory_policy") {
            None | Some("noeviction") => Ok(()),
            Some(other) => Err(Error::Unfit(format!(
                "maxmemory-policy is {other:?}: Redis would drop records when memory is short; set it to noeviction"
            ))),
        }
    }

    fn failed(&self, link: &Link, error: &RedisError) -> Error {
        let demoted = demoted(error, &self.target);
        let error = mapped(error);
        if demoted {
            tracing::warn!(%error, "this Redis refuses writes: looking for the primary again");
        }
        if demoted || matches!(error, Error::Disconnected(_)) {
            link.lost.cancel();
        }
        error
    }

    /// Begins a new epoch if necessary. If the epoch is not the one seen last, sends a notice.
    pub(super) async fn begin(&self, connection: &mut MultiplexedConnection) -> RedisResult<Epoch> {
        let info = info(connection).await?;
        let run = field(&info, "run_id").unwrap_or_default();
        let fresh = uuid::Uuid::new_v4().simple().to_string();
        let mut call = EPOCH.prepare_invoke();
        call.arg(&self.options.prefix).arg(run).arg(fresh);
        let id: String = call.invoke_async(connection).await?;
        Ok(self.saw(Epoch(id)))
    }

    fn saw(&self, epoch: Epoch) -> Epoch {
        let before = {
            let mut seen = self.epoch.lock().unwrap_or_else(PoisonError::into_inner);
            seen.replace(epoch.clone())
        };
        if before.is_some_and(|before| before != epoch) {
            tracing::warn!("the registry was emptied, replaced or restarted: a new epoch begins");
            let _ = self.notices.send(Notice::Epoch);
        }
        epoch
    }

    /// Reads the current epoch, and begins one if necessary.
    pub(super) async fn epoch(&self) -> Result<Epoch, Error> {
        let mut link = self.link()?;
        self.begin(&mut link.commands).await.map_err(|error| self.failed(&link, &error))
    }

    async fn attempt(&self) -> Result<(Link, PubSub), Error> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(ATTEMPT))
            .set_response_timeout(Some(self.options.response_timeout));
        let connect = async {
            let (target, options) = (&self.target, &self.options);
            let address = wire::address(target, options).await?;
            let mut notices = wire::notices(&address, target, options).await?;
            // Subscribes before it reads the epoch, so that no later change is missed.
            if options.notices {
                notices.subscribe(format!("{}n", options.prefix)).await.map_err(|error| mapped(&error))?;
            }
            let mut commands = wire::commands(&address, target, options, config).await?;
            let about = info(&mut commands).await.map_err(|error| mapped(&error))?;
            if !is_primary(&about) {
                return Err(target.replica(&address));
            }
            self.begin(&mut commands).await.map_err(|error| mapped(&error))?;
            Ok((Link { commands, lost: CancellationToken::new() }, notices))
        };
        timeout(ATTEMPT, connect)
            .await
            .unwrap_or_else(|_| Err(Error::Disconnected(format!("no answer within {} s", ATTEMPT.as_secs()))))
    }

    /// Tries until a connection is up, the registry is unfit for good, or the deadline passes. Returns the connection
    /// for notices.
    pub(super) async fn establish(&self, first: bool) -> Result<PubSub, Error> {
        let at = self.at();
        let deadline = self.options.deadline.filter(|_| first).map(|deadline| Instant::now() + deadline);
        let mut pauses = Backoff::default();
        let mut mentioned: Option<Instant> = None;
        loop {
            let error = match self.attempt().await {
                Ok((link, notices)) => {
                    if mentioned.is_some() || !first {
                        tracing::info!(server.address = at, "connected to Redis");
                    }
                    self.link.send_replace(Some(link));
                    return Ok(notices);
                }
                Err(error) => error,
            };
            if first && matches!(error, Error::Unfit(_)) {
                return Err(error);
            }
            let wait = pauses.next_pause();
            if deadline.is_some_and(|deadline| Instant::now() + wait >= deadline) {
                return Err(error);
            }
            if mentioned.is_none_or(|then| then.elapsed() >= REMIND) {
                tracing::warn!(%error, "waiting for Redis at {at}");
                mentioned = Some(Instant::now());
            }
            tokio::time::sleep(wait).await;
        }
    }

    /// Passes notices on and reconnects when a connection is lost, until the registry is closed.
    pub(super) async fn keep(self: Arc<Self>, notices: PubSub) {
        let work = async {
            let mut notices = notices;
            loop {
                self.listen(notices).await;
                self.link.send_replace(None);
                tracing::warn!("the connection to Redis is lost");
                notices = match self.establish(false).await {
                    Ok(notices) => notices,
                    Err(_) => return,
                };
                // Notices that were sent in the meantime were missed.
                let _ = self.notices.send(Notice::Workers);
            }
        };
        tokio::select! {
            biased;
            () = self.closed.cancelled() => {}
            () = work => {}
        }
        self.link.send_replace(None);
    }

    /// Passes notices on until one of the connections ends.
    async fn listen(&self, notices: PubSub) {
        let Ok(link) = self.link() else { return };
        let mut messages = notices.into_on_message();
        loop {
            let message = tokio::select! {
                biased;
                () = link.lost.cancelled() => return,
                message = messages.next() => message,
            };
            let Some(message) = message else {
                link.lost.cancel();
                return;
            };
            let Ok(text) = message.get_payload::<String>() else { continue };
            match text.split_once(' ') {
                Some(("credit", pool)) => {
                    if let Ok(pool) = PoolName::new(pool) {
                        let _ = self.notices.send(Notice::Credit(pool));
                    }
                }
                None if text == "workers" => drop(self.notices.send(Notice::Workers)),
                // The process that began the epoch has told its own receivers already. A second notice does no harm.
                None if text == "epoch" => drop(self.notices.send(Notice::Epoch)),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_memory_is_read() {
        let info = "used_memory:1024\r\nused_memory_human:1K\r\nmaxmemory:4096\r\nmaxmemory_policy:noeviction\r\n";
        assert_eq!((memory(info), memory("")), ((1024, 4096), (0, 0)));
    }

    #[test]
    fn a_redis_that_would_lose_records_is_unfit() {
        assert!(Shared::fitness("role:master\r\nmaxmemory_policy:noeviction\r\n").is_ok());
        for bad in ["role:slave\r\n", "role:master\r\nmaxmemory_policy:allkeys-lru\r\n"] {
            assert!(matches!(Shared::fitness(bad), Err(Error::Unfit(_))), "{bad:?}");
        }
    }
}
