//! What every request goes through: its id, its trace, the bound of requests at once, the check of who sends it, and
//! metrics.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::on;
use futures::FutureExt;
use thermae_service::trace::{self, TraceContext};
use tracing::Instrument;

use crate::call::single;
use crate::check::Check;
use crate::hold::{Holder, REQUEST};
use crate::identity::{self, Caller};
use crate::op::{self, Access, Op};
use crate::problem::Problem;
use crate::room::UnderWay;
use crate::routes;
use crate::routes::uploads::{TUS_RESUMABLE, TUS_VERSION, VERSION};
use crate::server::{HEADER_BYTES, Shared};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Id of the request, among its extensions.
#[derive(Clone)]
pub(crate) struct RequestId(pub(crate) Arc<str>);

/// All routes.
pub(crate) fn router(shared: Arc<Shared>) -> Router {
    let mut router = Router::new();
    for op in Op::ALL {
        let answered = move |State(shared): State<Arc<Shared>>, request: Request| answer(op, shared, request);
        router = router.route(op.facts().path, on(op.filter(), answered));
    }
    let nowhere = |request: Request| async move {
        let problem = Problem::new("unknown_route", format!("there is nothing at {:?}", request.uri().path()));
        problem.into_answer(&id_of(&request))
    };
    let wrong = |request: Request| async move {
        let detail = format!("{:?} does not take {}", request.uri().path(), request.method());
        Problem::new("method_not_allowed", detail).into_answer(&id_of(&request))
    };
    router
        .fallback(nowhere)
        .method_not_allowed_fallback(wrong)
        .layer(middleware::from_fn_with_state(shared.clone(), around))
        .with_state(shared)
}

fn id_of(request: &Request) -> Arc<str> {
    request.extensions().get::<RequestId>().map_or_else(|| "".into(), |id| id.0.clone())
}

/// Whether the request's connection has only a place to be told health.
fn is_for_health(request: &Request) -> bool {
    request.extensions().get::<Arc<UnderWay>>().is_some_and(|under_way| under_way.for_health)
}

/// Answers a request for an operation.
async fn answer(op: Op, shared: Arc<Shared>, request: Request) -> Response {
    let (id, begun, facts) = (id_of(&request), Instant::now(), op.facts());
    let metrics = shared.metrics.clone();
    let permit = shared.requests.clone().try_acquire_owned();
    let for_health = is_for_health(&request);
    let answered = async {
        // Health is told even if the gateway is full.
        if for_health && !matches!(op, Op::Alive | Op::Ready) {
            shared.metrics.refused.with_label_values(&["connections"]).inc();
            let most = shared.options.connections;
            let detail = format!("all {most} connections, or all of one address, have requests under way");
            return Err(Problem::new("too_many_connections", detail));
        }
        let permit = match permit {
            Ok(permit) => Some(permit),
            Err(_) if matches!(op, Op::Alive | Op::Ready | Op::Metrics) => None,
            Err(_) => {
                shared.metrics.refused.with_label_values(&["requests"]).inc();
                let most = shared.options.requests;
                return Err(Problem::new("too_many_requests", format!("{most} requests are under way already")));
            }
        };
        let Some(caller) = admitted(op, &shared, request.headers()).await? else {
            return routes::of_no_tenant(op, &shared);
        };
        let service = Arc::new(shared.tenants.service(&caller.tenant).await?);
        let held = Holder::new(shared.clone(), Some(service.clone())).hold(REQUEST + op.takes())?;
        let check = Check::of(&shared, &caller);
        let answer = check.during(routes::answer(op, shared.clone(), caller, service.clone(), request)).await?;
        // A body that is streamed counts until its end.
        Ok(answer.map(|body| routes::holding(body, check, (permit, service, held))))
    };
    let answered = std::panic::AssertUnwindSafe(answered).catch_unwind().await;
    let mut answer = match answered {
        Ok(Ok(answer)) => answer,
        Ok(Err(problem)) => {
            if problem.status.is_server_error() {
                tracing::warn!(
                    operation = facts.name,
                    code = problem.code,
                    detail = problem.detail,
                    "a request failed"
                );
            }
            problem.into_answer(&id)
        }
        Err(_) => {
            tracing::error!(operation = facts.name, "a request panicked");
            Problem::new("internal_error", "the gateway itself failed").into_answer(&id)
        }
    };
    if op.is_of_tus() {
        let name = if answer.status() == StatusCode::PRECONDITION_FAILED { TUS_VERSION } else { TUS_RESUMABLE };
        answer.headers_mut().insert(name, HeaderValue::from_static(VERSION));
    }
    metrics.requests.with_label_values(&[facts.name, answer.status().as_str()]).inc();
    metrics.seconds.with_label_values(&[facts.name]).observe(begun.elapsed().as_secs_f64());
    answer
}

