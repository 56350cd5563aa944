//! Turns requests into arguments of [`crate::service`], and results into answers.

mod artifacts;
pub(crate) mod batches;
mod events;
mod exec;
mod files;
mod health;
mod runs;
mod sessions;
mod tokens;
pub(crate) mod uploads;
mod usage;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::call::Call;
use crate::check::Check;
use crate::hold::Holder;
use crate::identity::{Caller, Denied};
use crate::op::Op;
use crate::problem::Problem;
use crate::server::Shared;
use crate::tenants::Lease;
use crate::{connect, openapi};

/// Names of the parameters that an operation's query may have.
pub(crate) fn parameters(op: Op) -> &'static [&'static str] {
    match op {
        Op::Submit | Op::Run => &["wait", "until"],
        Op::Cancel | Op::SubmitBatch | Op::Batch | Op::CancelBatch => &["wait"],
        Op::Runs => &["state", "limit", "cursor"],
        Op::Artifact => &["root"],
        Op::RunInfo => &["stdout_from", "stderr_from"],
        Op::CloseSession => &["pool"],
        Op::Checkpoint => &["pool", "ttl_ms"],
        Op::Restore => &["from", "pool", "language", "ttl_ms", "reset"],
        Op::ListFiles => &["depth", "most"],
        Op::ReadFile => &["op", "root", "link", "depth", "most"],
        Op::WriteFile => &["op", "root", "mode", "offset", "permissions", "parents"],
        Op::RemoveFile => &["root", "recursive"],
        Op::CreateUpload => &["root", "permissions", "parents", "sha256"],
        Op::Usage => &["hours"],
        _ => &[],
    }
}

/// Answers a request for an operation that works for no tenant.
pub(crate) fn of_no_tenant(op: Op, shared: &Arc<Shared>) -> Result<Response, Problem> {
    let holder = Holder::new(shared.clone(), None);
    match op {
        Op::Alive => Ok(health::alive()),
        Op::Ready => Ok(health::ready(shared)),
        Op::Document => holder.json(StatusCode::OK, openapi::document()),
        Op::Metrics => health::metrics(shared, &holder),
        _ => Err(Problem::new("internal_error", "the operation works for a tenant")),
    }
}

/// Answers a caller's request for an operation that the caller may do.
pub(crate) async fn answer(
    op: Op,
    shared: Arc<Shared>,
    caller: Caller,
    service: Arc<Lease>,
    request: Request,
) -> Result<Response, Problem> {
    if op == Op::Connect {
        return connect::connect(shared, caller, service, request).await;
    }
    let call = Call::read(shared, caller, service, request, parameters(op)).await?;
    match op {
        Op::Submit => runs::submit(call).await,
        Op::Runs => runs::list(&call),
        Op::Run => runs::get(call).await,
        Op::RunInfo => runs::info(call).await,
        Op::TakeOver => runs::take_over(call).await,
        Op::Cancel => runs::cancel(call).await,
        Op::Answer => runs::answer(call).await,
        Op::Decide => runs::decide(call).await,
        Op::Events => events::follow(call).await,
        Op::Artifact => artifacts::get(call).await,
        Op::SubmitBatch => batches::submit(call).await,
        Op::Batch => batches::get(call).await,
        Op::BatchResults => batches::results(&call),
        Op::CancelBatch => batches::cancel(call).await,
        Op::Sessions => sessions::list(call).await,
        Op::CloseSession => sessions::close(call).await,
        Op::Checkpoint => sessions::checkpoint(call).await,
        Op::Restore => sessions::restore(call).await,
        Op::Exec => exec::exec(call).await,
        Op::ListFiles => files::list(call).await,
        Op::ReadFile => files::read(call).await,
        Op::WriteFile => files::write(call).await,
        Op::RemoveFile => files::remove(call).await,
        Op::CreateUpload => uploads::create(call).await,
        Op::Upload => uploads::get(call).await,
        Op::SendUpload => uploads::send(call).await,
        Op::GiveUpUpload => uploads::give_up(call).await,
        Op::Usage => usage::get(&call),
        Op::MintToken => tokens::mint(call).await,
        Op::NarrowToken => tokens::narrow(call).await,
        Op::ShowToken => tokens::show(call).await,
        Op::Connect | Op::Document | Op::Alive | Op::Ready | Op::Metrics => {
            Err(Problem::new("internal_error", "the operation works for no tenant"))
        }
    }
}

/// What stands as it is in a segment of a path.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// The answer with the place of what it is about.
fn located(mut answer: Response, what: &str, id: &str) -> Response {
    if let Ok(location) = HeaderValue::from_str(&format!("/v1/{what}/{}", utf8_percent_encode(id, SEGMENT))) {
        answer.headers_mut().insert(header::LOCATION, location);
    }
    answer
}

/// An answer without a body.
fn empty(status: StatusCode) -> Response {
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = status;
    answer
}

/// A body that keeps something until it is sent, and is cut off if the caller may not go on.
pub(crate) fn holding(body: Body, check: Check, kept: impl Send + Unpin + 'static) -> Body {
    let is_whole = body.size_hint().exact().is_some();
    let denied: Option<Denial> = if is_whole { None } else { Some(Box::pin(check.denied())) };
    Body::new(Holding { body, denied, _kept: kept })
}

/// A body that keeps something until it is sent.
pub(crate) fn keeping(body: Body, kept: impl Send + Unpin + 'static) -> Body {
    Body::new(Holding { body, denied: None, _kept: kept })
}

type Denial = Pin<Box<dyn Future<Output = Denied> + Send>>;

struct Holding<T> {
    body: Body,
    /// Ends when the caller is denied. `None`: the body is short.
    denied: Option<Denial>,
    _kept: T,
}

impl<T: Send + Unpin + 'static> HttpBody for Holding<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<Bytes>, axum::Error>>> {
        if let Some(denied) = &mut self.denied
            && let Poll::Ready(denied) = denied.as_mut().poll(cx)
        {
            // The head of the answer is gone: only the connection can tell.
            self.denied = None;
            return Poll::Ready(Some(Err(axum::Error::new(denied))));
        }
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        self.body.size_hint()
    }
}
