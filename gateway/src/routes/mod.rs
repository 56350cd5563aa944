//! Turns requests into arguments of [`crate::service`], and results into answers.

mod artifacts;
mod events;
mod exec;
mod files;
mod health;
mod runs;
mod sessions;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use serde::Serialize;
use tokio::sync::OwnedSemaphorePermit;

use crate::call::Call;
use crate::op::Op;
use crate::problem::Problem;
use crate::server::Shared;
use crate::{connect, openapi};

/// Names of the parameters that an operation's query may have.
pub(crate) fn parameters(op: Op) -> &'static [&'static str] {
    match op {
        Op::Submit | Op::Run => &["wait", "until"],
        Op::Cancel => &["wait"],
        Op::Runs => &["state", "limit", "cursor"],
        Op::RunInfo => &["stdout_from", "stderr_from"],
        Op::CloseSession => &["pool"],
        Op::ListFiles => &["depth", "most"],
        Op::ReadFile => &["op", "root", "link", "depth", "most"],
        Op::WriteFile => &["op", "root", "mode", "offset", "permissions", "parents"],
        Op::RemoveFile => &["root", "recursive"],
        _ => &[],
    }
}

/// Answers a request for an operation.
pub(crate) async fn answer(op: Op, shared: Arc<Shared>, request: Request) -> Result<Response, Problem> {
    let call = match op {
        Op::Alive => return Ok(health::alive()),
        Op::Ready => return Ok(health::ready(&shared)),
        Op::Metrics => return health::metrics(&shared),
        Op::Document => return json(StatusCode::OK, openapi::document()),
        Op::Connect => return connect::connect(shared, request).await,
        _ => Call::read(shared, request, parameters(op)).await?,
    };
    match op {
        Op::Submit => runs::submit(call).await,
        Op::Runs => runs::list(&call),
        Op::Run => runs::get(call).await,
        Op::RunInfo => runs::info(call).await,
        Op::TakeOver => runs::take_over(call).await,
        Op::Cancel => runs::cancel(call).await,
        Op::Answer => runs::answer(call).await,
        Op::Events => events::follow(call).await,
        Op::Artifact => artifacts::get(call).await,
        Op::Sessions => sessions::list(call).await,
        Op::CloseSession => sessions::close(call).await,
        Op::Exec => exec::exec(call).await,
        Op::ListFiles => files::list(call).await,
        Op::ReadFile => files::read(call).await,
        Op::WriteFile => files::write(call).await,
        Op::RemoveFile => files::remove(call).await,
        Op::Connect | Op::Document | Op::Alive | Op::Ready | Op::Metrics => {
            Err(Problem::new("internal_error", "no such operation"))
        }
    }
}

/// An answer with a value as JSON.
fn json(status: StatusCode, value: &impl Serialize) -> Result<Response, Problem> {
    let mut text =
        serde_json::to_vec(value).map_err(|error| Problem::new("internal_error", format!("the answer: {error}")))?;
    text.push(b'\n');
    let mut answer = Response::new(Body::from(text));
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(answer)
}

/// An answer without a body.
fn empty(status: StatusCode) -> Response {
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = status;
    answer
}

/// A body that holds the place of its request until it is sent.
pub(crate) fn holding(body: Body, permit: Option<OwnedSemaphorePermit>) -> Body {
    Body::new(Holding { body, _permit: permit })
}

struct Holding {
    body: Body,
    _permit: Option<OwnedSemaphorePermit>,
}

impl HttpBody for Holding {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        self.body.size_hint()
    }
}