/// Finds out who a request comes from, by its headers. This is the only way in: whoever serves the caller must still
/// check the scopes.
pub(crate) async fn caller(shared: &Shared, headers: &HeaderMap) -> Result<Caller, Problem> {
    let refuse = |reason| shared.metrics.refused.with_label_values(&[reason]).inc();
    let secret = identity::secret(headers).inspect_err(|_| refuse("token"))?;
    let caller = shared.identity.caller(secret).await.inspect_err(|denied| refuse(denied.reason()))?;
    let span = tracing::Span::current();
    span.record("tenant", caller.tenant.as_str());
    if let Some(key) = &caller.key {
        span.record("key.id", &**key);
    }
    Ok(caller)
}

/// The caller for whose tenant the operation works. `None`: it works for no tenant, and may be done.
async fn admitted(op: Op, shared: &Shared, headers: &HeaderMap) -> Result<Option<Caller>, Problem> {
    let access = op.facts().access;
    if access == Access::Everybody {
        return Ok(None);
    }
    let caller = caller(shared, headers).await?;
    let may = match access {
        Access::Scope(scope) => caller.needs(scope).map(|()| Some(caller)),
        Access::Sdk => op::SDK.into_iter().try_for_each(|scope| caller.needs(scope)).map(|()| Some(caller)),
        _ if caller.operator => Ok(None),
        _ => Err(Problem::new("missing_scope", "the metrics are about all tenants, and no API key opens them")),
    };
    may.inspect_err(|_| shared.metrics.refused.with_label_values(&["scope"]).inc())
}

/// Gives the request an id and a span.
fn begin(request: &mut Request) -> (Arc<str>, tracing::Span, Option<Problem>) {
    let (id, trouble) = match request_id(request.headers()) {
        Ok(id) => (id, too_large(request).err()),
        Err(problem) => (made(), Some(problem)),
    };
    let span = tracing::info_span!(
        "request",
        otel.kind = "server",
        http.request.method = %request.method(),
        request.id = %id,
        tenant = tracing::field::Empty,
        key.id = tracing::field::Empty,
    );
    let text = |name| request.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    trace::adopt(&span, &TraceContext { traceparent: text("traceparent"), tracestate: text("tracestate") });
    request.extensions_mut().insert(RequestId(id.clone()));
    (id, span, trouble)
}

/// What comes before and after every request: its id, and the headers that all answers have.
async fn around(State(shared): State<Arc<Shared>>, mut request: Request, next: Next) -> Response {
    let (id, span, trouble) = begin(&mut request);
    let is_last = is_for_health(&request);
    let mut answer = match trouble {
        Some(problem) => problem.into_answer(&id),
        None => next.run(request).instrument(span).await,
    };
    let headers = answer.headers_mut();
    if let Ok(id) = HeaderValue::from_str(&id) {
        headers.insert(REQUEST_ID, id);
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if is_last || shared.draining.is_cancelled() {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

/// Refuses a request whose head is too large. The server reads somewhat more before it ends the connection itself.
fn too_large(request: &Request) -> Result<(), Problem> {
    let headers = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 4);
    let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    if headers.sum::<usize>() + target <= HEADER_BYTES {
        return Ok(());
    }
    Err(Problem::new(
        "headers_too_large",
        format!("the request's target and headers have more than {HEADER_BYTES} bytes"),
    ))
}

/// The id that the client chose, or a new one.
fn request_id(headers: &HeaderMap) -> Result<Arc<str>, Problem> {
    match single(headers, &REQUEST_ID)? {
        None => Ok(made()),
        Some(id) if (1..=128).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(id.into()),
        Some(_) => {
            Err(Problem::new("bad_header", "X-Request-Id has 1 to 128 visible ASCII characters, without spaces"))
        }
    }
}

fn made() -> Arc<str> {
    uuid::Uuid::now_v7().to_string().into()
}
