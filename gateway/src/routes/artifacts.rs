//! Artifacts of runs.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use thermae_schemas::JobId;

use super::empty;
use super::files::{asked, beyond, describe};
use crate::call::Call;
use crate::problem::Problem;
use crate::range::{Part, part};
use crate::service::{Content, artifact, content};

pub(super) async fn get(call: Call) -> Result<Response, Problem> {
    let id: JobId = call.name("id")?;
    let service = &call.service;
    let artifact = artifact(service, &id, call.part("name"), call.query("root")?.unwrap_or(false))?;
    let (size, tag) = (artifact.size, format!("\"{}\"", artifact.sha256));
    let asked = asked(&call, &tag)?;
    let (status, range) = match part(asked.as_deref(), size) {
        Part::Whole => (StatusCode::OK, 0..size),
        Part::Of(range) => (StatusCode::PARTIAL_CONTENT, range),
        Part::Beyond => return beyond(size),
    };
    let body = match content(service, &artifact, range.clone()).await? {
        Content::Pieces(pieces) => Body::from_stream(pieces),
        Content::Inline(bytes) => Body::from(bytes),
        Content::At(url) => {
            let mut answer = empty(StatusCode::TEMPORARY_REDIRECT);
            let url = HeaderValue::from_str(&url);
            answer.headers_mut().insert(
                header::LOCATION,
                url.map_err(|_| Problem::new("fleet_failed", "the URL of the artifact can't be sent"))?,
            );
            return Ok(answer);
        }
    };
    let mut answer = Response::new(body);
    describe(answer.headers_mut(), &range, size, &tag, &artifact.media_type);
    *answer.status_mut() = status;
    Ok(answer)
}
