//! Sessions: list, close, checkpoint, restore.

use axum::http::StatusCode;
use axum::response::Response;
use thermae_schemas::PoolName;

use super::empty;
use crate::call::Call;
use crate::problem::Problem;
use crate::service::{Restore, SessionsView};

pub(super) async fn list(call: Call) -> Result<Response, Problem> {
    call.holder.json(StatusCode::OK, &SessionsView { sessions: call.service.sessions.all().await? })
}

pub(super) async fn close(call: Call) -> Result<Response, Problem> {
    let (name, pool) = (call.name("name")?, call.query::<PoolName>("pool")?);
    call.service.sessions.close(name, pool).await?;
    Ok(empty(StatusCode::NO_CONTENT))
}

pub(super) async fn checkpoint(call: Call) -> Result<Response, Problem> {
    let (name, pool, ttl_ms) = (call.name("name")?, call.query("pool")?, ttl_ms(&call)?);
    call.holder.json(StatusCode::OK, &call.service.sessions.checkpoint(name, pool, ttl_ms).await?)
}

pub(super) async fn restore(call: Call) -> Result<Response, Problem> {
    let how = Restore {
        from: call.query("from")?,
        pool: call.query("pool")?,
        language: call.query("language")?,
        ttl_ms: ttl_ms(&call)?,
        reset: call.query("reset")?.unwrap_or(false),
    };
    call.holder.json(StatusCode::CREATED, &call.service.sessions.restore(call.name("name")?, how).await?)
}

/// How long a checkpoint is kept.
fn ttl_ms(call: &Call) -> Result<Option<u64>, Problem> {
    let ttl = call.query("ttl_ms")?;
    if ttl == Some(0) { Err(Problem::new("bad_parameter", "ttl_ms: at least 1")) } else { Ok(ttl) }
}
