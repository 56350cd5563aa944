//! Trace context in the headers of messages.

use thermae_backplane::bus::Headers;
use thermae_schemas::names;
use thermae_service::trace::{self, TraceContext};

/// Writes a span's context into headers.
pub(crate) fn inject(span: &tracing::Span, headers: &mut Headers) {
    let context = trace::inject(span);
    if let Some(parent) = context.traceparent {
        headers.set_text(names::H_TRACEPARENT, parent);
    }
    if let Some(state) = context.tracestate {
        headers.set_text(names::H_TRACESTATE, state);
    }
}

/// Makes the trace context in the headers the span's parent, if there is one.
pub(crate) fn adopt(span: &tracing::Span, headers: &Headers) {
    if let Some(parent) = headers.text(names::H_TRACEPARENT) {
        let context = TraceContext {
            traceparent: Some(parent.to_owned()),
            tracestate: headers.text(names::H_TRACESTATE).map(str::to_owned),
        };
        trace::adopt(span, &context);
    }
}
