//! One link at a time: it is made, watched, and made again when it is lost.
//!
//! A link is several connections. One publishes: when the broker is short of memory or disk, it stops reading from
//! connections that publish, and acknowledgements must still reach it, because they free memory. The others consume and
//! declare, each for a limited number of consumers, because a connection has a limited number of channels. These
//! connections live and end together: if a delivery came on a connection that is lost, its consumer must not go on to
//! publish what follows from it. One more connection answers questions (see `look`). It may end alone.
//!
//! The client library can restore connections and repeat what was in flight. That is switched off: whatever was in
//! flight when a connection ended must be reported as lost, and consumers subscribe again on their next call (see
//! `consume`).

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use lapin::uri::AMQPUri;
use lapin::{Channel, Connection, ConnectionProperties, Event};
use thermae_service::backoff::Backoff;
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
/// How often the log says that it still waits.
const REMIND: Duration = Duration::from_secs(10);

/// Consumers on one connection. Each has its own channel, and RabbitMQ allows 2,047 channels by default.
const CONSUMERS: usize = 1000;

/// Connections that were up when they were looked up.
pub(super) struct Link {
    /// For declarations, and for the first consumers.
    pub(super) connection: Arc<Connection>,
    /// For publishing alone.
    pub(super) publishing: Arc<Connection>,
    pub(super) publishers: Publishers,
    /// The connections for consumers, including the first one.
    consuming: AsyncMutex<Vec<Consuming>>,
    pub(super) looks: Looks,
    /// Cancelled when one of these connections has ended or has no channel left, and when the link is given up.
    pub(super) lost: CancellationToken,
    uri: AMQPUri,
    name: String,
    tls: Tls,
}

/// A connection, and the permits for its consumers.
struct Consuming {
    connection: Arc<Connection>,
    room: Arc<Semaphore>,
}

impl Consuming {
    fn new(connection: Arc<Connection>) -> Self {
        // 0 means no limit. 64 channels are left for declarations.
        let most = match usize::from(connection.configuration().channel_max()) {
            0 => CONSUMERS,
            bound => bound.saturating_sub(64).clamp(1, CONSUMERS),
        };
        Self { connection, room: Arc::new(Semaphore::new(most)) }
    }
}

impl Link {
    /// A channel for a consumer, and a permit that the consumer must hold as long as the channel lives. If all
    /// connections are full, it opens another one.
    pub(super) async fn consumer_channel(&self, shared: &Shared) -> Result<(Channel, OwnedSemaphorePermit), Error> {
        let (connection, place) = self.place(shared).await?;
        Ok((channel::open(&connection, &self.lost).await?, place))
    }

    /// A channel for declarations.
    pub(super) async fn channel(&self) -> Result<Channel, Error> {
        channel::open(&self.connection, &self.lost).await
    }

    /// Opens one more connection. When the connection ends, `ended` is cancelled. When `ended` is cancelled, the
    /// connection is closed.
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

    /// Whether all of the link is up.
    fn stands(&self) -> bool {
        !self.lost.is_cancelled() && self.connection.status().connected() && self.publishing.status().connected()
    }

    /// Closes all connections, the consuming ones first.
    pub(super) async fn close(&self) {
        let consuming: Vec<_> = self.consuming.lock().await.iter().map(|one| one.connection.clone()).collect();
        let asking = self.looks.connection().await;
        for connection in consuming.into_iter().chain(asking).chain([self.publishing.clone()]) {
            if let Err(error) = connection.close(200, "closed by the client".into()).await {
                tracing::debug!(%error, "a connection to RabbitMQ could not be closed");
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

/// Like [`Link::answer`], for callers that have only the token that is cancelled with the link.
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

/// State that all parts of one [`super::Rabbit`] share.
pub(super) struct Shared {
    link: watch::Sender<Option<Arc<Link>>>,
    pub(super) closed: CancellationToken,
    pub(super) tasks: TaskTracker,
}

impl Shared {
    pub(super) fn new() -> Self {
        Self { link: watch::channel(None).0, closed: CancellationToken::new(), tasks: TaskTracker::new() }
    }

    /// The link, if it is up.
    pub(super) fn link(&self) -> Result<Arc<Link>, Error> {
        if self.closed.is_cancelled() {
            return Err(Error::Closed);
        }
        match &*self.link.borrow() {
            Some(link) if link.stands() => Ok(link.clone()),
            _ => Err(down()),
        }
    }

    /// Waits for a link that is up. `None` when the bus is closed.
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

/// Tries to connect to one host.
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

/// Tries each host in turn until one accepts. If none does, it returns the last host's error.
async fn round(uris: &[AMQPUri], options: &RabbitOptions, shared: &Arc<Shared>) -> Result<Arc<Link>, Error> {
    let (mut said, mut denied) = (down(), true);
    for uri in uris {
        match attempt(uri, options, shared).await {
            Ok(link) => return Ok(link),
            Err(error) => {
                // Waiting is useless only if all hosts deny access.
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

/// Cancels `lost` when this connection ends, and closes this connection when another one has cancelled `lost`, so that
/// its deliveries go back to their queues.
async fn watch_for_end(connection: Arc<Connection>, lost: CancellationToken, closed: CancellationToken) {
    let mut events = std::pin::pin!(connection.events_listener());
    // A connection that ended between the handshake and the line above would cause no event.
    while connection.status().connected() {
        tokio::select! {
            // `Link::close` cancels `lost` when it is done: confirms may arrive until then.
            () = closed.cancelled() => return,
            () = lost.cancelled() => {
                let _ = timeout(ATTEMPT, connection.close(200, "no longer used".into())).await;
                return;
            }
            event = events.next() => match event {
                None => break,
                // An error of a channel or of the connection. The loop's condition tells which: the status is set
                // before the event.
                Some(Event::Error(_)) => {}
                Some(Event::ConnectionBlocked(reason)) => {
                    tracing::warn!(
                        reason,
                        "the broker is short of memory or disk: publishes wait, acknowledgements go on"
                    );
                }
                Some(Event::ConnectionUnblocked) => tracing::info!("the broker accepts messages again"),
                Some(_) => {}
            },
        }
    }
    lost.cancel();
}

/// Tries until a connection is up, the bus is closed, the broker denies access for good, or the deadline passes.
pub(super) async fn establish(options: &RabbitOptions, shared: &Arc<Shared>, first: bool) -> Result<Arc<Link>, Error> {
    let uris = options.uris()?;
    let at = places(&uris);
    let begun = Instant::now();
    let deadline = options.deadline.filter(|_| first).map(|deadline| begun + deadline);
    let mut pauses = Backoff::default();
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
        // Wrong credentials don't become right. But after the first connection, somebody may be changing them at this
        // moment.
        if first && matches!(error, Error::Denied(_)) {
            return Err(error);
        }
        let wait = pauses.next_pause();
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
    }
}

/// Makes a new link whenever one is lost, until the bus is closed.
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
            // The bus is closed: `establish` has no other error here.
            Err(_) => return,
        };
        shared.set(Some(link.clone()));
    }
}
