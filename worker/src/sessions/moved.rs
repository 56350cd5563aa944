//! The files of a session move with it: a worker that drains keeps them in the store, and the worker that makes the
//! session again puts them back. What the session had in memory is lost, and its jobs are told so; see
//! [`super::Sessions`].

use std::collections::HashMap;
use std::time::Duration;

use thermae_runner::frames::{self, Kind, Omissions};
use thermae_schemas::TenantName;

use super::Session;
use crate::artifacts::{Gatherer, Kept, KeptFile};
use crate::attempt::Prepared;
use crate::conn::{Conn, exit_of};
use crate::context::Context;
use crate::work::Work;

/// How long it may take to keep the files of one session.
const KEEP_TIMEOUT: Duration = Duration::from_secs(20);

/// Beginning of the path of every file of a session.
const BELOW: &[u8] = b"/session/";

/// Keeps the files of a session that ends with its worker. Errors are only logged, because the session is lost in any
/// case.
pub(super) async fn keep(ctx: &Context, session: &Session, conn: &Conn) {
    if !ctx.artifacts.is_lasting() {
        return;
    }
    let kept = tokio::select! {
        kept = tokio::time::timeout(KEEP_TIMEOUT, gather(ctx, session, conn)) => kept.unwrap_or_else(|_| Err("it took too long".into())),
        () = ctx.stop.cancelled() => Err("the worker stops".into()),
    };
    let (tenant, name) = &session.key;
    let stored = match kept {
        Ok(files) if files.is_empty() => return,
        Ok(files) => {
            let count = files.len();
            let stored = ctx.artifacts.keep_session(tenant, name, &Kept::now(files)).await;
            stored.map(|()| count).map_err(|e| e.to_string())
        }
        Err(why) => Err(why),
    };
    match stored {
        Ok(files) => {
            tracing::info!(session = %name, files, "a session's files are kept for a new session of this name")
        }
        Err(why) => tracing::warn!(session = %name, why, "a session's files are lost with it"),
    }
}

/// Stores all files of a session, and returns them.
async fn gather(ctx: &Context, session: &Session, conn: &Conn) -> Result<Vec<KeptFile>, String> {
    let limits = session.pool.options().artifacts.for_runner();
    let tenant: TenantName = session.key.0.clone();
    let mut gatherer = Gatherer::new(ctx.artifacts.clone(), tenant, limits, false);
    let mut executable = HashMap::new();
    let mut running = conn.keep(session.key.1.as_str()).map_err(|e| e.to_string())?;
    loop {
        let frame = running.next().await.ok_or_else(|| running.why())?;
        match frame.kind {
            Kind::Exit => {
                let exit = exit_of(&frame).map_err(|e| e.to_string())?;
                if !matches!(exit.end, frames::End::Exited { .. }) {
                    return Err(format!("{:?}", exit.end));
                }
                if !exit.left_out.is_empty() {
                    let left_out = exit.left_out.list.len() as u64 + exit.left_out.more;
                    tracing::warn!(session = %session.key.1, left_out, "not all of a session's files can be kept");
                }
                break;
            }
            Kind::Artifact => {
                if let Ok(head) = frame.parse::<frames::Artifact>() {
                    executable.insert(head.path, head.executable);
                }
                gatherer.take(&frame).map_err(|e| e.to_string())?;
            }
            Kind::ArtifactData | Kind::ArtifactEnd => gatherer.take(&frame).map_err(|e| e.to_string())?,
            _ => {}
        }
    }
    let gathered = gatherer.finish(Omissions::default()).await;
    // A job's files can't have a name that is not UTF-8, so such a file could not be put back.
    let files = gathered.artifacts.into_iter().filter(|a| a.path_base64.is_none()).filter_map(|artifact| {
        let path = artifact.path.as_bytes().strip_prefix(BELOW)?;
        Some(KeptFile {
            path: String::from_utf8(path.to_vec()).ok()?,
            executable: executable.get(artifact.path.as_bytes()).copied().unwrap_or_default(),
            id: artifact.id,
        })
    });
    Ok(files.collect())
}

/// Puts the files that an earlier session of this name had before the files that the first job brings. Returns how many
/// they are.
pub(super) async fn put_back(ctx: &Context, work: &Work, session: &Session, prepared: &mut Prepared) -> u64 {
    if !ctx.artifacts.is_lasting() {
        return 0;
    }
    let own: u64 = prepared.files.iter().map(|f| f.input.size).sum();
    let room = session.pool.options().disk.0.saturating_sub(own);
    let (tenant, name) = &session.key;
    let reset = work.job.session.as_ref().is_some_and(|s| s.reset);
    let kept = if reset { Ok(Vec::new()) } else { ctx.artifacts.kept_session(tenant, name, room).await };
    match kept {
        Ok(mut kept) => {
            let count = kept.len() as u64;
            kept.append(&mut prepared.files);
            prepared.files = kept;
            count
        }
        Err(error) => {
            tracing::warn!(%error, session = %name, "a session's kept files can't be put back");
            0
        }
    }
}

/// Forgets the kept files, because they are the session's own again.
pub(super) async fn forget_kept(ctx: &Context, session: &Session) {
    if ctx.artifacts.is_lasting() {
        ctx.artifacts.forget_session(&session.key.0, &session.key.1).await;
    }
}
