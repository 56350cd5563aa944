//! The heartbeats as last read. They are many and most say what they said before, so a look fetches only those that changed.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use redis::Value;
use thermae_schemas::{Heartbeat, WorkerId};
use tokio::time::Instant;

use super::reply::Reply;
use crate::registry::Error;

/// How often all of them are read again: heartbeats of an earlier release do not say that they changed.
const ALL_AGAIN: Duration = Duration::from_secs(30);

/// Which heartbeats are known.
#[derive(Default)]
pub(super) struct Seen {
    epoch: String,
    number: u64,
    all_at: Option<Instant>,
    /// The living workers; `None` where this release can't read what one says.
    alive: BTreeMap<String, Option<Heartbeat>>,
    /// Workers whose heartbeat could not be read, so that each is logged once.
    unreadable: HashSet<String>,
}

impl Seen {
    /// What the script is asked: the epoch and the number of the last look.
    pub(super) fn since(&self) -> (&str, u64) {
        match self.all_at {
            Some(at) if at.elapsed() < ALL_AGAIN => (&self.epoch, self.number),
            _ => ("", 0),
        }
    }

    /// Reads the script's answer to the question since when. `false`: some workers are not known, so all of them are to be
    /// asked for.
    pub(super) fn take(&mut self, since: (&str, u64), answer: Value) -> Result<bool, Error> {
        let mut reply = Reply::new(answer)?;
        let (epoch, number, count) = (reply.text()?, reply.int()?, reply.int()?);
        let (dead, changed) = (reply.list()?, reply.list()?);
        if epoch != since.0 || since.1 == 0 {
            self.alive.clear();
            self.all_at = Some(Instant::now());
        } else if (self.epoch.as_str(), self.number) != since {
            // Another look came in between, and knows more.
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

    /// The living workers, in the order of their names.
    pub(super) fn workers(&self) -> Vec<Heartbeat> {
        self.alive.values().flatten().cloned().collect()
    }

    /// The living workers whose words this release can't read.
    pub(super) fn unreadable(&self) -> Vec<WorkerId> {
        let unreadable = self.alive.iter().filter(|(_, beat)| beat.is_none());
        unreadable.filter_map(|(worker, _)| WorkerId::new(worker.as_str()).ok()).collect()
    }
}
