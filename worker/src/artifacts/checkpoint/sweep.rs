//! Removes checkpoints that have expired, and chunks that belong to none.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, SystemTime};

use futures::TryStreamExt;
use object_store::{ObjectMeta, ObjectStoreExt};
use thermae_schemas::TenantName;

use super::super::{Artifacts, Error, STORE_TIMEOUT};
use super::{FOLDER, LARGEST_MANIFEST, MANIFEST, Manifest, life_of};

/// How long objects stay that are not needed any more. A checkpoint that is under way has chunks that no manifest names
/// yet, and a session that begins may read those of the manifest before.
const GRACE: Duration = Duration::from_secs(3600);

/// Sweeps the checkpoints of a tenant, and calls `removed` for each checkpoint that goes.
pub(in super::super) async fn sweep(
    artifacts: &Artifacts,
    tenant: &TenantName,
    now: SystemTime,
    removed: impl Fn(),
) -> Result<(), Error> {
    let path = artifacts.path(tenant, FOLDER)?;
    let found = tokio::time::timeout(STORE_TIMEOUT, artifacts.0.store.list_with_delimiter(Some(&path)));
    for session in found.await.map_err(|_| Error::Late)??.common_prefixes {
        let mut lives: BTreeMap<u64, Vec<ObjectMeta>> = BTreeMap::new();
        let mut objects = artifacts.0.store.list(Some(&session));
        let depth = session.parts().count() + 2;
        while let Some(object) =
            tokio::time::timeout(STORE_TIMEOUT, objects.try_next()).await.map_err(|_| Error::Late)??
        {
            let parts: Vec<_> = object.location.parts().collect();
            let life = parts.len().checked_sub(2).and_then(|at| life_of(parts[at].as_ref()));
            if let Some(life) = life.filter(|_| parts.len() == depth) {
                lives.entry(life).or_default().push(object);
            }
        }
        sweep_session(artifacts, lives, now, &removed).await?;
    }
    Ok(())
}

/// Sweeps one session. Of its lives, the highest one with a manifest counts.
async fn sweep_session(
    artifacts: &Artifacts,
    lives: BTreeMap<u64, Vec<ObjectMeta>>,
    now: SystemTime,
    removed: impl Fn(),
) -> Result<(), Error> {
    let mut superseded = false;
    for objects in lives.values().rev() {
        let manifest = objects.iter().find(|object| object.location.filename() == Some(MANIFEST));
        let mut named = HashSet::new();
        if let Some(object) = manifest {
            let old = superseded && is_old(object, now);
            match read(artifacts, object).await? {
                Some(manifest) if !old && manifest.lasts(now - GRACE) => {
                    named.extend(manifest.chunks.into_iter().map(|chunk| chunk.id));
                }
                // A later release may know what it means.
                None if !old => continue,
                _ => {
                    delete(artifacts, object).await?;
                    removed();
                }
            }
            superseded = true;
        }
        for object in objects.iter().filter(|object| object.location.filename() != Some(MANIFEST)) {
            let needed = object.location.filename().is_some_and(|name| named.contains(name));
            if !needed && is_old(object, now) {
                delete(artifacts, object).await?;
            }
        }
        artifacts.tidy(objects.first().map(|object| &object.location));
    }
    Ok(())
}

/// Reads a manifest. `None` if this release can't.
async fn read(artifacts: &Artifacts, object: &ObjectMeta) -> Result<Option<Manifest>, Error> {
    if object.size > LARGEST_MANIFEST {
        return Ok(None);
    }
    let read = async { artifacts.0.store.get(&object.location).await?.bytes().await };
    match tokio::time::timeout(STORE_TIMEOUT, read).await.map_err(|_| Error::Late)?.map_err(Error::from) {
        // Its session was reset meanwhile.
        Err(error) if error.is_missing() => Ok(None),
        read => Ok(serde_json::from_slice(&read?).ok()),
    }
}

/// Removes an object, unless it was stored again after the list was read. If it is gone already, this is no error.
async fn delete(artifacts: &Artifacts, object: &ObjectMeta) -> Result<(), Error> {
    let store = &artifacts.0.store;
    // Of what is removed, nothing was stored within the last hour. Some stores give whole seconds here, and finer times
    // in their lists.
    let listed = SystemTime::from(object.last_modified) + Duration::from_secs(1);
    let work = async {
        if SystemTime::from(store.head(&object.location).await?.last_modified) < listed {
            store.delete(&object.location).await?;
        }
        Ok::<_, object_store::Error>(())
    };
    match tokio::time::timeout(STORE_TIMEOUT, work).await.map_err(|_| Error::Late)?.map_err(Error::from) {
        Err(error) if !error.is_missing() => Err(error),
        _ => Ok(()),
    }
}

fn is_old(object: &ObjectMeta, now: SystemTime) -> bool {
    now.duration_since(object.last_modified.into()).is_ok_and(|age| age > GRACE)
}
