//! The server for artifacts that are stored in a folder, for everybody who has a signed URL:
//! `GET /artifacts/<tenant>/<id>?name=…&expires=…&signature=…`.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures::StreamExt;
use object_store::ObjectStoreExt;
use object_store::signer::Url;
use thermae_schemas::TenantName;

use super::sign::Grant;
use super::{Artifacts, Error, Urls, media_type};

/// The worker's routes besides health and metrics. The URLs of an S3 store lead to the store, so these routes then find
/// nothing.
pub fn routes(artifacts: Artifacts) -> Router {
    Router::new().route("/artifacts/{tenant}/{id}", get(fetch)).with_state(artifacts)
}

/// Why an object is not served.
#[derive(Debug, Clone, Copy)]
enum Refusal {
    Signature,
    Expired,
    Missing,
    Unavailable,
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, code, message) = match self {
            Self::Signature => (StatusCode::FORBIDDEN, "bad_signature", "The URL was not signed by this fleet."),
            Self::Expired => (StatusCode::FORBIDDEN, "url_expired", "The URL has expired."),
            Self::Missing => (StatusCode::NOT_FOUND, "artifact_gone", "The store does not have it any more."),
            Self::Unavailable => (StatusCode::BAD_GATEWAY, "store_unavailable", "The store can't be read."),
        };
        let body = serde_json::json!({ "error": { "code": code, "message": message } });
        (status, [(header::CONTENT_TYPE, "application/json")], format!("{body}\n")).into_response()
    }
}

async fn fetch(
    State(artifacts): State<Artifacts>,
    Path((tenant, id)): Path<(String, String)>,
    uri: Uri,
) -> Result<Response, Refusal> {
    let Urls::Own { key, .. } = &artifacts.0.urls else { return Err(Refusal::Missing) };
    let (mut name, mut expires, mut signature) = Default::default();
    let query = Url::parse("http://here").map_err(|_| Refusal::Signature)?;
    let query = query.join(&format!("?{}", uri.query().unwrap_or_default())).map_err(|_| Refusal::Signature)?;
    for (field, value) in query.query_pairs() {
        match &*field {
            "name" => name = value.into_owned(),
            "expires" => expires = value.into_owned(),
            "signature" => signature = value.into_owned(),
            _ => {}
        }
    }
    let expires = expires.parse().map_err(|_| Refusal::Signature)?;
    let grant = Grant { tenant: &tenant, key: &id, name: &name, expires };
    if !key.signed(&grant, &signature) {
        return Err(Refusal::Signature);
    }
    // Only a URL that the fleet signed is told that it has expired.
    if SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() >= expires {
        return Err(Refusal::Expired);
    }
    let tenant = TenantName::new(tenant).map_err(|_| Refusal::Missing)?;
    let path = artifacts.path(&tenant, &id).map_err(|_| Refusal::Missing)?;
    let found = artifacts.0.store.get(&path).await.map_err(|error| {
        let error = Error::from(error);
        if error.is_missing() {
            return Refusal::Missing;
        }
        tracing::error!(%error, "an artifact can't be read");
        Refusal::Unavailable
    })?;
    let headers = [
        (header::CONTENT_TYPE, media_type(&name)),
        (header::CONTENT_LENGTH, found.meta.size.to_string()),
        (header::CONTENT_DISPOSITION, disposition(&name)),
        // The code of a job made the content. No browser should take it for a page of ours.
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (header::CONTENT_SECURITY_POLICY, "sandbox".to_owned()),
        (header::CACHE_CONTROL, "private, no-store".to_owned()),
    ];
    Ok((headers, Body::from_stream(found.into_stream().fuse())).into_response())
}

/// Makes browsers save the file under this name, and never show it in place (RFC 6266, RFC 8187).
pub(super) fn disposition(name: &str) -> String {
    let encoded: String = name
        .bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' => char::from(byte).to_string(),
            other => format!("%{other:02X}"),
        })
        .collect();
    format!("attachment; filename*=UTF-8''{encoded}")
}
