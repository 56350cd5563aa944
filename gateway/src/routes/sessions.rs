//! Sessions: list, close.

use axum::http::StatusCode;
use axum::response::Response;
use thermae_schemas::PoolName;

use super::{empty, json};
use crate::call::Call;
use crate::problem::Problem;
use crate::service::SessionsView;

pub(super) async fn list(call: Call) -> Result<Response, Problem> {
    json(StatusCode::OK, &SessionsView { sessions: call.service.sessions.all().await? })
}

pub(super) async fn close(call: Call) -> Result<Response, Problem> {
    let (name, pool) = (call.name("name")?, call.query::<PoolName>("pool")?);
    call.service.sessions.close(name, pool).await?;
    Ok(empty(StatusCode::NO_CONTENT))
}
