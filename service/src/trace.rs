//! Passes traces from process to process in the form of the W3C: `traceparent` and `tracestate`.

use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator};
use opentelemetry::trace::TraceContextExt;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// A span's position in its trace, as it travels in message headers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TraceContext {
    /// Ids of trace and span, and flags. `None` if there is no trace.
    pub traceparent: Option<String>,
    /// Data that tracing vendors add.
    pub tracestate: Option<String>,
}

impl TraceContext {
    /// Whether there is no trace to pass on.
    pub fn is_empty(&self) -> bool {
        self.traceparent.is_none()
    }
}

/// The span's trace context, for the next process. Empty if this process exports no traces, or if the span has no
/// trace.
pub fn inject(span: &Span) -> TraceContext {
    let mut carrier = TraceContext::default();
    TraceContextPropagator::new().inject_context(&span.context(), &mut carrier);
    carrier.tracestate = carrier.tracestate.filter(|state| !state.is_empty());
    carrier
}

/// Like [`inject`], but a process that exports no traces passes on what it received, so that the trace isn't
/// interrupted.
pub fn forward(span: &Span, received: &TraceContext) -> TraceContext {
    let own = inject(span);
    if own.is_empty() { received.clone() } else { own }
}

/// Makes the span a child of the received one. This must be called before the span is entered for the first time. It
/// does nothing if the received context is invalid, or if this process exports no traces.
pub fn adopt(span: &Span, received: &TraceContext) {
    if received.is_empty() {
        return;
    }
    let context = TraceContextPropagator::new().extract(received);
    if context.span().span_context().is_valid() {
        // This fails if no traces are exported, or if the span was entered before. Neither matters to the job.
        let _ = span.set_parent(context);
    }
}

impl Injector for TraceContext {
    fn set(&mut self, key: &str, value: String) {
        match key {
            "traceparent" => self.traceparent = Some(value),
            "tracestate" => self.tracestate = Some(value),
            _ => {}
        }
    }
}

impl Extractor for TraceContext {
    fn get(&self, key: &str) -> Option<&str> {
        match key {
            "traceparent" => self.traceparent.as_deref(),
            "tracestate" => self.tracestate.as_deref(),
            _ => None,
        }
    }

    fn keys(&self) -> Vec<&str> {
        vec!["traceparent", "tracestate"]
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry::trace::TracerProvider;
    use opentelemetry_sdk::trace::SdkTracerProvider;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    const RECEIVED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn received() -> TraceContext {
        TraceContext { traceparent: Some(RECEIVED.to_owned()), tracestate: Some("vendor=1".to_owned()) }
    }

    #[test]
    fn a_trace_goes_through_a_process_that_exports() {
        let provider = SdkTracerProvider::builder().build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let span = tracing::info_span!("work");
            adopt(&span, &received());
            let next = forward(&span, &received());
            let traceparent = next.traceparent.unwrap();
            assert!(traceparent.starts_with("00-0af7651916cd43dd8448eb211c80319c-"), "{traceparent}");
            assert_ne!(traceparent, RECEIVED, "the span itself is the next one's parent");
            assert_eq!(next.tracestate.as_deref(), Some("vendor=1"));
        });
    }

    #[test]
    fn a_trace_goes_through_a_process_that_does_not() {
        let span = tracing::info_span!("work");
        adopt(&span, &received());
        assert!(inject(&span).is_empty());
        assert_eq!(forward(&span, &received()), received());
    }

    #[test]
    fn nonsense_is_no_parent() {
        let provider = SdkTracerProvider::builder().build();
        let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let span = tracing::info_span!("work");
            adopt(&span, &TraceContext { traceparent: Some("00-zz".to_owned()), tracestate: None });
            assert!(inject(&span).traceparent.is_some(), "the span begins a trace of its own");
        });
    }
}
