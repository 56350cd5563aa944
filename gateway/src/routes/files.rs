//! Files of live sessions.

use std::ops::Range;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use futures::stream;
use thermae_schemas::{PathText, SessionName, WriteMode};

use super::empty;
use crate::call::Call;
use crate::problem::Problem;
use crate::range::{Part, part};
use crate::service::{FileRead, etag, path, regular};

/// What an entry of a listing takes on its way through the gateway, as JSON and read.
const PER_ENTRY: usize = 1 << 10;
/// What a listing takes, before its length is known.
const LISTING: usize = 2 << 20;

pub(super) async fn list(call: Call) -> Result<Response, Problem> {
    let session = call.name("name")?;
    listed(&call, session, ".".into()).await
}

async fn listed(call: &Call, session: SessionName, path: PathText) -> Result<Response, Problem> {
    let (depth, most) = (call.query("depth")?.unwrap_or(1), call.query("most")?);
    let mut held = call.holder.hold(LISTING)?;
    let listing = call.service.sessions.list(session, path, depth, most).await?;
    call.holder.grow(&mut held, (listing.entries.len() * PER_ENTRY).saturating_sub(LISTING))?;
    call.holder.json(StatusCode::OK, &listing)
}

/// The session, and the path of the file in it.
pub(super) fn place(call: &Call) -> Result<(SessionName, PathText), Problem> {
    let from_root = call.query("root")?.unwrap_or(false);
    Ok((call.name("name")?, path(call.part("path"), from_root)?))
}

pub(super) async fn read(call: Call) -> Result<Response, Problem> {
    let (session, path) = place(&call)?;
    let link = call.query("link")?.unwrap_or(false);
    let service = &call.service;
    match call.query::<String>("op")?.as_deref() {
        None => {}
        Some("stat") => return call.holder.json(StatusCode::OK, &service.sessions.stat(session, path, link).await?),
        Some("list") => return listed(&call, session, path).await,
        Some(other) => return Err(Problem::new("bad_parameter", format!("op: `stat` or `list`, not {other:?}"))),
    }
    let stat = service.sessions.stat(session.clone(), path.clone(), false).await?;
    regular(&stat)?;
    let tag = etag(&stat);
    let asked = asked(&call, &tag)?;
    let (status, range) = match part(asked.as_deref(), stat.size) {
        Part::Whole => (StatusCode::OK, 0..stat.size),
        Part::Of(range) => (StatusCode::PARTIAL_CONTENT, range),
        Part::Beyond => return beyond(stat.size),
    };
    let content = service.sessions.read(session, path, range.start, range.end - range.start).await?;
    let mut answer = Response::new(Body::from_stream(pieces(content)));
    describe(answer.headers_mut(), &range, stat.size, &tag, "application/octet-stream");
    *answer.status_mut() = status;
    Ok(answer)
}

/// The header `Range`, unless `If-Range` says that the file is another now.
pub(super) fn asked(call: &Call, tag: &str) -> Result<Option<String>, Problem> {
    let (range, only_if) = (call.header(header::RANGE)?, call.header(header::IF_RANGE)?);
    Ok(range.filter(|_| only_if.is_none_or(|same| same == tag)).map(str::to_owned))
}

/// The answer to a range that the file doesn't have.
pub(super) fn beyond(size: u64) -> Result<Response, Problem> {
    Err(Problem::new("range_not_satisfiable", format!("the file has {size} bytes")).with("size", size))
}

/// The headers of a file's content. The code of a job made it: no browser should take it for a page of ours.
pub(super) fn describe(headers: &mut HeaderMap, range: &Range<u64>, size: u64, tag: &str, kind: &str) {
    let mut set = |name, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    };
    set(header::CONTENT_TYPE, kind);
    set(header::CONTENT_LENGTH, &(range.end - range.start).to_string());
    set(header::ACCEPT_RANGES, "bytes");
    set(header::ETAG, tag);
    set(header::CONTENT_DISPOSITION, "attachment");
    set(header::CONTENT_SECURITY_POLICY, "sandbox");
    if *range != (0..size) {
        set(header::CONTENT_RANGE, &format!("bytes {}-{}/{size}", range.start, range.end.saturating_sub(1)));
    }
}

