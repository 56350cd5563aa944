//! What the tenant used.

use axum::http::StatusCode;
use axum::response::Response;

use crate::call::Call;
use crate::problem::Problem;
use crate::usage::MOST_HOURS;

/// Hours that are told, unless the caller says otherwise.
const HOURS: u64 = 24;

pub(super) fn get(call: &Call) -> Result<Response, Problem> {
    let hours = call.query("hours")?.unwrap_or(HOURS);
    if !(1..=MOST_HOURS).contains(&hours) {
        return Err(Problem::new("bad_parameter", format!("hours: 1 to {MOST_HOURS}")));
    }
    call.holder.json(StatusCode::OK, &call.service.meter.view(hours))
}
