//! Capability tokens: mint, narrow, show.

use axum::http::StatusCode;
use axum::response::Response;

use crate::call::Call;
use crate::problem::Problem;
use crate::service::narrow as narrowed;

pub(super) async fn mint(mut call: Call) -> Result<Response, Problem> {
    let (text, _held) = call.value().await?;
    call.holder.json(StatusCode::CREATED, &call.shared.options.tokens.mint(&text, &call.caller.tenant)?)
}

pub(super) async fn narrow(mut call: Call) -> Result<Response, Problem> {
    let (text, _held) = call.value().await?;
    call.holder.json(StatusCode::CREATED, &narrowed(&text)?)
}

pub(super) async fn show(mut call: Call) -> Result<Response, Problem> {
    let (text, _held) = call.value().await?;
    let (tokens, tenant) = (call.shared.options.tokens.clone(), call.caller.tenant.clone());
    // Keys and revocations are in files.
    let shown = tokio::task::spawn_blocking(move || tokens.show(&text, &tenant)).await;
    call.holder.json(StatusCode::OK, &shown.map_err(|error| Problem::new("internal_error", error.to_string()))??)
}
