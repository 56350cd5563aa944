//! Removes objects that are too old from the store. [`crate::retention`] calls this regularly.
//!
//! Only objects with names of the fleet's own are ever removed: `<tenant>/<sha256>`, `<tenant>/outcomes/<sha256>`,
//! `<tenant>/sessions/<sha256>`, and those of checkpoints, which say themselves when they expire.

use std::time::{Duration, SystemTime};

use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStoreExt};
use thermae_backplane::registry::SESSION_TTL;
use thermae_schemas::{ArtifactId, TenantName};

use super::{Artifacts, Error, STORE_TIMEOUT, checkpoint};

/// The kinds of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An artifact, or content that a client stored.
    Artifact,
    /// An outcome.
    Outcome,
    /// The list of a session's files, which earlier releases stored.
    Session,
    /// A checkpoint.
    Checkpoint,
}

impl Kind {
    /// The kinds whose objects lie in one folder and have an age.
    const AGED: [Self; 3] = [Self::Artifact, Self::Outcome, Self::Session];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Artifact => "artifact",
            Self::Outcome => "outcome",
            Self::Session => "session",
            Self::Checkpoint => "checkpoint",
        }
    }

    /// The folder below a tenant's part; `None` for the part itself.
    fn folder(self) -> Option<&'static str> {
        match self {
            Self::Artifact | Self::Checkpoint => None,
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
    /// Outcomes, and lists of sessions' files: as long as the registry can name one.
    pub records: Duration,
}

impl Ages {
    /// `keep` is the option of artifacts. `record_ttl` is how long the registry keeps records.
    pub(crate) fn new(keep: Option<Duration>, record_ttl: Duration) -> Self {
        Self { artifacts: keep, records: record_ttl.max(SESSION_TTL) }
    }

    fn of(self, kind: Kind) -> Option<Duration> {
        if kind == Kind::Artifact { self.artifacts } else { Some(self.records) }
    }
}

/// Removes the objects that are too old, and calls `removed` for each.
pub(crate) async fn sweep(
    artifacts: &Artifacts,
    ages: Ages,
    now: SystemTime,
    removed: impl Fn(Kind),
) -> Result<(), Error> {
    let store = &artifacts.0.store;
    let found = tokio::time::timeout(STORE_TIMEOUT, store.list_with_delimiter(Some(&artifacts.0.prefix)));
    for folder in found.await.map_err(|_| Error::Late)??.common_prefixes {
        let Some(Ok(tenant)) = folder.filename().map(TenantName::new) else { continue };
        for kind in Kind::AGED {
            if let Some(age) = ages.of(kind) {
                sweep_folder(artifacts, &tenant, kind, age, now, &removed).await?;
            }
        }
        checkpoint::sweep(artifacts, &tenant, now, || removed(Kind::Checkpoint)).await?;
    }
    Ok(())
}

async fn sweep_folder(
    artifacts: &Artifacts,
    tenant: &TenantName,
    kind: Kind,
    age: Duration,
    now: SystemTime,
    removed: impl Fn(Kind),
) -> Result<(), Error> {
    let below = artifacts.path(tenant, kind.folder().unwrap_or_default())?;
    let depth = below.parts().count() + 1;
    let mut objects = artifacts.0.store.list(Some(&below));
    loop {
        let next = tokio::time::timeout(STORE_TIMEOUT, objects.try_next()).await.map_err(|_| Error::Late)??;
        let Some(object) = next else { return Ok(()) };
        // The list of a tenant's artifacts also has the objects of the other kinds, which lie deeper.
        let ours = object.location.parts().count() == depth
            && object.location.filename().is_some_and(|name| ArtifactId::new(name).is_ok());
        if ours && is_old(&object, age, now) && remove_old(artifacts, &object.location, age, now).await? {
            removed(kind);
        }
    }
}

/// Removes an object if it is still old. It may have been stored again while the list was read.
async fn remove_old(artifacts: &Artifacts, at: &Path, age: Duration, now: SystemTime) -> Result<bool, Error> {
    let work = async {
        let meta = artifacts.0.store.head(at).await?;
        if !is_old(&meta, age, now) {
            return Ok(false);
        }
        artifacts.0.store.delete(at).await?;
        Ok(true)
    };
    match tokio::time::timeout(STORE_TIMEOUT, work).await.map_err(|_| Error::Late)? {
        // Another process was faster.
        Err(error) if Error::is_missing(&error) => Ok(false),
        done => done,
    }
}

fn is_old(object: &ObjectMeta, age: Duration, now: SystemTime) -> bool {
    now.duration_since(object.last_modified.into()).is_ok_and(|old| old > age)
}
