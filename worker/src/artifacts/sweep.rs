//! Retention: objects that are too old are removed from the store. One worker of a fleet does this: the one that holds
//! the lease.
//!
//! Only objects with names of the fleet's own are ever removed: `<tenant>/<sha256>`, `<tenant>/outcomes/<sha256>` and
//! `<tenant>/sessions/<sha256>`.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStoreExt};
use thermae_schemas::TenantName;
use tokio_util::sync::CancellationToken;

use super::{Artifacts, Error, STORE_TIMEOUT};
use crate::context::Context;

/// Time between two sweeps.
const EVERY: Duration = Duration::from_secs(3600);
/// Time from a worker's start to its first sweep.
const FIRST: Duration = Duration::from_secs(300);
/// Name of the lease in the registry.
const LEASE: &str = "sweep";

/// The kinds of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An artifact, or content that a client stored.
    Artifact,
    /// An outcome.
    Outcome,
    /// The list of a session's files.
    Session,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Artifact, Self::Outcome, Self::Session];

    fn as_str(self) -> &'static str {
        match self {
            Self::Artifact => "artifact",
            Self::Outcome => "outcome",
            Self::Session => "session",
        }
    }

    /// The folder below a tenant's part; `None` for the part itself.
    fn folder(self) -> Option<&'static str> {
        match self {
            Self::Artifact => None,
            Self::Outcome => Some("outcomes"),
            Self::Session => Some("sessions"),
        }
    }
}

/// How old an object may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ages {
    /// Artifacts, and content that clients stored. `None`: they are never removed.
    pub artifacts: Option<Duration>,
    /// Outcomes and lists of sessions' files: as long as the registry can name one.
    pub records: Duration,
}

impl Ages {
    fn of(self, kind: Kind) -> Option<Duration> {
        if kind == Kind::Artifact { self.artifacts } else { Some(self.records) }
    }
}

/// Sweeps regularly until `end`.
pub(crate) async fn sweeps(ctx: Arc<Context>, end: CancellationToken) {
    let ages = Ages {
        artifacts: ctx.options.artifacts.keep.map(|keep| keep.0),
        records: ctx.options.record_ttl.0.max(super::kept::AT_MOST),
    };
    let work = async {
        tokio::time::sleep(FIRST).await;
        loop {
            match ctx.registry.lead(LEASE, ctx.id.as_str(), EVERY * 2).await {
                Ok(true) => {
                    let removed = |kind: Kind| ctx.metrics.swept(kind.as_str());
                    if let Err(error) = ctx.artifacts.sweep(ages, SystemTime::now(), removed).await {
                        tracing::error!(%error, "the store can't be swept");
                        ctx.metrics.swept("failed");
                    }
                }
                Ok(false) => {}
                Err(error) => tracing::debug!(%error, "can't ask the registry whether to sweep"),
            }
            tokio::time::sleep(EVERY).await;
        }
    };
    let _ = end.run_until_cancelled(work).await;
}

fn is_digest(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|c| c.is_ascii_digit() || (b'a'..=b'f').contains(&c))
}

impl Artifacts {
    /// Removes the objects that are too old, and calls `removed` for each.
    pub(crate) async fn sweep(&self, ages: Ages, now: SystemTime, removed: impl Fn(Kind)) -> Result<(), Error> {
        let store = &self.0.store;
        let found = tokio::time::timeout(STORE_TIMEOUT, store.list_with_delimiter(Some(&self.0.prefix)));
        for folder in found.await.map_err(|_| Error::Late)??.common_prefixes {
            let Some(Ok(tenant)) = folder.filename().map(TenantName::new) else { continue };
            for kind in Kind::ALL {
                if let Some(age) = ages.of(kind) {
                    self.sweep_folder(&tenant, kind, age, now, &removed).await?;
                }
            }
        }
        Ok(())
    }

    async fn sweep_folder(
        &self,
        tenant: &TenantName,
        kind: Kind,
        age: Duration,
        now: SystemTime,
        removed: impl Fn(Kind),
    ) -> Result<(), Error> {
        let below = self.path(tenant, kind.folder().unwrap_or_default())?;
        let depth = below.parts().count() + 1;
        let mut objects = self.0.store.list(Some(&below));
        loop {
            let next = tokio::time::timeout(STORE_TIMEOUT, objects.try_next()).await.map_err(|_| Error::Late)??;
            let Some(object) = next else { return Ok(()) };
            // The list of a tenant's artifacts also has the objects of the other kinds, which lie deeper.
            let ours = object.location.parts().count() == depth && object.location.filename().is_some_and(is_digest);
            if ours && is_old(&object, age, now) && self.remove_old(&object.location, age, now).await? {
                removed(kind);
            }
        }
    }

    /// Removes an object if it is still old. It may have been stored again while the list was read.
    async fn remove_old(&self, at: &Path, age: Duration, now: SystemTime) -> Result<bool, Error> {
        let work = async {
            let meta = self.0.store.head(at).await?;
            if !is_old(&meta, age, now) {
                return Ok(false);
            }
            self.0.store.delete(at).await?;
            Ok(true)
        };
        match tokio::time::timeout(STORE_TIMEOUT, work).await.map_err(|_| Error::Late)? {
            // Another process was faster.
            Err(error) if Error::is_missing(&error) => Ok(false),
            done => done,
        }
    }
}

fn is_old(object: &ObjectMeta, age: Duration, now: SystemTime) -> bool {
    now.duration_since(object.last_modified.into()).is_ok_and(|old| old > age)
}
