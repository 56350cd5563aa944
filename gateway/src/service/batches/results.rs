//! The results of a batch, in the order in which its runs end.

use std::sync::Arc;

use futures::stream::{self, Stream};
use serde::Serialize;
use thermae_schemas::JobId;

use super::{Batch, Batches};
use crate::service::views::{LostView, OutcomeText, RunView};

/// A line of the results: as [`thermae_schemas::BatchLine`], or with an `error`.
#[derive(Debug, Serialize)]
pub(crate) struct ResultLine {
    /// Id of the job. `None`: the error is about all that were still to come.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<JobId>,
    #[serde(flatten)]
    outcome: Option<OutcomeText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<LostView>,
}

impl ResultLine {
    /// Most bytes of the line.
    pub(crate) fn most(&self) -> usize {
        self.outcome.as_ref().map_or(0, |outcome| outcome.0.len()) + 1024
    }
}

impl Batches {
    /// The results, as the runs end. If the gateway stops before the last of them, the last line has an error and no
    /// id. Whoever follows them has a number only: the batch knows which runs have ended.
    pub(crate) fn results(&self, batch: Arc<Batch>) -> impl Stream<Item = ResultLine> + Send + use<> {
        let (runs, draining) = (self.runs.clone(), self.draining.clone());
        let ended = batch.ended.subscribe();
        stream::unfold(Some((0, ended)), move |told| {
            let (batch, runs, draining) = (batch.clone(), runs.clone(), draining.clone());
            async move {
                let (told, mut ended) = told?;
                if told == batch.entries.len() {
                    return None;
                }
                let next = async { ended.wait_for(|ended| ended.len() > told).await.ok().map(|ended| ended[told]) };
                let at = tokio::select! {
                    biased;
                    at = next => at?,
                    () = draining.cancelled() => return Some((stopped(), None)),
                };
                let entry = &batch.entries[at];
                let (outcome, error) = match Self::run_of(&runs, entry).map(|run| run.view()) {
                    Some(RunView { outcome, error, .. }) => (outcome, error),
                    None => (None, Some(entry.refused.get().cloned().unwrap_or_else(LostView::forgotten))),
                };
                Some((ResultLine { id: Some(entry.id.clone()), outcome, error }, Some((told + 1, ended))))
            }
        })
    }
}

/// The last line of a gateway that stops.
fn stopped() -> ResultLine {
    let (code, message) = ("draining".to_owned(), "the gateway is stopping".to_owned());
    ResultLine { id: None, outcome: None, error: Some(LostView { code, message }) }
}
