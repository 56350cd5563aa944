//! The names in a journal, as they were last read, for the journals of workers and of tenants with a queue of their
//! own.

use std::collections::HashSet;
use std::fmt::Display;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::context::Context;
use crate::error::Trouble;
use crate::journal::{AGAIN, Journal};

/// The names in a journal, as they were last read. Cheap to clone.
pub(crate) struct Known<T>(Arc<Mutex<Names<T>>>);

struct Names<T> {
    here: HashSet<T>,
    /// Names that were removed. A journal snapshot that still has one of them is outdated.
    gone: HashSet<T>,
}

impl<T> Clone for Known<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Default for Known<T> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Names { here: HashSet::new(), gone: HashSet::new() })))
    }
}

impl<T: Clone + Eq + Hash + Display> Known<T> {
    fn lock(&self) -> MutexGuard<'_, Names<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, name: T, fresh: bool) -> bool {
        let mut names = self.lock();
        // A new entry for a removed name means that the name is in use again.
        if fresh {
            names.gone.remove(&name);
        }
        !names.gone.contains(&name) && names.here.insert(name)
    }

    /// Adds a name. Returns whether it is new.
    pub(crate) fn add(&self, name: T) -> bool {
        self.take(name, true)
    }

    /// Removes a name.
    pub(crate) fn remove(&self, name: &T) {
        let mut names = self.lock();
        names.here.remove(name);
        names.gone.insert(name.clone());
    }

    /// All names.
    pub(crate) fn list(&self) -> Vec<T> {
        self.lock().here.iter().cloned().collect()
    }

    /// Reads the journal, and replaces it by one snapshot. Returns the new names.
    pub(crate) async fn read<E>(
        &self,
        ctx: &Context,
        journal: &Journal,
        parse: impl Fn(String) -> Result<T, E>,
    ) -> Result<Vec<T>, Trouble> {
        let new = Mutex::new(Vec::new());
        let take = |name: &str, fresh: bool| {
            let Ok(name) = parse(name.to_owned()) else { return };
            if self.take(name.clone(), fresh) {
                new.lock().unwrap_or_else(PoisonError::into_inner).push(name);
            }
        };
        let all = || self.list().iter().map(ToString::to_string).collect();
        journal.read(ctx, take, all).await?;
        Ok(new.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the journal again at intervals and passes new names to `found`, until this scheduler no longer leads.
    pub(crate) async fn watch<E>(
        &self,
        ctx: &Context,
        journal: &Journal,
        parse: impl Fn(String) -> Result<T, E>,
        found: impl Fn(T),
    ) {
        loop {
            tokio::select! {
                () = ctx.stop.cancelled() => return,
                () = tokio::time::sleep(AGAIN) => {}
            }
            let Ok(new) = self.read(ctx, journal, &parse).await else { return };
            new.into_iter().for_each(&found);
        }
    }
}
