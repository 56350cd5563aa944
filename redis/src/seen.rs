//! The heartbeats that were read last. There are many, and most are unchanged, so each look reads only those that
//! changed.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use redis::Value;
use thermae_schemas::{Heartbeat, WorkerId};
use tokio::time::Instant;

use super::reply::Reply;
use thermae_backplane::registry::Error;

/// How often all heartbeats are read again. Workers of an earlier release don't mark theirs as changed.
const ALL_AGAIN: Duration = Duration::from_secs(30);

/// The heartbeats that are known, by worker.
#[derive(Default)]
pub(super) struct Seen {
    epoch: String,
    number: u64,
    all_at: Option<Instant>,
    /// The living workers. `None` if this release can't read the heartbeat.
    alive: BTreeMap<String, Option<Heartbeat>>,
    /// Workers whose heartbeat could not be read. Each is logged once.
    unreadable: HashSet<String>,
}

impl Seen {
    /// The arguments for the script: epoch and number of the last look. `("", 0)` asks for all workers.
    pub(super) fn since(&self) -> (&str, u64) {
        match self.all_at {
            Some(at) if at.elapsed() < ALL_AGAIN => (&self.epoch, self.number),
            _ => ("", 0),
        }
    }

    /// Reads the script's answer to the question `since`. `false` if some workers are not known, so that the caller
    /// must ask for all of them.
    pub(super) fn take(&mut self, since: (&str, u64), answer: Value) -> Result<bool, Error> {
        let mut reply = Reply::new(answer)?;
        let (epoch, number, count) = (reply.text()?, reply.int()?, reply.int()?);
        let (dead, changed) = (reply.list()?, reply.list()?);
        if epoch != since.0 || since.1 == 0 {
            self.alive.clear();
            self.all_at = Some(Instant::now());
        } else if (self.epoch.as_str(), self.number) != since {
            // Another look came in between. What it read is newer.
            return Ok(true);
        }
        let dead: BTreeSet<String> = dead.into_iter().collect();
        self.alive.retain(|worker, _| !dead.contains(worker));
        for pair in changed.chunks_exact(2) {
            let (worker, beat) = (&pair[0], &pair[1]);
            if !dead.contains(worker) {
                let beat = self.read(worker, beat);
                self.alive.insert(worker.clone(), beat);
            }
        }
        (self.epoch, self.number) = (epoch, number);
        let whole = self.alive.len() as u64 == count;
        if !whole {
            self.all_at = None;
        }
        Ok(whole)
    }

    fn read(&mut self, worker: &str, beat: &str) -> Option<Heartbeat> {
        match serde_json::from_str(beat) {
            Ok(beat) => {
                self.unreadable.remove(worker);
                Some(beat)
            }
            Err(error) => {
                if self.unreadable.insert(worker.to_owned()) {
                    tracing::error!(worker, %error, "a worker's heartbeat can't be read; nothing is handed to it");
                }
                None
            }
        }
    }

    /// The living workers, sorted by name.
    pub(super) fn workers(&self) -> Vec<Heartbeat> {
        self.alive.values().flatten().cloned().collect()
    }

    /// The living workers whose heartbeats this release can't read.
    pub(super) fn unreadable(&self) -> Vec<WorkerId> {
        let unreadable = self.alive.iter().filter(|(_, beat)| beat.is_none());
        unreadable.filter_map(|(worker, _)| WorkerId::new(worker.as_str()).ok()).collect()
    }
}