fn pieces(content: FileRead) -> impl stream::Stream<Item = Result<Bytes, std::io::Error>> + Send {
    stream::unfold(Some(content), |content| async move {
        let mut content = content?;
        match content.piece().await {
            Ok(Some(piece)) => Some((Ok(piece), Some(content))),
            Ok(None) => None,
            // The head of the answer is gone: only the connection can tell.
            Err(problem) => Some((Err(std::io::Error::other(problem.detail)), None)),
        }
    })
}

pub(super) async fn write(mut call: Call) -> Result<Response, Problem> {
    let (session, path) = place(&call)?;
    match call.query::<String>("op")?.as_deref() {
        None => {}
        Some("make_dir") => {
            call.service.sessions.make_dir(session, path).await?;
            return Ok(empty(StatusCode::NO_CONTENT));
        }
        Some(other) => return Err(Problem::new("bad_parameter", format!("op: `make_dir`, not {other:?}"))),
    }
    let mode = mode(&call)?;
    let permissions = permissions(&call)?;
    make_parents(&call, &session, &path).await?;
    let change = call.service.sessions.write(session, path, mode, permissions)?;
    // Dropping the change cancels it: then everybody sees the old file.
    while let Some(piece) = call.piece().await? {
        if !change.give(piece).await {
            break;
        }
    }
    call.holder.json(StatusCode::OK, &change.finish().await?)
}

fn mode(call: &Call) -> Result<WriteMode, Problem> {
    let bad = |why: &str| Err(Problem::new("bad_parameter", why));
    let (mode, offset) = (call.query::<String>("mode")?, call.query::<u64>("offset")?);
    let only_new = match call.header(header::IF_NONE_MATCH)? {
        None => false,
        Some("*") => true,
        Some(_) => return Err(Problem::new("bad_header", "If-None-Match: only `*`")),
    };
    match (mode.as_deref(), offset, only_new) {
        (None | Some("truncate"), None, false) => Ok(WriteMode::Truncate),
        (None | Some("create_new"), None, _) => Ok(WriteMode::CreateNew),
        (Some("append"), None, false) => Ok(WriteMode::Append),
        (None, Some(offset), false) => Ok(WriteMode::At(offset)),
        (_, Some(_), _) => bad("offset goes with no mode"),
        (Some(_), None, true) => bad("If-None-Match goes with no other mode than `create_new`"),
        (Some(other), None, false) => bad(&format!("mode: `truncate`, `append` or `create_new`, not {other:?}")),
    }
}

/// The parameter `permissions`.
pub(super) fn permissions(call: &Call) -> Result<Option<u32>, Problem> {
    call.query::<String>("permissions")?.map(|text| octal(&text)).transpose()
}

/// Makes the directories above a file, if the parameter `parents` asks for it.
pub(super) async fn make_parents(call: &Call, session: &SessionName, path: &PathText) -> Result<(), Problem> {
    let wanted = call.query("parents")?.unwrap_or(false);
    match parent(path).filter(|_| wanted) {
        Some(parent) => call.service.sessions.make_dir(session.clone(), parent).await,
        None => Ok(()),
    }
}

fn octal(text: &str) -> Result<u32, Problem> {
    let number = u32::from_str_radix(text, 8).ok().filter(|bits| *bits <= 0o7777);
    number.ok_or_else(|| Problem::new("bad_parameter", format!("permissions: an octal number like 644, not {text:?}")))
}

/// The directory of a path, if it has one.
fn parent(path: &PathText) -> Option<PathText> {
    let slash = path.0.iter().rposition(|byte| *byte == b'/').filter(|slash| *slash > 0)?;
    Some(path.0[..slash].into())
}

pub(super) async fn remove(call: Call) -> Result<Response, Problem> {
    let (session, path) = place(&call)?;
    call.service.sessions.remove(session, path, call.query("recursive")?.unwrap_or(false)).await?;
    Ok(empty(StatusCode::NO_CONTENT))
}
