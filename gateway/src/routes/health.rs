//! Health and metrics.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use prometheus::{Encoder, TextEncoder};
use serde_json::json;

use crate::hold::Holder;
use crate::problem::Problem;
use crate::server::Shared;

pub(super) fn alive() -> Response {
    let mut answer = Response::new(Body::from("ok\n"));
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    answer
}

pub(super) fn ready(shared: &Shared) -> Response {
    let body = json!({ "ready": shared.health.is_ready(), "conditions": shared.health.states() });
    let mut answer = Response::new(Body::from(format!("{body}\n")));
    if !shared.health.is_ready() {
        *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

pub(super) fn metrics(shared: &Shared, holder: &Holder) -> Result<Response, Problem> {
    let (encoder, mut text) = (TextEncoder::new(), Vec::new());
    for registry in &shared.registries {
        let encoded = encoder.encode(&registry.gather(), &mut text);
        encoded.map_err(|error| Problem::new("internal_error", format!("the metrics: {error}")))?;
    }
    holder.text(encoder.format_type(), text)
}
