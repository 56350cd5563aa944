//! Spans reach an OTLP receiver, as children of the span in the received headers.

use thermae_service::{telemetry, trace};
use thermae_testkit::collector::Collector;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spans_reach_a_receiver_under_the_parent_that_came_in() {
    let collector = Collector::start().unwrap();
    let endpoint = collector.endpoint().to_owned();
    let options = telemetry::Options { otlp_endpoint: Some(endpoint), log: "warn".into(), ..Default::default() };
    let guard = telemetry::init("thermae-test", &options, &Default::default()).unwrap();
    let parent = trace::TraceContext {
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
        tracestate: None,
    };
    {
        let span = tracing::info_span!("run", job = "j1");
        trace::adopt(&span, &parent);
        let _entered = span.enter();
        tracing::info!("working");
    }
    guard.shutdown().await;

    let spans = collector.end();
    let span = spans.first().expect("a span");
    assert_eq!((span.service.as_str(), span.name.as_str()), ("thermae-test", "run"));
    assert_eq!(span.trace, 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c_u128.to_be_bytes());
    assert_eq!(span.parent, 0xb7ad_6b71_6920_3331_u64.to_be_bytes());
}
