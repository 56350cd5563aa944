//! The results of a batch, as lines of JSON.

use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{self, FuturesUnordered, Stream, StreamExt};
use serde_json::json;
use thermae_schemas::BatchLine;

use super::{Batch, Batches, Entry};
use crate::service::Run;
use crate::service::views::{LostView, RunView};

impl Batches {
    /// The results as lines of JSON, in the order in which the runs end. Each has the id of the job, and its outcome or
    /// an `error`. If the gateway stops before the last of them, the last line has an error and no id.
    pub(crate) fn results(&self, batch: Arc<Batch>) -> impl Stream<Item = Bytes> + Send + use<> {
        let lines = FuturesUnordered::new();
        for (at, entry) in batch.entries.iter().enumerate() {
            let (batch, run) = (batch.clone(), self.run(entry));
            lines.push(async move { line(&batch.entries[at], run).await });
        }
        let draining = self.draining.clone();
        stream::unfold(lines, move |mut lines| {
            let draining = draining.clone();
            async move {
                tokio::select! {
                    biased;
                    line = lines.next() => line.map(|line| (line, lines)),
                    () = draining.cancelled() => Some((stopped(), FuturesUnordered::new())),
                }
            }
        })
    }
}

/// The line of a run, as soon as it has ended.
async fn line(entry: &Entry, run: Option<Arc<Run>>) -> Bytes {
    if let Some(run) = &run {
        run.settled(None).await;
    }
    let view = run.map(|run| run.view());
    let (outcome, error) = match view {
        Some(Ok(RunView { outcome, error, .. })) => (outcome, error),
        Some(Err(problem)) => (None, Some(problem.into())),
        None => (None, entry.refused.get().cloned()),
    };
    let text = match outcome {
        Some(outcome) => serde_json::to_vec(&BatchLine { id: entry.id.as_str().to_owned(), outcome }),
        None => serde_json::to_vec(&json!({ "id": entry.id, "error": error.unwrap_or_else(LostView::forgotten) })),
    };
    let mut text = text.unwrap_or_default();
    text.push(b'\n');
    text.into()
}

/// The last line of a gateway that stops.
fn stopped() -> Bytes {
    format!("{}\n", json!({ "error": { "code": "draining", "message": "the gateway is stopping" } })).into()
}
