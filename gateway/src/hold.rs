//! What one request holds of the gateway's memory.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use serde::Serialize;

use crate::budget::Held;
use crate::problem::Problem;
use crate::server::Shared;
use crate::tenants::Lease;

/// What a request takes besides what counts by its length.
pub(crate) const REQUEST: usize = 16 << 10;
/// After this time, an answer that has begun looks again whether there is room for its next part.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Holds memory for one request, for which runs that have ended are forgotten. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Holder {
    shared: Arc<Shared>,
    /// The service of the caller's tenant. `None`: the request is of no tenant.
    service: Option<Arc<Lease>>,
}

impl Holder {
    pub(crate) fn new(shared: Arc<Shared>, service: Option<Arc<Lease>>) -> Self {
        Self { shared, service }
    }

    /// Begins to hold this many bytes.
    pub(crate) fn hold(&self, bytes: usize) -> Result<Held, Problem> {
        let mut held = self.service.as_ref().map_or_else(|| self.shared.budget.hold(), |service| service.hold());
        if bytes > 0 {
            self.grow(&mut held, bytes)?;
        }
        Ok(held)
    }

    /// Holds this many bytes more.
    pub(crate) fn grow(&self, held: &mut Held, more: usize) -> Result<(), Problem> {
        self.make_room(more);
        held.take(more)
    }

    /// As [`Holder::hold`], for an answer that has begun: waits until there is room.
    ///
    /// # Errors
    /// There can't be any.
    pub(crate) async fn hold_later(&self, bytes: usize) -> Result<Held, Problem> {
        let mut held = self.hold(0)?;
        if bytes > self.shared.options.share(self.shared.options.held_bytes) {
            held.take(bytes)?;
        }
        loop {
            self.make_room(bytes);
            if held.grow(bytes) {
                return Ok(held);
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    fn make_room(&self, bytes: usize) {
        self.shared.tenants.make_room(self.service.as_deref().map(|lease| &**lease), bytes);
    }

    /// An answer with a value as JSON, which is held until it is sent.
    pub(crate) fn json(&self, status: StatusCode, value: &impl Serialize) -> Result<Response, Problem> {
        let mut text = Text { holder: self, held: self.hold(0)?, bytes: Vec::new(), full: None };
        let written =
            serde_json::to_writer(&mut text, value).and_then(|()| text.write_all(b"\n").map_err(serde_json::Error::io));
        if let Err(error) = written {
            return Err(text.full.unwrap_or_else(|| Problem::new("internal_error", format!("the answer: {error}"))));
        }
        Ok(typed(status, "application/json", text.held.carry(text.bytes)))
    }

    /// An answer with this text, which is held until it is sent. It is given even if there is no room for it.
    pub(crate) fn text(&self, kind: &str, text: Vec<u8>) -> Result<Response, Problem> {
        Ok(typed(StatusCode::OK, kind, self.hold(0)?.carry(text)))
    }
}

fn typed(status: StatusCode, kind: &str, text: Bytes) -> Response {
    let mut answer = Response::new(Body::from(text));
    *answer.status_mut() = status;
    let kind = HeaderValue::from_str(kind).unwrap_or(HeaderValue::from_static("text/plain"));
    answer.headers_mut().insert(header::CONTENT_TYPE, kind);
    answer
}

/// A text that is being written. Its memory is held before it is taken.
struct Text<'a> {
    holder: &'a Holder,
    held: Held,
    bytes: Vec<u8>,
    full: Option<Problem>,
}

impl Write for Text<'_> {
    fn write(&mut self, more: &[u8]) -> std::io::Result<usize> {
        let Self { holder, held, bytes, full } = self;
        held.add(bytes, more, usize::MAX, |held, more| holder.grow(held, more)).map_err(|problem| {
            *full = Some(problem);
            std::io::Error::from(std::io::ErrorKind::OutOfMemory)
        })?;
        Ok(more.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
