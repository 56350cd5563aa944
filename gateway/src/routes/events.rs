//! The events of a run, as a stream.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use futures::stream;
use serde_json::json;
use thermae_schemas::JobId;

use super::empty;
use crate::call::Call;
use crate::problem::Problem;
use crate::server::{Leave, Shared};
use crate::service::{Follow, Next};
use crate::sse;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

pub(super) async fn follow(call: Call) -> Result<Response, Problem> {
    let id: JobId = call.name("id")?;
    let after = match call.header(LAST_EVENT_ID)? {
        None | Some("") => 0,
        Some(text) => {
            let bad = || Problem::new("bad_header", format!("Last-Event-ID: {text:?} is not the number of an event"));
            // Rust reads numbers with a plus sign, too.
            if text.starts_with('+') {
                return Err(bad());
            }
            text.parse().map_err(|_| bad())?
        }
    };
    // A browser's EventSource connects again after each end, until it gets this.
    let Some(follow) = call.service.follow(&id, after)? else { return Ok(empty(StatusCode::NO_CONTENT)) };
    Ok(streamed(events(follow, &call)))
}

/// An answer that streams events.
pub(super) fn streamed(events: impl stream::Stream<Item = Result<Bytes, std::io::Error>> + Send + 'static) -> Response {
    let mut answer = Response::new(Body::from_stream(events));
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(sse::MEDIA_TYPE));
    answer
}

/// Counts a follower until it is dropped.
struct Counted(Arc<Shared>);

impl Counted {
    fn new(shared: Arc<Shared>) -> Self {
        shared.metrics.followers.inc();
        Self(shared)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        drop(Leave(&self.0.metrics.followers));
    }
}

/// The events of a run, and then a last one if the gateway stops.
fn events(follow: Follow, call: &Call) -> impl stream::Stream<Item = Result<Bytes, std::io::Error>> + Send + use<> {
    let (counted, holder) = (Counted::new(call.shared.clone()), call.holder.clone());
    stream::unfold((Some(follow), counted, holder), |(follow, counted, holder)| async move {
        let mut follow = follow?;
        let shared = &counted.0;
        let (text, goes_on) = match follow.next(shared.options.heartbeat, &shared.draining).await? {
            Next::Event { number, kind, text } => match holder.hold_later(sse::most(&text)).await {
                Ok(held) => (held.carry(sse::event(Some(number), &kind, &text)), true),
                Err(full) => return Some((Err(std::io::Error::other(full.detail)), (None, counted, holder))),
            },
            Next::Gap { from, to } => {
                let gap = json!({ "from": from, "to": to, "missed": to - from + 1 });
                (sse::event(Some(to), "gap", gap.to_string().as_bytes()).into(), true)
            }
            Next::Lost(lost) => {
                let error = json!({ "code": lost.code, "message": lost.message });
                (sse::event(None, "error", error.to_string().as_bytes()).into(), false)
            }
            Next::Nothing if shared.draining.is_cancelled() => {
                let why = json!({ "code": "draining", "message": "The gateway is stopping." });
                (sse::event(None, "closing", why.to_string().as_bytes()).into(), false)
            }
            Next::Nothing => (sse::HEARTBEAT, true),
        };
        Some((Ok(text), (goes_on.then_some(follow), counted, holder)))
    })
}
