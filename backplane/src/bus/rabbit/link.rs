//! One link at a time: made, watched, and made anew.
//!
//! A link is several connections. One publishes: when the broker is short of memory or disk, it stops reading from those that do, and
//! acknowledgements must still reach it, since they are what makes room. The others consume (and declare), each for so many consumers,
//! because a connection has a limited number of channels. They live and end together: whoever takes deliveries on a connection that
//! is lost must not go on to publish what came of them. One more answers questions (see `look`); it may end alone.
//!
//! The client library can replay connections by itself. It is not asked to: what was in flight when a connection ended
//! must be reported as lost, and consumers subscribe anew when they next look (see `consume`).

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use lapin::uri::AMQPUri;
use lapin::{Channel, Connection, ConnectionProperties, Event};
use thermae_service::tls::Tls;
use tokio::sync::{Mutex as AsyncMutex, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::channel;
use super::errors::down;
use super::look::Looks;
use super::options::{RabbitOptions, place, places};
use super::publish::Publishers;
use super::stream;
use crate::bus::Error;

/// How long one attempt to connect may take.
const ATTEMPT: Duration = Duration::from_secs(10);
/// Waits between attempts: doubled from the first to the second.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// How often waiting is mentioned in the log.
const REMIND: Duration = Duration::from_secs(10);

/// Consumers on one connection, each with a channel of its own. RabbitMQ allows 2,047 channels by default.
const CONSUMERS: usize = 1000;

/// Connections that stood when they were looked up.
pub(super) struct Link {
    /// Declares and consumes.
    pub(super) connection: Arc<Connection>,
    /// Publishes.
    pub(super) publishing: Arc<Connection>,
    pub(super) publishers: Publishers,
    /// Those that consume, the first one included.
    consuming: AsyncMutex<Vec<Consuming>>,
    pub(super) looks: Looks,
    /// Cancelled when any of them has ended or has no channel left, and when the link is given up.
    pub(super) lost: CancellationToken,
    uri: AMQPUri,
    name: String,
    tls: Tls,
}

/// A connection, and its room for consumers.
struct Consuming {
    connection: Arc<Connection>,
    room: Arc<Semaphore>,
}

impl Consuming {
    fn new(connection: Arc<Connection>) -> Self {
        // 0 is no bound. Some are left for declarations.
        let most = match usize::from(connection.configuration().channel_max()) {
            0 => CONSUMERS,
            bound => bound.saturating_sub(64).clamp(1, CONSUMERS),
        };
        Self { connection, room: Arc::new(Semaphore::new(most)) }
    }
}

impl Link {
    /// A channel for a consumer, and its place, to be held as long as the channel lives. Opens one more connection where there is no
    /// place left.
    pub(super) async fn consumer_channel(&self, shared: &Shared) -> Result<(Channel, OwnedSemaphorePermit), Error> {
        let (connection, place) = self.place(shared).await?;
        Ok((channel::open(&connection, &self.lost).await?, place))
    }

    /// A channel for declarations.
    pub(super) async fn channel(&self) -> Result<Channel, Error> {
        channel::open(&self.connection, &self.lost).await
    }

    /// One more connection. Its end cancels `ended`; `ended` ends it.
    pub(super) async fn open_another(
        &self,
        shared: &Shared,
        purpose: &str,
        ended: CancellationToken,
    ) -> Result<Arc<Connection>, Error> {
        let connection = open(&self.uri, &format!("{} ({purpose})", self.name), &self.tls).await?;
        shared.tasks.spawn(watch_for_end(connection.clone(), ended, shared.closed.clone()));
        Ok(connection)
    }

    async fn place(&self, shared: &Shared) -> Result<(Arc<Connection>, OwnedSemaphorePermit), Error> {
        let mut consuming = self.consuming.lock().await;
        for Consuming { connection, room } in &*consuming {
            if let Ok(place) = room.clone().try_acquire_owned() {
                return Ok((connection.clone(), place));
            }
        }
        let purpose = format!("consumers {}", consuming.len() + 1);
        let connection = self.open_another(shared, &purpose, self.lost.clone()).await?;
        let fresh = Consuming::new(connection.clone());
        let place = fresh.room.clone().try_acquire_owned().map_err(|_| down())?;
        consuming.push(fresh);
        Ok((connection, place))
    }

    /// The answer to a request on this link, or [`Error::Disconnected`] once the link has ended. The client library
    /// (lapin 4.12) never answers a request that was still being written when its connection ended.
    pub(super) async fn answer<T>(&self, request: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        answer(&self.lost, request).await
    }

    /// Whether all of it stands.
    fn stands(&self) -> bool {
        !self.lost.is_cancelled() && self.connection.status().connected() && self.publishing.status().connected()
    }

    /// Closes all of it, what consumes first.
    pub(super) async fn close(&self) {
        let consuming: Vec<_> = self.consuming.lock().await.iter().map(|one| one.connection.clone()).collect();
        let asking = self.looks.connection().await;
        for connection in consuming.into_iter().chain(asking).chain([self.publishing.clone()]) {
            if let Err(error) = connection.close(200, "closed by the client".into()).await {
                tracing::debug!(%error, "closing a connection to RabbitMQ");
            }
        }
        self.lost.cancel();
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.lost.cancel();
    }
}

/// As [`Link::answer`], for those who hold only the token that a link's end cancels.
pub(super) async fn answer<T>(
    lost: &CancellationToken,
    request: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    tokio::select! {
        biased;
        done = request => done,
        () = lost.cancelled() => Err(down()),
    }
}

/// What everything of one [`super::Rabbit`] shares.
pub(super) struct Shared {
    link: watch::Sender<Option<Arc<Link>>>,
    pub(super) closed: CancellationToken,
    pub(super) tasks: TaskTracker,
}

impl Shared {
    pub(super) fn new() -> Self {
        Self { link: watch::channel(None).0, closed: CancellationToken::new(), tasks: TaskTracker::new() }
    }

    /// The connection, if one stands.
    pub(super) fn link(&self) -> Result<Arc<Link>, Error> {
        if self.closed.is_cancelled() {
            return Err(Error::Closed);
        }
        match &*self.link.borrow() {
            Some(link) if link.stands() => Ok(link.clone()),
            _ => Err(down()),
        }
    }

    /// The next connection that stands; `None` when the bus is closed.
    pub(super) async fn next_link(&self) -> Option<Arc<Link>> {
        let mut links = self.link.subscribe();
        tokio::select! {
            biased;
            () = self.closed.cancelled() => None,
            found = links.wait_for(|link| link.as_ref().is_some_and(|link| !link.lost.is_cancelled())) => {
                found.ok().and_then(|link| link.clone())
            }
        }
    }

    pub(super) fn set(&self, link: Option<Arc<Link>>) {
        self.link.send_replace(link);
    }
}

/// One attempt with one host.
async fn attempt(uri: &AMQPUri, options: &RabbitOptions, shared: &Arc<Shared>) -> Result<Arc<Link>, Error> {
    let (name, tls) = (&options.name, &options.tls);
    let connection = open(uri, name, tls).await?;
    let publishing = open(uri, &format!("{name} (publishes)"), tls).await?;
    let lost = CancellationToken::new();
    let publishers = timeout(ATTEMPT, Publishers::open(&publishing, lost.clone(), shared.tasks.clone()));
    let publishers = publishers.await.map_err(|_| silent())??;
    for connection in [&connection, &publishing] {
        shared.tasks.spawn(watch_for_end(connection.clone(), lost.clone(), shared.closed.clone()));
    }
    Ok(Arc::new(Link {
        consuming: AsyncMutex::new(vec![Consuming::new(connection.clone())]),
        looks: Looks::default(),
        connection,
        publishing,
        publishers,
        lost,
        uri: uri.clone(),
        name: name.clone(),
        tls: tls.clone(),
    }))
}

fn silent() -> Error {
    Error::Disconnected(format!("no answer within {} s", ATTEMPT.as_secs()))
}

/// Opens one connection.
async fn open(uri: &AMQPUri, name: &str, tls: &Tls) -> Result<Arc<Connection>, Error> {
    let properties = ConnectionProperties::default().with_connection_name(name.into());
    let connection = timeout(ATTEMPT, stream::connect(uri.clone(), properties, tls))
        .await
        .map_err(|_| silent())?
        .map_err(|error| match error {
            Error::Denied(text) => Error::Denied(format!(
                "{text} (user {:?}, vhost {:?} at {})",
                uri.authority.userinfo.username,
                uri.vhost,
                place(uri)
            )),
            other => other,
        })?;
    Ok(Arc::new(connection))
}

/// One attempt with each host in turn, until one has us. What the last one said, if none has.
async fn round(uris: &[AMQPUri], options: &RabbitOptions, shared: &Arc<Shared>) -> Result<Arc<Link>, Error> {
    let (mut said, mut denied) = (down(), true);
    for uri in uris {
        match attempt(uri, options, shared).await {
            Ok(link) => return Ok(link),
            Err(error) => {
                // Only where all refuse, waiting is no use.
                denied &= matches!(error, Error::Denied(_));
                said = error;
            }
        }
    }
    Err(match said {
        Error::Denied(text) if !denied => Error::Disconnected(text),
        said => said,
    })
}

/// Cancels `lost` when a connection ends; then ends the others that share it, so that what they hold goes back.
async fn watch_for_end(connection: Arc<Connection>, lost: CancellationToken, closed: CancellationToken) {
    let mut events = std::pin::pin!(connection.events_listener());
    // An end between the handshake and the line above would make no event.
    while connection.status().connected() {
        tokio::select! {
            // Whoever closes it says when that is done: confirms may come until then.
            () = closed.cancelled() => return,
            () = lost.cancelled() => {
                let _ = timeout(ATTEMPT, connection.close(200, "no longer used".into())).await;
                return;
            }
            event = events.next() => match event {
                None => break,
                // Of a channel or of the connection: the state above tells, and is set before the event.
                Some(Event::Error(_)) => {}
                Some(Event::ConnectionBlocked(reason)) => {
                    tracing::warn!(
                        reason,
                        "the broker is short of memory or disk: what is published waits; what is done is acknowledged"
                    );
                }
                Some(Event::ConnectionUnblocked) => tracing::info!("the broker takes messages again"),
                Some(_) => {}
            },
        }
    }
    lost.cancel();
}

/// Tries until a connection stands, the bus is closed, the broker denies it for good, or the deadline passes.
pub(super) async fn establish(options: &RabbitOptions, shared: &Arc<Shared>, first: bool) -> Result<Arc<Link>, Error> {
    let uris = options.uris()?;
    let at = places(&uris);
    let begun = Instant::now();
    let deadline = options.deadline.filter(|_| first).map(|deadline| begun + deadline);
    let mut wait = BACKOFF.0;
    let mut mentioned: Option<Instant> = None;
    loop {
        let error = tokio::select! {
            biased;
            () = shared.closed.cancelled() => return Err(Error::Closed),
            made = round(&uris, options, shared) => match made {
                Ok(link) => {
                    if mentioned.is_some() || !first {
                        tracing::info!(server.address = at, "connected to RabbitMQ");
                    }
                    return Ok(link);
                }
                Err(error) => error,
            },
        };
        // Wrong credentials do not mend themselves. Later on, though, somebody may be in the middle of changing them.
        if first && matches!(error, Error::Denied(_)) {
            return Err(error);
        }
        if deadline.is_some_and(|deadline| Instant::now() + wait >= deadline) {
            return Err(error);
        }
        if mentioned.is_none_or(|then| then.elapsed() >= REMIND) {
            tracing::warn!(error = %error, "waiting for RabbitMQ at {at}");
            mentioned = Some(Instant::now());
        }
        tokio::select! {
            biased;
            () = shared.closed.cancelled() => return Err(Error::Closed),
            () = tokio::time::sleep(wait) => {}
        }
        wait = (wait * 2).min(BACKOFF.1);
    }
}

/// Keeps a connection until the bus is closed.
pub(super) async fn keep(options: RabbitOptions, shared: Arc<Shared>, mut link: Arc<Link>) {
    loop {
        tokio::select! {
            biased;
            () = shared.closed.cancelled() => return,
            () = link.lost.cancelled() => {}
        }
        shared.set(None);
        tracing::warn!("the connection to RabbitMQ is lost");
        link = match establish(&options, &shared, false).await {
            Ok(link) => link,
            // Closed: nothing else ends it.
            Err(_) => return,
        };
        shared.set(Some(link.clone()));
    }
}
