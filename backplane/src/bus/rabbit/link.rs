//! One connection at a time: made, watched, and made anew.
//!
//! The client library can replay connections by itself. It is not asked to: what was in flight when a connection ended
//! must be reported as lost, and consumers subscribe anew when they next look (see `consume`).

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use lapin::uri::AMQPUri;
use lapin::{Connection, ConnectionProperties, Event};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::errors::{down, mapped};
use super::options::{RabbitOptions, place};
use super::publish::Publishers;
use crate::bus::Error;

/// How long one attempt to connect may take.
const ATTEMPT: Duration = Duration::from_secs(10);
/// Waits between attempts: doubled from the first to the second.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// How often waiting is mentioned in the log.
const REMIND: Duration = Duration::from_secs(10);

/// A connection that stood when it was looked up.
pub(super) struct Link {
    pub(super) connection: Connection,
    pub(super) publishers: Publishers,
    /// Cancelled when it has ended.
    pub(super) lost: CancellationToken,
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
            Some(link) if link.connection.status().connected() => Ok(link.clone()),
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

/// One attempt.
async fn attempt(uri: &AMQPUri, name: &str, shared: &Arc<Shared>) -> Result<Arc<Link>, Error> {
    let properties = ConnectionProperties::default().with_connection_name(name.into());
    let connection = timeout(ATTEMPT, Connection::connect_uri(uri.clone(), properties))
        .await
        .map_err(|_| Error::Disconnected(format!("no answer within {} s", ATTEMPT.as_secs())))?
        .map_err(|error| match mapped(&error) {
            Error::Denied(text) => Error::Denied(format!(
                "{text} (user {:?}, vhost {:?} at {})",
                uri.authority.userinfo.username,
                uri.vhost,
                place(uri)
            )),
            other => other,
        })?;
    let publishers = Publishers::open(&connection, shared.tasks.clone()).await?;
    let link = Arc::new(Link { connection, publishers, lost: CancellationToken::new() });
    shared.tasks.spawn(watch_for_end(link.clone(), shared.clone()));
    Ok(link)
}

/// Cancels a link's `lost` when its connection ends.
async fn watch_for_end(link: Arc<Link>, shared: Arc<Shared>) {
    let mut events = std::pin::pin!(link.connection.events_listener());
    // An end between the handshake and the line above would make no event.
    while link.connection.status().connected() {
        tokio::select! {
            () = shared.closed.cancelled() => break,
            event = events.next() => match event {
                None => break,
                // Of a channel or of the connection: the state above tells, and is set before the event.
                Some(Event::Error(_)) => {}
                Some(Event::ConnectionBlocked(reason)) => {
                    tracing::warn!(reason, "the broker is short of memory or disk and takes no messages for now");
                }
                Some(Event::ConnectionUnblocked) => tracing::info!("the broker takes messages again"),
                Some(_) => {}
            },
        }
    }
    link.lost.cancel();
}

/// Tries until a connection stands, the bus is closed, the broker denies it for good, or the deadline passes.
pub(super) async fn establish(options: &RabbitOptions, shared: &Arc<Shared>, first: bool) -> Result<Arc<Link>, Error> {
    let uri = options.uri()?;
    let at = place(&uri);
    let begun = Instant::now();
    let deadline = options.deadline.filter(|_| first).map(|deadline| begun + deadline);
    let mut wait = BACKOFF.0;
    let mut mentioned: Option<Instant> = None;
    loop {
        let error = tokio::select! {
            biased;
            () = shared.closed.cancelled() => return Err(Error::Closed),
            made = attempt(&uri, &options.name, shared) => match made {
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
