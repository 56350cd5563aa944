//! `GET /v1/connect`: an SDK's connection, as a WebSocket whose messages are the frames of `docs/sdk-protocol.md`.

mod open;
mod share;
mod socket;

use std::num::NonZeroU32;
use std::sync::Arc;

use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{FromRequestParts, Request};
use axum::http::header;
use axum::response::Response;
use thermae_bridge::frames::LARGEST_MESSAGE;

use crate::identity::Caller;
use crate::problem::Problem;
use crate::server::{Seat, Shared};
use crate::tenants::Lease;

/// Bytes that are read at once. A connection always has room for them.
const READ: usize = 16 << 10;

/// Checks a request, and answers it with the upgrade to a WebSocket, which is then served.
pub(crate) async fn connect(
    shared: Arc<Shared>,
    caller: Caller,
    service: Arc<Lease>,
    request: Request,
) -> Result<Response, Problem> {
    let (mut parts, _) = request.into_parts();
    // A page can't send a token of its own with a WebSocket, but it could use what a browser sends for it.
    if parts.headers.contains_key(header::ORIGIN) {
        shared.metrics.refused.with_label_values(&["origin"]).inc();
        return Err(Problem::new("origin_refused", "the request comes from a page in a browser (it has an Origin)"));
    }
    if parts.uri.query().is_some() {
        return Err(Problem::new("bad_parameter", "the query has a parameter (there are none)"));
    }
    let seat = parts.extensions.remove::<Seat>();
    let upgrade = WebSocketUpgrade::from_request_parts(&mut parts, &()).await;
    let upgrade = upgrade.map_err(|why| Problem::new("upgrade_required", why.to_string()))?;
    if shared.draining.is_cancelled() {
        return Err(Problem::new("draining", "the gateway is stopping"));
    }
    let Ok(place) = shared.sdks.clone().try_acquire_owned() else {
        shared.metrics.refused.with_label_values(&["sdks"]).inc();
        let most = shared.options.sdks;
        return Err(Problem::new("too_many_connections", format!("{most} SDKs are connected already")));
    };
    // The runs of an SDK are not counted one by one, so it takes all places that its key may have.
    let places = (0..caller.runs_at_once.map_or(0, NonZeroU32::get)).map(|_| service.place(&caller));
    let places = places.collect::<Result<Vec<_>, _>>()?;
    let under_way = shared.serving.token();
    let upgrade = upgrade.max_message_size(LARGEST_MESSAGE).max_frame_size(LARGEST_MESSAGE).read_buffer_size(READ);
    Ok(upgrade.on_upgrade(move |socket| async move {
        socket::serve(shared, caller, service, socket).await;
        drop((seat, place, places));
        // The gateway's end waits for this, so it comes last.
        drop(under_way);
    }))
}
