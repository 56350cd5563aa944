//! `GET /v1/connect`: an SDK's connection, as a WebSocket whose messages are the frames of `docs/sdk-protocol.md`.

mod arriving;
mod open;
mod pieces;
mod share;
mod socket;

use std::num::NonZeroU32;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header;
use axum::response::Response;
use hyper_util::rt::TokioIo;
use tokio_tungstenite::tungstenite::handshake::server::create_response_with_body;

use crate::identity::Caller;
use crate::problem::Problem;
use crate::room::UnderWay;
use crate::server::Shared;
use crate::tenants::Lease;

/// Checks a request, and answers it with the upgrade to a WebSocket, which is then served.
pub(crate) async fn connect(
    shared: Arc<Shared>,
    caller: Caller,
    service: Arc<Lease>,
    mut request: Request,
) -> Result<Response, Problem> {
    // A page can't send a token of its own with a WebSocket, but it could use what a browser sends for it.
    if request.headers().contains_key(header::ORIGIN) {
        shared.metrics.refused.with_label_values(&["origin"]).inc();
        return Err(Problem::new("origin_refused", "the request comes from a page in a browser (it has an Origin)"));
    }
    if request.uri().query().is_some() {
        return Err(Problem::new("bad_parameter", "the query has a parameter (there are none)"));
    }
    let answer = create_response_with_body(&request, Body::empty);
    let answer = answer.map_err(|why| Problem::new("upgrade_required", why.to_string()))?;
    if shared.draining.is_cancelled() {
        return Err(Problem::new("draining", "the gateway is stopping"));
    }
    let (all, share) = (shared.options.sdks, shared.options.share(shared.options.sdks));
    let refused = |detail: String| {
        shared.metrics.refused.with_label_values(&["sdks"]).inc();
        Problem::new("too_many_connections", detail)
    };
    let Some(of_tenant) = service.place_of_sdk() else {
        return Err(refused(format!("{share} SDKs of the tenant are connected already")));
    };
    let Ok(place) = shared.sdks.clone().try_acquire_owned() else {
        return Err(refused(format!("{all} SDKs are connected already")));
    };
    // The runs of an SDK are not counted one by one, so it takes all places that its key may have.
    let places = (0..caller.runs_at_once.map_or(0, NonZeroU32::get)).map(|_| service.place(&caller));
    let places = places.collect::<Result<Vec<_>, _>>()?;
    let under_way = request.extensions_mut().remove::<Arc<UnderWay>>();
    let upgraded = hyper::upgrade::on(&mut request);
    // The gateway's end waits for this.
    shared.serving.clone().spawn(async move {
        match upgraded.await {
            Ok(upgraded) => socket::serve(shared, caller, service, TokioIo::new(upgraded)).await,
            Err(error) => tracing::debug!(%error, "an SDK was gone before it was connected"),
        }
        drop((under_way, of_tenant, place, places));
    });
    Ok(answer)
}
