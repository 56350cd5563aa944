//! Sends an artifact from the fleet's store.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use tokio_util::sync::CancellationToken;

use crate::connection::Shared;
use crate::{Refusal, reply};

/// Most bytes of a frame. A smaller one can be sent sooner.
const PIECE: usize = 256 << 10;

/// Sends the artifact with this key as the client gives credit.
pub(crate) async fn send(shared: Arc<Shared>, id: u64, key: String, cancel: CancellationToken) -> Result<(), Refusal> {
    tokio::select! {
        sent = sent(&shared, id, &key) => sent,
        () = cancel.cancelled() => Err(Refusal::cancelled()),
    }
}

async fn sent(shared: &Shared, id: u64, key: &str) -> Result<(), Refusal> {
    let opened = shared.opened().await?;
    let store = opened.fleet.store().ok_or_else(|| {
        Refusal::new("no_store", "this fleet's artifacts are fetched by their URLs")
            .advice("fetch the artifact's `url`; url_base in the worker's configuration says where clients reach it")
    })?;
    let (size, mut content) = store.pieces(opened.client.tenant(), key).await?;
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
