//! Questions about queues.
//!
//! The broker answers a question about a queue that is not there by ending the channel, and such a channel's number is
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

/// Channels of one connection that may end with "not found": half of those that RabbitMQ allows by default.
const ABSENT: usize = 1000;

/// A link's connection for questions. It is opened with the first one: most clients ask none.
#[derive(Default)]
pub(super) struct Looks(AsyncMutex<Option<Arc<Looking>>>);

/// A connection that stood when it was looked up. It is closed once nobody holds this.
struct Looking {
    connection: Arc<Connection>,
    /// Cancelled when the connection has ended, and with its link.
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

/// The queue, if it is there.
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
