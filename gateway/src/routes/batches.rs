//! Batches: submit, look, results, cancel.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use futures::StreamExt;
use thermae_schemas::{Scope, json};

use super::located;
use crate::call::Call;
use crate::hold::Holder;
use crate::problem::Problem;
use crate::service::{Batch, BatchState, ResultLine};

/// Media type of lines of JSON.
pub(crate) const LINES: &str = "application/x-ndjson";

pub(super) async fn submit(mut call: Call) -> Result<Response, Problem> {
    let wait = call.wait()?;
    let (text, held) = call.json().await?;
    let batches = &call.service.batches;
    let batch = batches.submit(text, held, &call.caller, &call.holder).await?;
    if let Some(wait) = wait {
        batches.wait(&batch, wait).await;
    }
    Ok(located(told(&call, &batch)?, "batches", batch.id.as_str()))
}

pub(super) async fn get(call: Call) -> Result<Response, Problem> {
    let wait = call.wait()?;
    let batches = &call.service.batches;
    let batch = batches.get(&call.name("id")?)?;
    if let Some(wait) = wait {
        batches.wait(&batch, wait).await;
    }
    call.holder.json(StatusCode::OK, &batches.view(&batch))
}

pub(super) fn results(call: &Call) -> Result<Response, Problem> {
    let batches = &call.service.batches;
    let holder = call.holder.clone();
    let lines = batches.results(batches.get(&call.name("id")?)?).then(move |line| {
        let holder = holder.clone();
        async move { written(&holder, &line).await.map_err(|problem| std::io::Error::other(problem.detail)) }
    });
    let mut answer = Response::new(Body::from_stream(lines));
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(LINES));
    Ok(answer)
}

/// A line, which is held until it is sent.
async fn written(holder: &Holder, line: &ResultLine) -> Result<Bytes, Problem> {
    let held = holder.hold_later(line.most()).await?;
    let text = json::line(line).map_err(|error| Problem::new("internal_error", error.to_string()))?;
    Ok(held.carry(text))
}

pub(super) async fn cancel(call: Call) -> Result<Response, Problem> {
    let wait = call.wait()?;
    let batches = &call.service.batches;
    let batch = batches.get(&call.name("id")?)?;
    batches.cancel(&batch).await?;
    if let Some(wait) = wait {
        batches.wait(&batch, wait).await;
    }
    told(&call, &batch)
}

/// The batch as it is: 202 while runs of it are under way. Callers who may not read runs are not told how they ended.
fn told(call: &Call, batch: &Arc<Batch>) -> Result<Response, Problem> {
    let view = call.service.batches.view(batch);
    let view = if call.caller.scopes.has(Scope::Read) { view } else { view.state_alone() };
    let status = if view.state == BatchState::Underway { StatusCode::ACCEPTED } else { StatusCode::OK };
    call.holder.json(status, &view)
}
