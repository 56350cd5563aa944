//! The large outcomes that wait to be moved to the store (see [`crate::shelving`]).

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use thermae_backplane::registry::{JobKey, Keep};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// Most outcomes that may wait or be written at once, and most bytes of them. Further outcomes stay in the registry.
const WAITING: usize = 256;
const WAITING_BYTES: usize = 64 << 20;

/// An outcome that was recorded and published.
#[derive(Debug)]
pub(crate) struct Large {
    /// The job that the outcome belongs to.
    pub job: JobKey,
    /// The result message.
    pub outcome: Bytes,
    /// How long, and within which budget, the registry keeps it.
    pub keep: Keep,
}

type Item = (Large, OwnedSemaphorePermit);

/// Large outcomes on their way to the store.
pub(crate) struct Shelf {
    room: Arc<Semaphore>,
    to: mpsc::Sender<Item>,
    from: Mutex<Option<mpsc::Receiver<Item>>>,
}

impl Default for Shelf {
    fn default() -> Self {
        let (to, from) = mpsc::channel(WAITING);
        Self { room: Arc::new(Semaphore::new(WAITING_BYTES)), to, from: Mutex::new(Some(from)) }
    }
}

impl Shelf {
    /// Adds an outcome. `false` if there is no room.
    pub(crate) fn put(&self, large: Large) -> bool {
        let bytes = u32::try_from(large.outcome.len()).ok();
        let room = bytes.and_then(|n| Arc::clone(&self.room).try_acquire_many_owned(n).ok());
        room.is_some_and(|room| self.to.try_send((large, room)).is_ok())
    }

    /// The outcomes that were added, each with its room. `None` if they were taken before.
    pub(crate) fn take(&self) -> Option<mpsc::Receiver<Item>> {
        self.from.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
