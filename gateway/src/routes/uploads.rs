//! Uploads that can be continued, by tus 1.0 (<https://tus.io/protocols/resumable-upload>): create, look, send, give
//! up.

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::{Bytes, BytesMut};

use super::files::{make_parents, permissions, place};
use super::{empty, located};
use crate::call::Call;
use crate::problem::Problem;
use crate::service::{Upload, Wanted};

/// The version of tus that the gateway speaks.
pub(crate) const VERSION: &str = "1.0.0";
/// The header that names the version, in requests and in answers.
pub(crate) const TUS_RESUMABLE: HeaderName = HeaderName::from_static("tus-resumable");
/// The header that names the versions that the gateway speaks, if a request names another one.
pub(crate) const TUS_VERSION: HeaderName = HeaderName::from_static("tus-version");
/// Media type of parts.
pub(crate) const PART: &str = "application/offset+octet-stream";

const UPLOAD_OFFSET: HeaderName = HeaderName::from_static("upload-offset");
const UPLOAD_LENGTH: HeaderName = HeaderName::from_static("upload-length");

/// Bytes that are written at once. After a broken connection, at most so many must be sent again.
const BLOCK: usize = 256 << 10;

pub(super) async fn create(call: Call) -> Result<Response, Problem> {
    speaks_tus(&call)?;
    let length = number(&call, UPLOAD_LENGTH)?;
    let (session, path) = place(&call)?;
    let sha256 = call.query::<String>("sha256")?;
    if sha256.as_ref().is_some_and(|text| text.len() != 64 || text.bytes().any(|byte| !is_digit(byte))) {
        return Err(Problem::new("bad_parameter", "sha256: 64 hexadecimal digits, in lower case"));
    }
    let permissions = permissions(&call)?;
    make_parents(&call, &session, &path).await?;
    let upload = call.service.uploads.create(Wanted { session, path, permissions, length, sha256 }).await?;
    Ok(located(told(&call, &upload, StatusCode::CREATED).await?, "uploads", &upload.id))
}

fn is_digit(byte: u8) -> bool {
    byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)
}

pub(super) async fn get(call: Call) -> Result<Response, Problem> {
    let upload = call.service.uploads.get(call.part("id"))?;
    told(&call, &upload, StatusCode::OK).await
}

pub(super) async fn send(mut call: Call) -> Result<Response, Problem> {
    speaks_tus(&call)?;
    let kind = call.header(header::CONTENT_TYPE)?.unwrap_or_default();
    if kind != PART {
        return Err(Problem::new("unsupported_media_type", format!("the body has the type {kind:?}, not {PART}")));
    }
    let mut offset = number(&call, UPLOAD_OFFSET)?;
    let upload = call.service.uploads.get(call.part("id"))?;
    let service = call.service.clone();
    let mut block = BytesMut::new();
    loop {
        let piece = call.piece().await;
        let (rest, ended) = match &piece {
            Ok(Some(piece)) => (piece.clone(), false),
            // What came before the connection broke counts.
            Ok(None) | Err(_) => (Bytes::new(), true),
        };
        block.extend_from_slice(&rest);
        while block.len() >= BLOCK || (ended && !block.is_empty()) {
            let next = block.split_to(block.len().min(BLOCK)).freeze();
            offset = upload.append(&service.uploads.tasks, offset, next).await?;
        }
        piece?;
        if ended {
            break;
        }
    }
    // A part without a byte completes an upload that has all of them.
    offset = upload.append(&service.uploads.tasks, offset, Bytes::new()).await?;
    let mut answer = empty(StatusCode::NO_CONTENT);
    answer.headers_mut().insert(UPLOAD_OFFSET, HeaderValue::from(offset));
    Ok(answer)
}

pub(super) async fn give_up(call: Call) -> Result<Response, Problem> {
    speaks_tus(&call)?;
    call.service.uploads.give_up(call.part("id")).await?;
    Ok(empty(StatusCode::NO_CONTENT))
}

/// The upload as it is.
async fn told(call: &Call, upload: &Upload, status: StatusCode) -> Result<Response, Problem> {
    let view = upload.view().await?;
    let mut answer = call.holder.json(status, &view)?;
    for (name, value) in [(UPLOAD_OFFSET, view.offset), (UPLOAD_LENGTH, view.length)] {
        answer.headers_mut().insert(name, HeaderValue::from(value));
    }
    Ok(answer)
}

fn speaks_tus(call: &Call) -> Result<(), Problem> {
    match call.header(TUS_RESUMABLE)? {
        Some(VERSION) => Ok(()),
        other => {
            let found = other.map_or_else(|| "missing".to_owned(), |version| format!("{version:?}"));
            Err(Problem::new("unsupported_tus", format!("Tus-Resumable is {found}, and not {VERSION:?}")))
        }
    }
}

/// A header that has a number.
fn number(call: &Call, name: HeaderName) -> Result<u64, Problem> {
    let bad = |why: &str| Problem::new("bad_header", format!("{name}: {why}"));
    let text = call.header(name.clone())?.ok_or_else(|| bad("it is missing"))?;
    let digits = text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
    digits.ok_or_else(|| bad("it is no number"))
}
