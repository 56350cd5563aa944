//! Questions about queues.
//!
//! If a queue doesn't exist, the broker answers the question by ending the channel. The number of that channel is then
//! lost for its connection (see `channel`). So questions have a connection of their own, which is replaced before it
//! runs out of numbers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lapin::options::QueueDeclareOptions;
use lapin::types::FieldTable;
use lapin::{Connection, Queue};
use tokio::sync::Mutex as AsyncMutex;
use tokio_util::sync::CancellationToken;

use super::channel;
use super::convert::short;
use super::errors::{is_not_found, mapped};
use super::link::{Link, Shared, answer};
use crate::bus::Error;

/// How many channels of one connection may end with "not found": about half of what RabbitMQ allows by default.
const ABSENT: usize = 1000;

/// A link's connection for questions. The first question opens it, because most clients never ask one.
#[derive(Default)]
pub(super) struct Looks(AsyncMutex<Option<Arc<Looking>>>);

/// A connection that was up when it was looked up. It is closed when the last handle of this is dropped.
struct Looking {
    connection: Arc<Connection>,
    /// Cancelled when the connection or its link has ended.
    ended: CancellationToken,
    absent: AtomicUsize,
}

impl Drop for Looking {
    fn drop(&mut self) {
        self.ended.cancel();
    }
}

impl Looks {
    async fn looking(&self, link: &Link, shared: &Shared) -> Result<Arc<Looking>, Error> {
        let mut current = self.0.lock().await;
        if let Some(looking) = &*current
            && !looking.ended.is_cancelled()
            && looking.absent.load(Ordering::Relaxed) < ABSENT
        {
            return Ok(looking.clone());
        }
        let ended = link.lost.child_token();
        let connection = link.open_another(shared, "asks", ended.clone()).await?;
        let looking = Arc::new(Looking { connection, ended, absent: AtomicUsize::new(0) });
        *current = Some(looking.clone());
        Ok(looking)
    }

    /// The connection, if one is open.
    pub(super) async fn connection(&self) -> Option<Arc<Connection>> {
        self.0.lock().await.as_ref().map(|looking| looking.connection.clone())
    }
}

/// The queue, or `None` if it doesn't exist.
pub(super) async fn queue(link: &Link, shared: &Shared, queue: &str) -> Result<Option<Queue>, Error> {
    let looking = link.looks.looking(link, shared).await?;
    let request = async {
        let channel = channel::open(&looking.connection, &looking.ended).await?;
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        match channel.queue_declare(short(queue)?, options, FieldTable::default()).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if is_not_found(&error) => {
                looking.absent.fetch_add(1, Ordering::Relaxed);
                Ok(None)
            }
            Err(error) => Err(mapped(&error)),
        }
    };
    answer(&looking.ended, request).await
}
