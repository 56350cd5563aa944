//! Sends an artifact from the fleet's store.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use thermae_schemas::ArtifactId;
use tokio_util::sync::CancellationToken;

use crate::connection::Shared;
use crate::{Refusal, reply};

/// Most bytes of a frame. A smaller one can be sent sooner.
const PIECE: usize = 256 << 10;

/// Sends the artifact with this id as the client gives credit.
pub(crate) async fn send(
    shared: Arc<Shared>,
    id: u64,
    reference: String,
    cancel: CancellationToken,
) -> Result<(), Refusal> {
    tokio::select! {
        sent = sent(&shared, id, &reference) => sent,
        () = cancel.cancelled() => Err(Refusal::cancelled()),
    }
}

async fn sent(shared: &Shared, id: u64, reference: &str) -> Result<(), Refusal> {
    let opened = shared.opened().await?;
    let store = opened.fleet.store().ok_or_else(|| {
        Refusal::new("no_store", "this fleet's artifacts are fetched by their URLs")
            .advice("fetch the artifact's `url`; url_base in the worker's configuration says where clients reach it")
    })?;
    // The store has more of a tenant than its artifacts, such as checkpoints of its sessions.
    let artifact = ArtifactId::new(reference).map_err(|error| Refusal::new("unknown_ref", error.to_string()))?;
    let (size, mut content) = store.pieces(opened.client.tenant(), &artifact).await?;
    while let Some(piece) = content.next().await {
        let mut piece: Bytes = piece?;
        while !piece.is_empty() {
            let part = piece.split_to(piece.len().min(PIECE));
            if !shared.outbox.writable(id).await || !shared.outbox.offer(id, reply::data(id, part)) {
                return Err(Refusal::closed());
            }
        }
    }
    shared.outbox.finish(id, [reply::done_size(id, size)]);
    Ok(())
}
